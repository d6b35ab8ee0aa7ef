package blackbox

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"llmgw/internal/gatewaytest"
)

// perMinute is a limit of one request a minute that lets the next wait.
const perMinute = "{name: rpm, unit: requests, amount: 1, per: minute, burst: 1, on_exceed: wait, max_wait: 2m}"

// coming is an answer on its way.
type coming chan gatewaytest.Answer

// goes sends a request to a gateway and does not wait for its answer.
func (w *world) goes(g *gatewaytest.Gateway, body string) coming {
	c := make(coming, 1)
	go func() {
		a, err := g.Try(secret, chat, body)
		if err != nil {
			a = gatewaytest.Answer{Body: err.Error()}
		}
		c <- a
	}()
	return c
}

// holds waits until n requests are being served at g.
func (w *world) holds(g *gatewaytest.Gateway, n float64) {
	w.t.Helper()
	g.Eventually("waiting", eventually, func() bool { return g.Metrics().Sum("llmgw_inflight_requests") == n })
}

// What ends a wait in a limit's line, and in a provider's queue, as the binary
// does it: the events are those of an operator.
func TestAnOperatorsDeedEndsAWait(t *testing.T) {
	atLimit := setup{redis: true, gateways: 2, limits: perMinute}
	atProvider := setup{redis: true, gateways: 2, provider: "limits: {requests_per_minute: 1}\nmax_wait: 2m"}
	block := func(w *world) {
		if a := w.all[1].Admin("POST", "/admin/v1/blocks", `{"scope":"team","value":"search"}`); a.Status != 201 {
			w.t.Errorf("block: got %d\n%s", a.Status, a.Body)
		}
	}
	reload := func(from, to string) func(*world) {
		return func(w *world) {
			for _, g := range w.all {
				s := setup{redis: true, limits: perMinute}
				g.WriteConfig(strings.Replace(s.config(w), from, to, 1))
				if a := g.Admin("POST", "/admin/v1/reload", ""); a.Status != 200 {
					w.t.Errorf("reload: got %d\n%s", a.Status, a.Body)
				}
			}
		}
	}
	for _, s := range []struct {
		what   string
		on     setup
		event  func(*world)
		status int
	}{
		{"a block at another gateway, for a limit", atLimit, block, http.StatusForbidden},
		{"a block at another gateway, for a provider", atProvider, block, http.StatusForbidden},
		{"a limit that is raised", atLimit, reload("amount: 1, per: minute, burst: 1", "amount: 1000, per: second, burst: 1000"), 200},
		{"a key that is gone", atLimit, reload(gatewaytest.SHA256(secret), gatewaytest.SHA256("sk-llmgw-another")), http.StatusUnauthorized},
		{"the main switch at another gateway", atLimit, func(w *world) {
			w.all[1].Admin("PUT", "/admin/v1/enforcement", `{"mode":"off"}`)
		}, 200},
	} {
		t.Run(s.what, func(t *testing.T) {
			w := start(t, s.on)
			if a := w.Post(secret, chat, ask("sim-out1")); a.Status != 200 {
				t.Fatalf("the first: got %d\n%s", a.Status, a.Body)
			}
			waits := w.goes(w.Gateway, ask("sim-out1"))
			w.holds(w.Gateway, 1)
			s.event(w)
			select {
			case a := <-waits:
				if a.Status != s.status {
					t.Errorf("got %d, want %d\n%s", a.Status, s.status, a.Body)
				}
			case <-time.After(eventually):
				t.Fatal("it still waits")
			}
		})
	}
}

func TestAWaiterSeesWhatAnotherGatewayGivesBack(t *testing.T) {
	w := start(t, setup{redis: true, gateways: 2, limits: "{name: tpm, unit: tokens, amount: 1000, per: hour, on_exceed: wait, max_wait: 1h}"})
	held := w.goes(w.all[1], ask("sim-in8-out2-wait2s", bound(1000)))
	w.holds(w.all[1], 1)
	waits := w.goes(w.all[0], ask("sim-out1", bound(900)))
	select {
	case a := <-waits:
		if a.Status != 200 {
			t.Errorf("got %d\n%s", a.Status, a.Body)
		}
	case <-time.After(eventually): // without it, it would wait for most of an hour
		t.Fatal("it still waits though 990 of 1,000 tokens came back")
	}
	<-held
	w.settled()
}

func TestWhoWaitsWhenTheGatewayStopsGetsAnAnswer(t *testing.T) {
	for _, s := range []struct {
		what    string
		on      setup
		signals int
		code    int
	}{
		{"for a limit", setup{limits: perMinute, server: "shutdown_grace: 2s"}, 1, 0},
		{"for a provider", setup{provider: "limits: {requests_per_minute: 1}\nmax_wait: 2m", server: "shutdown_grace: 2s"}, 1, 0},
		{"for a limit, and a second signal comes", setup{limits: perMinute, server: "shutdown_grace: 1h\ndrain_delay: 1h"}, 2, 0},
		{"for a provider, and a second signal comes", setup{provider: "limits: {requests_per_minute: 1}\nmax_wait: 2m", server: "shutdown_grace: 1h\ndrain_delay: 1h"}, 2, 0},
	} {
		t.Run(s.what, func(t *testing.T) {
			w := start(t, s.on)
			w.Post(secret, chat, ask("sim-out1"))
			waits := w.goes(w.Gateway, ask("sim-out1"))
			w.holds(w.Gateway, 1)
			for range s.signals {
				w.Signal(syscall.SIGTERM)
				w.Eventually("stopping", eventually, func() bool { return strings.Contains(w.Log(), `"msg":"stopping"`) })
			}
			a := <-waits
			if a.Status != http.StatusServiceUnavailable || a.Code() != "shutting_down" || a.Header.Get("Retry-After") != "1" {
				t.Errorf("got %d %q, Retry-After %q, want 503 shutting_down\n%s", a.Status, a.Code(), a.Header.Get("Retry-After"), a.Body)
			}
			if code := w.Wait(); code != s.code {
				t.Errorf("got the exit code %d, want %d: nothing was cut", code, s.code)
			}
		})
	}
}
