package blackbox

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"llmgw/internal/gatewaytest"
)

func TestA1ParallelCallsNeverExceedTheLimit(t *testing.T) {
	w := start(t, setup{limits: monthly("tokens", "tokens", 100)})
	answers := w.together(5, ask("sim-in20-out40-wait500ms", bound(60)))
	if ok, no := count(answers, 200), count(answers, 429); ok != 1 || no != 4 {
		t.Errorf("got %d granted and %d refused, want 1 and 4", ok, no)
	}
	if got := w.provider.Stats().Requests; got != 1 {
		t.Errorf("the provider saw %d calls, want 1", got)
	}
	w.settled()
}

func TestA3A4ABudgetForSomeIsNotOverdrawnByMany(t *testing.T) {
	for _, s := range []struct{ fits, parallel int }{{3, 50}, {100, 150}} {
		t.Run(fmt.Sprintf("%d of %d", s.fits, s.parallel), func(t *testing.T) {
			w := start(t, setup{limits: monthly("tokens", "tokens", s.fits*50)})
			answers := w.together(s.parallel, ask("sim-in10-out40-wait1s", bound(50)))
			if got := count(answers, 200); got != s.fits {
				t.Errorf("got %d granted, want %d", got, s.fits)
			}
			w.settled()
		})
	}
}

func TestA6TwoInstancesShareOneLimit(t *testing.T) {
	w := start(t, setup{gateways: 2, redis: true, limits: monthly("requests", "requests", 10)})
	if got := count(w.together(20, ask("sim-out1")), 200); got != 10 {
		t.Errorf("got %d granted by both, want 10 in all", got)
	}
	w.settled()
}

func TestA7ARefusalConsumesNothing(t *testing.T) {
	w := start(t, setup{
		limits: "{name: tpm, unit: tokens, amount: 100, per: hour, burst: 1000}\n" + monthly("team", "tokens", 100),
		keys:   monthly("key", "tokens", 1000),
	})
	for range 10 {
		if a := w.Post(secret, chat, ask("sim-out1", bound(200))); a.Status != 400 && a.Status != 429 {
			t.Fatalf("got %d, want a refusal", a.Status)
		}
	}
	if got := w.Limit("search", "key").Remaining; got != 1000 {
		t.Errorf("the key's limit was charged by refusals of the team's: %v are left of 1000", got)
	}
	if a := w.Post(secret, chat, ask("sim-in1-out1", bound(50))); a.Status != 200 {
		t.Errorf("got %d after ten refusals, want 200\n%s", a.Status, a.Body)
	}
	w.settled()
}

func TestA9TheBoundaryIsTheSameForEveryScope(t *testing.T) {
	limit := monthly("edge", "tokens", 100)
	for _, s := range []struct {
		scope string
		setup setup
	}{
		{"team", setup{limits: limit}},
		{"key", setup{keys: limit}},
		{"gateway", setup{common: limit}},
		{"model", setup{model: "limits: [" + limit + "]"}},
		{"user", setup{limits: "{name: edge, scope: user, unit: tokens, amount: 100, per: month}"}},
		{"ip", setup{common: "{name: edge, scope: ip, unit: tokens, amount: 100, per: month}"}},
	} {
		t.Run(s.scope, func(t *testing.T) {
			w := start(t, s.setup)
			if a := w.Post(secret, chat, ask("sim-in8-out92", bound(100))); a.Status != 200 {
				t.Fatalf("exactly the limit: got %d, want 200\n%s", a.Status, a.Body)
			}
			w.Eventually("settled", 5*time.Second, func() bool { return w.Metrics().Sum("llmgw_reservations_open") == 0 })
			if a := w.Post(secret, chat, ask("sim-in8-out1", bound(9))); a.Status != 429 {
				t.Errorf("one more: got %d, want 429\n%s", a.Status, a.Body)
			}
			w.settled()
		})
	}
}

