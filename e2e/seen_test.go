package e2e

import (
	"encoding/json"
	"net/http"
	"sync"
	"testing"
	"time"
)

// seen is one request as the simulated provider saw it.
type seen struct {
	Model   string      `json:"model"`
	Path    string      `json:"path"`
	Body    string      `json:"body"`
	Header  http.Header `json:"header"`
	Chunks  int         `json:"chunks"`
	Outcome string      `json:"outcome"`
}

// saw returns what the provider saw of requests for a model, oldest first.
func saw(t *testing.T, model string) []seen {
	t.Helper()
	resp, err := http.Get(here.provider + "/sim/stats")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var stats struct {
		Last []seen `json:"last"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&stats); err != nil {
		t.Fatal(err)
	}
	var of []seen
	for _, s := range stats.Last {
		if s.Model == model {
			of = append(of, s)
		}
	}
	return of
}

// ended waits until the provider has seen the end of the last request for
// model, and returns it.
func ended(t *testing.T, model string) seen {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		all := saw(t, model)
		if n := len(all); n > 0 && all[n-1].Outcome != "" {
			return all[n-1]
		}
		select {
		case <-deadline:
			t.Fatalf("the provider still serves %s after 30 s: %+v", model, all)
		case <-tick.C:
		}
	}
}

// attempts counts a client's tries of one call, and when they came.
type attempts struct {
	mu    sync.Mutex
	at    []time.Time
	waits []string // the retry-after-ms that each was answered with
	limit []string // the limit that each was refused by
}

// watch is a middleware for both clients.
func (a *attempts) watch(r *http.Request, next func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at = append(a.at, time.Now())
	resp, err := next(r)
	if err == nil {
		a.waits = append(a.waits, resp.Header.Get("retry-after-ms"))
		a.limit = append(a.limit, resp.Header.Get("X-LLMGW-Limited-By"))
	}
	return resp, err
}

// checkOneRetry checks that a call was refused once, and that its second try,
// at the time it was told, went through.
func (a *attempts) checkOneRetry(t *testing.T) {
	t.Helper()
	if len(a.at) != 2 {
		t.Fatalf("%d tries, want 2: waits told %q", len(a.at), a.waits)
	}
	told, err := time.ParseDuration(a.waits[0] + "ms")
	if err != nil {
		t.Fatalf("retry-after-ms: %v", err)
	}
	waited := a.at[1].Sub(a.at[0])
	if waited < told {
		t.Errorf("the second try came after %v, want not before the %v that it was told", waited, told)
	}
	t.Logf("told %v, came back after %v", told, waited.Round(time.Millisecond))
}
