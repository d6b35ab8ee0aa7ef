package blackbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"llmgw/internal/fakellm"
)

func TestH1CallsArePacedToTheProviderAndNeverRefusedByIt(t *testing.T) {
	w := start(t, setup{
		alone:    true, // calls that are late by a tenth of the window bunch
		provider: "limits: {requests_per_minute: 600, tokens_per_minute: 600000, window: 1s}\nmax_wait: 10s",
		fake:     fakellm.Options{RPM: 600, TPM: 600_000, Window: time.Second},
	})
	w.paced(ask("sim-in10-out10", `"max_tokens":100`))
}

func TestPacingHoldsOverAllInstances(t *testing.T) {
	w := start(t, setup{
		gateways: 2, redis: true, alone: true,
		provider: "limits: {requests_per_minute: 600, window: 1s}\nmax_wait: 10s",
		fake:     fakellm.Options{RPM: 600, Window: time.Second},
	})
	w.paced(ask("sim-in10-out10"))
}

// paced sends 30 calls at once to a provider that takes 10 a second, and checks
// that all are answered in the 10 s that they may wait. On a machine that is
// held up calls bunch on their way, so the provider may refuse a tenth of what
// it refuses of calls that nobody paces; that it refuses none at all is for
// upstream's tests on virtual time.
func (w *world) paced(body string) {
	w.t.Helper()
	if got := count(w.together(30, body), 200); got != 30 {
		w.t.Errorf("got %d of 30 answered", got)
	}
	refused := w.provider.Stats().Limited
	var all sync.WaitGroup
	for range 30 {
		all.Go(func() { w.direct(body) })
	}
	all.Wait()
	if unpaced := w.provider.Stats().Limited - refused; 10*refused > unpaced {
		w.t.Errorf("the provider refused %d calls, and %d when nobody paced them: want a tenth at most", refused, unpaced)
	}
	w.settled()
}

func TestACallThatCannotHaveItsTurnInTimeIsRefusedAtOnce(t *testing.T) {
	w := start(t, setup{provider: "limits: {requests_per_minute: 60, window: 1s}\nmax_wait: 3s"})
	answers := w.together(10, ask("sim-out1"))
	ok, no := count(answers, 200), count(answers, 503)
	if ok < 3 || no < 3 || ok+no != 10 {
		t.Errorf("got %d answered and %d refused, want those whose turn comes within 3 s and the rest", ok, no)
	}
	for _, a := range answers {
		if a.Status == 503 && (a.Code() != "upstream_capacity" || a.Header.Get("Retry-After") == "") {
			t.Errorf("got %q, Retry-After %q", a.Code(), a.Header.Get("Retry-After"))
		}
	}
	w.settled()
}

func TestRequestsWaitForALimitThatLetsThem(t *testing.T) {
	w := start(t, setup{limits: "{name: rps, unit: requests, amount: 10, per: second, burst: 1, on_exceed: wait, max_wait: 5s}"})
	began := time.Now()
	if got := count(w.together(10, ask("sim-out1")), 200); got != 10 {
		t.Errorf("got %d of 10 answered", got)
	}
	if took := time.Since(began); took < 800*time.Millisecond {
		t.Errorf("ten requests at ten a second took %v", took)
	}
	a := w.Post(secret, chat, ask("sim-out1"), "X-LLMGW-Max-Wait", "0s")
	b := w.Post(secret, chat, ask("sim-out1"), "X-LLMGW-Max-Wait", "0s")
	if a.Status != 429 && b.Status != 429 {
		t.Errorf("got %d and %d, want a refusal for a client that does not wait", a.Status, b.Status)
	}
	w.settled()
}

func TestD16AStreamThatHasBegunIsNeverTriedAgain(t *testing.T) {
	w := start(t, setup{provider: "retries: {attempts: 2}"})
	if _, err := w.Try(secret, chat, ask("sim-out40-cut3", streamed)); err == nil {
		t.Error("the stream ended cleanly")
	}
	if got := w.provider.Stats().Requests; got != 1 {
		t.Errorf("the provider saw %d calls, want 1", got)
	}
	if a := w.Post(secret, chat, ask("sim-out4-fail503x1", streamed)); a.Status != 200 {
		t.Errorf("before the first byte: got %d, want the answer of the second try", a.Status)
	}
	w.settled()
}

func TestI1MemoryDoesNotGrowWithWhoAsks(t *testing.T) {
	w := start(t, setup{limits: "{name: per-user, scope: user, unit: tokens, amount: 1M, per: second}"})
	const users = 3000
	soak := func(round int) float64 {
		for i := range users {
			if a := w.Post(secret, chat, ask(fmt.Sprintf("sim-out1-tag%d", i%50)), "X-LLMGW-User", fmt.Sprintf("user-%d-%d", round, i)); a.Status != 200 {
				t.Fatalf("got %d\n%s", a.Status, a.Body)
			}
		}
		return w.Metrics().Sum("process_resident_memory_bytes")
	}
	soak(0)
	second := soak(1)
	last := soak(2)
	if grown := last - second; grown > 16<<20 {
		t.Errorf("another %d users cost %.1f MB, want no growth that goes on", users, grown/1e6)
	}
	if series := w.Metrics().Count("llmgw_requests_total"); series > 200 {
		t.Errorf("got %d series of requests, want them bounded", series)
	}
	w.settled()
}

func TestJ3ABadConfigurationIsRefusedWholeAndTheOldOneStays(t *testing.T) {
	s := setup{limits: monthly("tokens", "tokens", 1000)}
	w := start(t, s)
	if a := w.Post(secret, chat, ask("sim-in100-out100")); a.Status != 400 && a.Status != 200 {
		t.Fatalf("got %d", a.Status)
	}
	w.Post(secret, chat, ask("sim-in100-out100", bound(400)))
	spent := w.spent("tokens")
	if spent == 0 {
		t.Fatal("nothing was spent")
	}
	good := s.config(w)
	w.WriteConfig(strings.Replace(good, "name: search", "nome: search", 1))
	w.Eventually("refused", 10*time.Second, func() bool { return w.Metrics().Sum("llmgw_config_last_reload_successful") == 0 })
	if a := w.Post(secret, chat, ask("sim-in1-out1", bound(20))); a.Status != 200 {
		t.Errorf("under the old configuration: got %d, want 200", a.Status)
	}
	if a := w.Admin("POST", "/admin/v1/reload", ""); a.Status != 422 || !strings.Contains(a.Body, "nome") {
		t.Errorf("reload: got %d, want 422 with the error\n%s", a.Status, a.Body)
	}
	w.WriteConfig(strings.Replace(good, "amount: 1000,", "amount: 3000,", 1))
	w.Eventually("taken up", 10*time.Second, func() bool { return w.Limit("search", "tokens").Amount == 3000 })
	// A file that is included for the first time, and broken, is looked at again.
	part := filepath.Join(t.TempDir(), "part.yaml")
	putFile(t, part, "teams: [")
	w.WriteConfig("include: [" + part + "]\n" + strings.Replace(good, "amount: 1000,", "amount: 3000,", 1))
	w.Eventually("refused", 10*time.Second, func() bool { return w.Metrics().Sum("llmgw_config_last_reload_successful") == 0 })
	putFile(t, part, "teams: [{name: included}]")
	w.Eventually("corrected", 10*time.Second, func() bool { return w.Metrics().Sum("llmgw_config_last_reload_successful") == 1 })
	if got := w.Limit("search", "tokens").Remaining; got != 3000-float64(spent+2) {
		t.Errorf("got %v left after the reload, want the used amount kept: %d", got, 3000-(spent+2))
	}
	w.settled()
}

func putFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