func TestA11SlotsComeBackFromStreamsThatAreLeft(t *testing.T) {
	slow := ask("sim-out400-every50ms", `"stream":true`)
	silent := ask("sim-out1-wait30s", `"stream":true`)
	for _, s := range []struct{ what, body string }{{"after the first chunk", slow}, {"before the headers", silent}} {
		t.Run(s.what, func(t *testing.T) {
			w := start(t, setup{limits: "{name: slots, unit: concurrency, amount: 2}"})
			for range 2 {
				leave(t, w.Gateway, s.body, s.body == slow)
			}
			w.Eventually("both slots free", eventually, func() bool { return w.Limit("search", "slots").Remaining == 2 })
			for range 2 {
				if a := w.Post(secret, chat, ask("sim-out1")); a.Status != 200 {
					t.Errorf("got %d, want 200", a.Status)
				}
			}
			w.settled()
		})
	}
	t.Run("while waiting for the slot", func(t *testing.T) {
		w := start(t, setup{limits: "{name: slots, unit: concurrency, amount: 1, on_exceed: wait, max_wait: 30s}"})
		first := open(t, w.Gateway, slow)
		leave(t, w.Gateway, ask("sim-out1"), false)
		first.Body.Close()
		w.Eventually("the slot free", eventually, func() bool { return w.Limit("search", "slots").Remaining == 1 })
		w.settled()
	})
}

func TestA13A16WhatWasUsedAboveTheReserveIsOwed(t *testing.T) {
	for _, s := range []struct {
		used, left int
	}{{1400, -400}, {5000, -4000}} {
		t.Run(fmt.Sprint(s.used), func(t *testing.T) {
			w := start(t, setup{limits: "{name: tokens, unit: tokens, amount: 1000, per: hour}"})
			a := w.Post(secret, chat, ask(fmt.Sprintf("sim-in100-out10-report%d", s.used-100), bound(500)))
			if a.Status != 200 {
				t.Fatalf("got %d\n%s", a.Status, a.Body)
			}
			w.Eventually("the debt", 5*time.Second, func() bool { return int(w.Limit("search", "tokens").Remaining) <= s.left+2 })
			if got := int(w.Limit("search", "tokens").Remaining); got < s.left {
				t.Errorf("got %d left, want %d", got, s.left)
			}
			if a := w.Post(secret, chat, ask("sim-out1", `"max_tokens":1`)); a.Status != 429 {
				t.Errorf("in debt: got %d, want 429", a.Status)
			}
			w.settled()
		})
	}
}

func TestA14ParallelOverrunsAreAllCharged(t *testing.T) {
	w := start(t, setup{limits: monthly("tokens", "tokens", 1000)})
	w.together(2, ask("sim-in100-out10-report800-wait300ms", bound(500)))
	w.Eventually("both charged", 5*time.Second, func() bool { return w.Limit("search", "tokens").Remaining == -800 })
	w.settled()
}

// open begins a stream and reads its first byte.
func open(t *testing.T, g *gatewaytest.Gateway, body string) *http.Response {
	t.Helper()
	resp, err := g.Open(secret, chat, body)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(resp.Body, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return resp
}

// leave sends a request and goes away: after the first byte, or soon, while
// there is no answer.
func leave(t *testing.T, g *gatewaytest.Gateway, body string, afterFirst bool) {
	t.Helper()
	if afterFirst {
		open(t, g, body).Body.Close()
		return
	}
	begun := func() float64 { // one that has just left may still be ending
		m := g.Metrics()
		return m.Sum("llmgw_inflight_requests") + m.Sum("llmgw_requests_total")
	}
	before := begun()
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if resp, err := send(ctx, g, chat, body); err == nil {
			resp.Body.Close()
		}
	}()
	g.Eventually("the request is there", 5*time.Second, func() bool { return begun() > before })
	cancel()
	<-gone
}

// send sends a request that ends with ctx.
func send(ctx context.Context, g *gatewaytest.Gateway, path, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.URL+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+secret)
	return http.DefaultClient.Do(r)
}
