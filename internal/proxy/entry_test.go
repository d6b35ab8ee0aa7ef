package proxy

import (
	"fmt"
	"net/http"
	"testing"

	"llmgw/internal/charge"
	"llmgw/internal/upstream"
)

// The entry of a call says what each try came to and what it drew from each
// limit.
func TestAnEntryTellsItsTriesAndWhatItDrew(t *testing.T) {
	provider := func(w http.ResponseWriter, r *http.Request) {
		if r.Host == "first" {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, `{"error":{"message":"later"}}`)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"choices":[{"message":{"content":"fine"}}],"usage":{"prompt_tokens":7,"completion_tokens":5}}`)
	}
	s := setting{providers: []string{"first", "second"}, provider: func(p *upstream.Provider) { p.Retries = 1 }}
	s.model = func(m *charge.Model) { m.Targets[1].Weight = 0 }
	inHouse(t, s, provider, func(h *house) {
		h.ask(chatPath, `{"model":"m","user":"ann","max_tokens":50,"messages":[{"role":"user","content":"hi"}]}`)
		e := h.entry()
		if e.User != "ann" || e.Attempts != 2 || len(e.Tries) != 2 || e.Tries[0].Status != 503 || e.Tries[1].Provider != "second" || e.Tries[1].Status != 200 {
			t.Errorf("got the tries %+v of %q", e.Tries, e.User)
		}
		if e.Charged != 12 || e.ReservedOutput != 50 || e.Weighted != int64(e.Reserved) || len(e.Drawn) != 2 {
			t.Fatalf("got %+v", e)
		}
		d := e.Drawn[0]
		if d.Limit != "team/t/tokens" || d.Used != 12 || d.Reserved != float64(e.Reserved) || d.Returned != d.Reserved-12 {
			t.Errorf("got %+v", d)
		}
	})
}
