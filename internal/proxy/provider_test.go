package proxy

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"llmgw/internal/charge"
	"llmgw/internal/dialect"
	"llmgw/internal/upstream"
)

// refusesKey answers as providers do whose key is wrong, and shows what it is.
func refusesKey(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="api"`)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusUnauthorized)
	fmt.Fprint(w, `{"type":"error","error":{"type":"invalid_request_error","code":"invalid_api_key","message":"Incorrect API key provided: sk-provi****ider."},"message":"sk-provi****ider"}`)
}

// calls are one call in each dialect, streamed or not.
var calls = []struct{ dialect, path, body string }{
	{"openai", chatPath, `{"model":"m","messages":[{"role":"user","content":"hi"}]}`},
	{"openai", chatPath, `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`},
	{"openai", "/v1/responses", `{"model":"m","input":"hi"}`},
	{"anthropic", "/v1/messages", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`},
	{"gemini", "/v1beta/models/m:generateContent", `{"contents":[{"parts":[{"text":"hi"}]}]}`},
	{"bedrock", "/model/m/converse", `{"messages":[{"role":"user","content":[{"text":"hi"}]}]}`},
	{"cohere", "/v2/chat", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`},
	{"ollama", "/api/chat", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`},
}

func TestAClientNeverSeesThatTheGatewaysCredentialIsRefused(t *testing.T) {
	for _, c := range calls {
		s := setting{dialect: c.dialect, provider: func(p *upstream.Provider) { p.APIKeys = []string{"sk-provider-of-the-gateway-ider"} }}
		inHouse(t, s, refusesKey, func(h *house) {
			for i := range 2 { // the second is not sent
				got := h.ask(c.path, c.body)
				if got.status != http.StatusBadGateway || got.header.Get("X-Llmgw-Error-Code") != "upstream_error" || got.header.Get("X-Should-Retry") != "false" {
					t.Errorf("%s %s, call %d: got %d %v", c.dialect, c.path, i, got.status, got.header)
				}
				if strings.Contains(got.body, "sk-") || got.header.Get("WWW-Authenticate") != "" {
					t.Errorf("%s %s, call %d: the client sees %v\n%s", c.dialect, c.path, i, got.header, got.body)
				}
				if e := h.entry(); e.Outcome != string(charge.UpstreamError) || e.Usage.Total() != 0 {
					t.Errorf("%s %s, call %d: recorded as %+v", c.dialect, c.path, i, e)
				}
			}
			if log := h.log.String(); strings.Count(log, `"level":"WARN"`) != 1 || strings.Contains(log, "sk-") {
				t.Errorf("%s: the log says %s", c.dialect, log)
			}
		})
	}
}

// What a provider asks to wait is told as our own waits are.
func TestAProvidersWaitIsToldLikeOurOwn(t *testing.T) {
	for _, s := range []struct {
		sent            [2]string // Retry-After, Retry-After-Ms
		after, ms, hint string
	}{
		{[2]string{"3", ""}, "3", "3000", ""},
		{[2]string{"3", "700"}, "3", "700", ""},
		{[2]string{"60", ""}, "60", "60000", ""},
		{[2]string{"61", ""}, "", "", "false"},
		{[2]string{"3600", ""}, "", "", "false"},
		{[2]string{"", "90000"}, "", "", "false"},
		{[2]string{"date 7200", ""}, "", "", "false"},
		{[2]string{"soon", ""}, "soon", "", ""},
	} {
		for _, status := range []int{429, 503} {
			provider := func(w http.ResponseWriter, r *http.Request) {
				for i, name := range []string{"Retry-After", "Retry-After-Ms"} {
					if v := s.sent[i]; strings.HasPrefix(v, "date ") {
						w.Header().Set(name, time.Now().Add(2*time.Hour).UTC().Format(http.TimeFormat))
					} else if v != "" {
						w.Header().Set(name, v)
					}
				}
				w.WriteHeader(status)
				fmt.Fprint(w, `{"error":{"message":"later"}}`)
			}
			inHouse(t, setting{}, provider, func(h *house) {
				got := h.ask(chatPath, calls[0].body)
				if got.status != status || got.header.Get("Retry-After") != s.after || got.header.Get("Retry-After-Ms") != s.ms || got.header.Get("X-Should-Retry") != s.hint {
					t.Errorf("sent %q: got %d, %q, %q, %q", s.sent, got.status, got.header.Get("Retry-After"), got.header.Get("Retry-After-Ms"), got.header.Get("X-Should-Retry"))
				}
				if s.after == "soon" {
					return
				}
				got = h.ask(chatPath, calls[0].body) // which is not sent: no such wait was allowed
				long := s.after == ""
				if got.status != 503 || got.header.Get("X-Llmgw-Error-Code") != "upstream_capacity" || (got.header.Get("Retry-After") == "") != long || (got.header.Get("X-Should-Retry") == "false") != long {
					t.Errorf("sent %q, then: got %d %v", s.sent, got.status, got.header)
				}
			})
		}
	}
}

// Two teams that choose the same idempotency key must not meet at the account that
// they share, and one team's key stays the same.
func TestIdempotencyKeysAreTheTeamsOwnAtTheProvider(t *testing.T) {
	sent := map[string]string{}
	for _, team := range []string{"search", "ads", "search"} {
		for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
			h := dialect.Header{name: {"k-1"}, "Accept": {"*/*"}}
			got := scoped(h, team).Get(name)
			if got == "" || strings.Contains(got, "k-1") || h.Get(name) != "k-1" {
				t.Errorf("%s: %s became %q, and the client's own %q", team, name, got, h.Get(name))
			}
			if before, ok := sent[team]; ok && before != got {
				t.Errorf("%s: %q and %q for one key", team, before, got)
			}
			sent[team] = got
		}
	}
	if sent["search"] == sent["ads"] {
		t.Errorf("two teams meet at %q", sent["ads"])
	}
	var seen string
	provider := func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header.Get("Idempotency-Key")
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
	}
	inHouse(t, setting{}, provider, func(h *house) {
		h.ask(chatPath, calls[0].body, "Idempotency-Key", "k-1")
		if !strings.HasPrefix(seen, "llmgw-") {
			t.Errorf("the provider got the idempotency key %q", seen)
		}
	})
}

// What is relayed for a flat charge, and what is stored, meet the same credential.
func TestARefusedCredentialIsHiddenOnEveryPath(t *testing.T) {
	s := setting{
		provider: func(p *upstream.Provider) { p.APIKeys = []string{"sk-provider-of-the-gateway-ider"} },
		rules: func(r *Rules) {
			r.Passthrough = []Passthrough{{Path: "/v1/files", Methods: []string{"GET"}, Provider: r.Models["m"].Targets[0].Provider, Requests: 1}}
		},
	}
	inHouse(t, s, refusesKey, func(h *house) {
		for _, path := range []string{"GET /v1/files", "GET /v1/responses/resp_1", "DELETE /v1/responses/resp_1", "/v1/embeddings"} {
			time.Sleep(time.Hour) // each is a probe of its own
			got := h.ask(path, `{"model":"m","input":"hi"}`)
			if got.status != http.StatusBadGateway || strings.Contains(got.body, "sk-") || got.header.Get("WWW-Authenticate") != "" {
				t.Errorf("%s: got %d %v\n%s", path, got.status, got.header, got.body)
			}
		}
		if n := strings.Count(h.log.String(), `"cause":"refused"`); n != 4 {
			t.Errorf("the provider was asked %d times by four calls", n)
		}
	})
}
