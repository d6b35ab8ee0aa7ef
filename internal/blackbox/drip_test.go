package blackbox

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// drip says that it failed, and then why, a letter at a time, without end.
func drip(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusInternalServerError)
	say(w, `{"error":{"message":"`)
	letters := time.NewTicker(50 * time.Millisecond)
	defer letters.Stop()
	for {
		select {
		case <-letters.C:
			say(w, "x")
		case <-r.Context().Done():
			return
		}
	}
}

func TestAnErrorThatDripsDelaysNobodyForEver(t *testing.T) {
	server := serve(t, drip)
	set := setup{limits: tokensLimit()}
	set.providers = "{name: drips, dialect: openai, base_url: " + server + "/v1, api_keys: [sk-p], retries: {attempts: 1}}\n" +
		"{name: once, dialect: openai, base_url: " + server + "/v1, api_keys: [sk-p], retries: {attempts: 0}}"
	set.models = "{name: alone, targets: [{provider: once, model: sim-out5}]}\n" +
		"{name: helped, targets: [{provider: drips, model: sim-out5}, {provider: sim, model: sim-in10-out5, weight: 0}]}"
	w := start(t, set)
	began := time.Now()
	var both sync.WaitGroup
	both.Go(func() {
		a, err := w.Try(secret, chat, ask("helped"))
		if err != nil || a.Status != 200 || !strings.HasPrefix(a.Header.Get("X-LLMGW-Upstream"), "sim/") {
			t.Errorf("with another target: got %d from %s, %v\n%s", a.Status, a.Header.Get("X-LLMGW-Upstream"), err, a.Body)
		}
	})
	both.Go(func() {
		a, err := w.Try(secret, chat, ask("alone"))
		if err != nil || a.Status != 504 || a.Code() != "upstream_timeout" {
			t.Errorf("alone: got %d %q, %v, want 504 upstream_timeout\n%s", a.Status, a.Code(), err, a.Body)
		}
	})
	both.Wait()
	if took := time.Since(began); took > 30*time.Second { // a busy machine's allowance
		t.Errorf("it took %s", took)
	}
	if got := w.spent("tokens"); got != 15 {
		t.Errorf("charged %d tokens, want the 15 of the answer", got)
	}
	w.settled()
}
