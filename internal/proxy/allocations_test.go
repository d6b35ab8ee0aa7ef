//go:build !race

package proxy

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The race detector makes pools forget what they hold, so allocations are counted
// without it.

// TestEachStepOfARequestAllocatesWithinItsCeiling counts what requests allocate that
// end after one step more each: a ceiling that breaks names the step. The counts hold
// the test's own request and writer, and the provider's side of the last two.
func TestEachStepOfARequestAllocatesWithinItsCeiling(t *testing.T) {
	text := strings.Repeat("a kilobyte of prompt ", 45)
	prompt := `{"model":"m","messages":[{"role":"user","content":"` + text + `"}]`
	for _, s := range []struct {
		step    string
		key     string
		body    string
		status  int
		ceiling float64
	}{
		{"a key that nobody has: accepted and identified", "sk-other", prompt + "}", http.StatusUnauthorized, 48},
		{"no JSON: read", houseKey, text, http.StatusBadRequest, 62},
		{"a model that does not exist: parsed", houseKey, strings.Replace(prompt, `"m"`, `"x"`, 1) + "}", http.StatusNotFound, 60},
		{"more than its limit ever has: planned and asked of the limiter", houseKey, prompt + `,"max_tokens":2000000000}`, http.StatusBadRequest, 130},
		{"a document: sent, relayed and settled", houseKey, prompt + "}", http.StatusOK, 235},
		{"a stream", houseKey, prompt + `,"stream":true}`, http.StatusOK, 275},
	} {
		inHouse(t, setting{}, answersEither, func(h *house) {
			handler := h.Handler()
			ask := func() {
				r := httptest.NewRequest(http.MethodPost, chatPath, strings.NewReader(s.body))
				r.Header.Set("Authorization", "Bearer "+s.key)
				r.Header.Set("Content-Type", "application/json")
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, r)
				if w.Code != s.status {
					t.Fatalf("%s: status %d, want %d: %s", s.step, w.Code, s.status, w.Body)
				}
			}
			for range 20 { // connections, pools and series
				ask()
			}
			if n := testing.AllocsPerRun(100, ask); n > s.ceiling {
				t.Errorf("%s: %v allocations, want at most %v", s.step, n, s.ceiling)
			}
		})
	}
}

// answersEither answers with a document, or with the stream that is asked for.
func answersEither(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if bytes.Contains(body, []byte(`"stream":true`)) {
		streams(delta("hello", ""), delta(" there", "stop"), bill(20, 2, 0), doneEvent)(w, r)
		return
	}
	answers(w, r)
}
