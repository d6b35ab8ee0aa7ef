package blackbox

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"llmgw/internal/fakellm"
)

func TestAFileThatIsPutBackIsInForceThoughItIsOlder(t *testing.T) {
	s := setup{redis: true, limits: monthly("m", "requests", 100)}
	w := start(t, s)
	first := w.Config + ".bak"
	if err := os.Rename(w.Config, first); err != nil {
		t.Fatal(err)
	}
	s.limits = monthly("m", "requests", 2)
	w.WriteConfig(s.config(w))
	capacity := func(want float64) {
		t.Helper()
		w.Signal(syscall.SIGHUP)
		w.Eventually("reloaded", eventually, func() bool {
			l := w.Limit("search", "m")
			return l.Amount == want && l.Capacity == want
		})
	}
	capacity(2)
	if a := w.Post(secret, chat, ask("sim-out1")); a.Header.Get("x-ratelimit-remaining-requests") != "1" {
		t.Errorf("got %q left of 2, want 1", a.Header.Get("x-ratelimit-remaining-requests"))
	}
	long := time.Now().Add(-24 * time.Hour)
	if err := os.Chtimes(first, long, long); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(first, w.Config); err != nil {
		t.Fatal(err)
	}
	w.Post(secret, chat, ask("sim-out1"))
	capacity(100)
	w.Post(secret, chat, ask("sim-out1"))
	if got := w.Limit("search", "m").Remaining; got != 97 {
		t.Errorf("got %v left of 100 after three calls, want 97", got)
	}
	w.settled()
}

func TestASecretsFileThatChangesIsTakenUpWithoutASignal(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(key, []byte(content+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("sk-old")
	w := start(t, setup{
		fake:      fakellm.Options{Keys: []string{"sk-new"}},
		models:    "{name: rotated, targets: [{provider: rotating, model: sim-out1}]}",
		providers: `{name: rotating, dialect: openai, base_url: "http://unknown.invalid/v1", api_keys: ["${file:` + key + `}"]}`,
	})
	config, err := os.ReadFile(w.Config)
	if err != nil {
		t.Fatal(err)
	}
	w.WriteConfig(strings.ReplaceAll(string(config), "http://unknown.invalid", w.provider.URL))
	status := func(want int) {
		t.Helper()
		w.Eventually("the key in force", 2*eventually, func() bool { return w.Post(secret, chat, ask("rotated")).Status == want })
	}
	status(502) // a refusal of the gateway's own credential is not the client's
	write("sk-new")
	status(200)
}

func TestOfTheFileAndTheAdminPlaneTheLastWordIsInForce(t *testing.T) {
	s := setup{gateways: 2, redis: true}
	w := start(t, s)
	everywhere := func(mode string) {
		t.Helper()
		for _, g := range w.all {
			g.Eventually(mode+" everywhere", eventually, func() bool {
				return strings.Contains(g.Admin("GET", "/admin/v1/enforcement", "").Body, `"mode":"`+mode+`"`)
			})
		}
	}
	if a := w.Admin("PUT", "/admin/v1/enforcement", `{"mode":"shadow"}`); a.Status != 200 {
		t.Fatalf("got %d %s", a.Status, a.Body)
	}
	everywhere("shadow")
	s.top = "enforcement: 'off'"
	w.WriteConfig(s.config(w))
	if a := w.Admin("POST", "/admin/v1/reload", ""); a.Status != 200 {
		t.Fatalf("reload: got %d %s", a.Status, a.Body)
	}
	everywhere("off") // the other instance has it from the store, so it is no flicker of this one
	for _, by := range []string{"the admin plane", "the configuration"} {
		if !strings.Contains(w.Log(), `"by":"`+by+`"`) {
			t.Errorf("the log does not say that %s turned the switch", by)
		}
	}
}

func TestTheMainSwitchTurnsWithoutTheStoreAndIsToldToItLater(t *testing.T) {
	w := start(t, setup{gateways: 2, redis: true, limits: "{name: guarded, unit: requests, amount: 100, per: month, when_store_down: closed}"})
	w.redis.Kill()
	w.Eventually("refused without the store", eventually, func() bool { return w.Post(secret, chat, ask("sim-out1")).Status == 503 })
	if a := w.Admin("PUT", "/admin/v1/enforcement", `{"mode":"off"}`); a.Status != 200 {
		t.Fatalf("got %d %s", a.Status, a.Body)
	}
	if a := w.Post(secret, chat, ask("sim-out1")); a.Status != 200 {
		t.Errorf("switched off: got %d, want 200", a.Status)
	}
	w.redis.Restart(t)
	for _, g := range w.all {
		g.Eventually("off everywhere", eventually, func() bool {
			return strings.Contains(g.Admin("GET", "/admin/v1/enforcement", "").Body, `"mode":"off"`)
		})
	}
}
