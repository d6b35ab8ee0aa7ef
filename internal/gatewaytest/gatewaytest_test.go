package gatewaytest

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"llmgw/internal/fakellm"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

const key = "sk-llmgw-test"

// config is a gateway with one team, in front of p.
func config(p *Provider, limits string) string {
	return fmt.Sprintf(`
store: {kind: memory}
providers:
  - {name: sim, dialect: openai, base_url: "%s/v1", api_keys: [k]}
models:
  - {name: "*", targets: [{provider: sim}]}
teams:
  - {name: search, limits: [%s], keys: [{id: search-1, sha256: %s}]}
`, p.URL, limits, SHA256(key))
}

func TestAGatewayIsStartedSeenAndStopped(t *testing.T) {
	p := StartProvider(t, fakellm.Options{})
	g := Start(t, config(p, `{name: monthly, unit: tokens, amount: 1000, per: month}`))

	got := g.Post(key, "/v1/chat/completions", `{"model":"sim-in20-out5","messages":[],"max_tokens":10}`)
	if got.Status != http.StatusOK || !strings.Contains(got.Body, "the budget of every team") || got.Code() != "" {
		t.Fatalf("answer = %d %s", got.Status, got.Body)
	}
	if seen := p.Saw("sim-in20-out5"); len(seen) != 1 || seen[0].Key != "k" {
		t.Errorf("the provider saw %+v, want one request with its own key", seen)
	}
	p.AwaitIdle(5 * time.Second)
	g.Eventually("settled", 5*time.Second, func() bool { return g.Limit("search", "monthly").Open == 0 })
	if l := g.Limit("search", "monthly"); l.Remaining != 975 || l.Capacity != 1000 || l.Unit != "tokens" {
		t.Errorf("limit = %+v, want 975 of 1000 tokens", l)
	}
	g.Eventually("counted", 5*time.Second, func() bool {
		return g.Metrics().Sum("llmgw_tokens_total", "team", "search", "kind", "output") == 5
	})

	spent := g.Post(key, "/v1/chat/completions", `{"model":"sim","messages":[],"max_tokens":985}`)
	if spent.Status != http.StatusTooManyRequests || spent.Code() != "insufficient_quota" || spent.LimitedBy() != "team/search/monthly" {
		t.Errorf("985 more: %d %q by %q, want 429 insufficient_quota by team/search/monthly", spent.Status, spent.Code(), spent.LimitedBy())
	}
	if code := g.Stop(); code != 0 {
		t.Errorf("exit code %d, want 0:\n%s", code, g.Log())
	}
	if !strings.Contains(g.Log(), `"level":`) {
		t.Errorf("the log is not JSON: %s", g.Log())
	}
}

func TestAGatewayIsKilledAndStartedAgain(t *testing.T) {
	p := StartProvider(t, fakellm.Options{})
	g := Start(t, config(p, `{name: rpm, unit: requests, amount: 100, per: minute}`))
	pid := g.PID()
	resp, err := g.Open(key, "/v1/chat/completions", `{"model":"sim-chunks9-hang1","stream":true,"messages":[]}`)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	g.Kill()
	if g.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("it ended with %v, want a kill", g.cmd.ProcessState)
	}
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the stream of a killed gateway ended cleanly")
	}
	p.AwaitIdle(5 * time.Second)
	g.Restart()
	if g.PID() == pid {
		t.Error("it is the same process")
	}
	if got := g.Post(key, "/v1/chat/completions", `{"model":"sim","messages":[]}`); got.Status != http.StatusOK {
		t.Errorf("after the restart: %d %s", got.Status, got.Body)
	}
}

func TestAPausedGatewayDoesNotAnswer(t *testing.T) {
	p := StartProvider(t, fakellm.Options{})
	g := Start(t, config(p, `{name: rpm, unit: requests, amount: 100, per: minute}`))
	g.Pause()
	answered := make(chan Answer, 1)
	go func() {
		a, err := g.Try(key, "/v1/chat/completions", `{"model":"sim","messages":[]}`)
		if err != nil {
			t.Error(err)
		}
		answered <- a
	}()
	// The kernel accepts the connection; nobody reads the request.
	select {
	case a := <-answered:
		t.Fatalf("it answered %d though it is stopped", a.Status)
	case <-time.After(100 * time.Millisecond):
	}
	g.Resume()
	if a := <-answered; a.Status != http.StatusOK {
		t.Errorf("after that: %d %s", a.Status, a.Body)
	}
}

func TestAConfigurationIsReplaced(t *testing.T) {
	p := StartProvider(t, fakellm.Options{})
	g := Start(t, config(p, `{name: monthly, unit: tokens, amount: 1000, per: month}`))
	g.WriteConfig(config(p, `{name: monthly, unit: tokens, amount: 3000, per: month}`))
	g.Signal(syscall.SIGHUP)
	g.Eventually("reloaded", 10*time.Second, func() bool { return g.Limit("search", "monthly").Amount == 3000 })
}

func TestAConfigurationWithAMistakeIsTold(t *testing.T) {
	g := Launch(t, "providers: 5\n")
	if code := g.Wait(); code != 1 || !strings.Contains(g.Log(), "llmgw.yaml:1:") {
		t.Errorf("exit code %d, want 1 and the place:\n%s", code, g.Log())
	}
}
