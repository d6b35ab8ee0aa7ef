package proxy

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"llmgw/internal/charge"
	"llmgw/internal/upstream"
)

// Some providers answer 200 with an error in place of a document. That is a
// failed try: another target is asked, and nothing is charged for it.
func TestADocumentThatIsAnErrorIsAFailedTry(t *testing.T) {
	failures := map[string]string{
		"openai": `{"error":{"message":"Upstream is overloaded","code":503}}`, "anthropic": `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`,
		"gemini": `{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}`, "ollama": `{"error":"the model runner has stopped"}`,
	}
	for _, c := range calls {
		failure, ok := failures[c.dialect]
		if !ok || strings.Contains(c.body, `"stream":true`) {
			continue // Bedrock and Cohere name errors by their status alone; streams have a test of their own
		}
		body := c.body
		if c.dialect == "ollama" {
			body = strings.Replace(body, "{", `{"stream":false,`, 1)
		}
		for _, chunked := range []bool{false, true} {
			provider := func(healthy bool) http.HandlerFunc {
				return func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					if r.Host == "second" && healthy {
						fmt.Fprint(w, `{"choices":[{"message":{"content":"fine"}}],"candidates":[{"content":{"parts":[{"text":"fine"}]}}],"content":[{"type":"text","text":"fine"}],"message":{"content":"fine"},"done":true,"output":[{"type":"message","content":[{"type":"output_text","text":"fine"}]}]}`)
						return
					}
					fmt.Fprint(w, failure)
					if chunked {
						w.(http.Flusher).Flush()
					}
				}
			}
			s := setting{dialect: c.dialect, providers: []string{"first", "second"}}
			s.model = func(m *charge.Model) { m.Targets[1].Weight = 0 }
			s.provider = func(p *upstream.Provider) { p.Retries = 1 }
			inHouse(t, s, provider(true), func(h *house) {
				if got := h.ask(c.path, body); got.status != http.StatusOK || !strings.Contains(got.body, "fine") {
					t.Errorf("%s %s: got %d %s, want what the second target says", c.dialect, c.path, got.status, got.body)
				}
				if e := h.entry(); e.Outcome != string(charge.Completed) || e.Provider != "second" {
					t.Errorf("%s %s: recorded as %+v", c.dialect, c.path, e)
				}
			})
			inHouse(t, s, provider(false), func(h *house) {
				if got := h.ask(c.path, body); got.status < 500 {
					t.Errorf("%s %s: got %d %s, want an error's status", c.dialect, c.path, got.status, got.body)
				}
				if e := h.entry(); e.Outcome != string(charge.UpstreamError) || e.Usage.Total() != 0 {
					t.Errorf("%s %s: recorded as %+v", c.dialect, c.path, e)
				}
			})
		}
	}
}

// A document that only mentions an error is an answer, and comes byte for byte.
func TestADocumentThatMentionsAnErrorIsAnAnswer(t *testing.T) {
	for _, text := range []string{
		`{"id":"resp_1","object":"response","status":"completed","error":null,"output":[{"type":"message","content":[{"type":"output_text","text":"the \"error\" is"}]}],"usage":{"input_tokens":7,"output_tokens":5}}`,
		`{"id":"resp_1","object":"response","status":"failed","error":{"code":"server_error","message":"no"},"output":[],"usage":{"input_tokens":7,"output_tokens":5}}`,
		`{"id":"resp_1","error":null,"output":[{"type":"message","content":[{"type":"output_text","text":"` + strings.Repeat("x", 50_000) + `"}]}],"usage":{"input_tokens":7,"output_tokens":50000}}`,
	} {
		provider := func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, text)
		}
		inHouse(t, setting{}, provider, func(h *house) {
			if got := h.ask("/v1/responses", `{"model":"m","input":"hi"}`); got.status != http.StatusOK || got.body != text {
				t.Errorf("got %d %.200s, want %.200s", got.status, got.body, text)
			}
			if e := h.entry(); e.Usage.Output != 5 && e.Usage.Output != 50_000 {
				t.Errorf("%.80s: recorded as %+v", text, e)
			}
		})
	}
}
