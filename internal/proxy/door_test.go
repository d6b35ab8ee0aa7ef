package proxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"llmgw/internal/budget"
	"llmgw/internal/charge"
	"llmgw/internal/tenant"
	"llmgw/internal/upstream"
)

// seen notes the paths that reach a provider, which answers each with body.
type seen struct {
	mu    sync.Mutex
	paths []string
}

func (s *seen) says(body string) http.HandlerFunc {
	inner := says("application/json", body)
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.paths = append(s.paths, r.Method+" "+r.URL.RequestURI())
		s.mu.Unlock()
		inner(w, r)
	}
}

// take returns the paths since the last time.
func (s *seen) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.paths
	s.paths = nil
	return taken
}

func TestAnOfferToUpgradeIsRefusedAsOneAndAnOfferOfHTTPIsServed(t *testing.T) {
	var there seen
	inHouse(t, setting{}, there.says(wholeChat), func(h *house) {
		for _, s := range []struct {
			path, body string
			header     []string
			status     int
		}{
			{"GET /v1/responses", "", []string{"Connection", "Upgrade", "Upgrade", "websocket"}, 426},
			{"GET /v1/responses", "", []string{"Connection", "keep-alive, upgrade", "Upgrade", "WebSocket"}, 426},
			{"GET /v1/responses", "", []string{"Upgrade", "websocket", "Sec-WebSocket-Key", "x"}, 426},
			{"GET /nothing/here", "", []string{"Connection", "Upgrade", "Upgrade", "websocket", "Authorization", ""}, 426},
			{"GET /v1/models", "", []string{"Connection", "Upgrade", "Upgrade", "websocket"}, 426},
			{"GET /v1beta/models", "", []string{"Connection", "Upgrade", "Upgrade", "websocket"}, 426},
			{chatPath, chatPrompt, []string{"Connection", "Upgrade", "Upgrade", "websocket"}, 426},
			{chatPath, chatPrompt, []string{"Connection", "Upgrade", "Upgrade", "h2c, websocket"}, 426},
			{chatPath, chatPrompt, []string{"Connection", "Upgrade", "Upgrade", "spdy/3.1"}, 426},
			{chatPath, chatPrompt, []string{"Connection", "Upgrade, HTTP2-Settings", "Upgrade", "h2c", "HTTP2-Settings", "AAMAAABkAAQCAAAAAAIAAAAA"}, 200},
			{chatPath, chatPrompt, []string{"Connection", "Upgrade", "Upgrade", "TLS/1.2, HTTP/2.0"}, 200},
			{chatPath, chatPrompt, []string{"Connection", "Upgrade"}, 200},
		} {
			got := h.ask(s.path, s.body, s.header...)
			if got.status != s.status || got.header.Get("Upgrade") != "" {
				t.Errorf("%s %v: got %d, Upgrade %q, want %d\n%s", s.path, s.header, got.status, got.header.Get("Upgrade"), s.status, got.body)
			}
			if calls := there.take(); (len(calls) > 0) != (s.status == 200) {
				t.Errorf("%s %v: the provider saw %v", s.path, s.header, calls)
			}
		}
		if e := h.entry(); h.limiter.open() != 0 {
			t.Errorf("a reservation is open: %+v", e)
		}
	})
}

// ipLimit is a limit of requests of the whole gateway, for each address.
func ipLimit(amount int64) *budget.Limit {
	return &budget.Limit{
		Place: "gateway", Scope: budget.IP, Name: "ip-rpm", Unit: budget.Requests, Amount: amount, Period: budget.Hour,
		Burst: amount, Algorithm: budget.TokenBucket, UnboundedDebt: true, Mode: budget.Enforce,
	}
}

func TestAStrangerDrawsOnTheLimitsOfItsAddress(t *testing.T) {
	const unknown = "Bearer sk-unknown"
	calls := []struct{ path, key string }{{chatPath, unknown}, {"/v1/messages", ""}, {"GET /v1/models", unknown}, {"GET /api/tags", ""}, {"/model/m/converse", unknown}}
	for _, s := range calls {
		var there seen
		inHouse(t, setting{rules: func(r *Rules) { r.Limits = []*budget.Limit{ipLimit(3)} }}, there.says(wholeChat), func(h *house) {
			stranger := func() answer { return h.ask(s.path, strings.Repeat("x", 2<<20), "Authorization", s.key) }
			for range 3 {
				if got := stranger(); got.status != 401 {
					t.Errorf("%s: got %d, want 401\n%s", s.path, got.status, got.body)
				}
			}
			if got := stranger(); got.status != 429 || got.header.Get("X-Llmgw-Limited-By") != "ip/ip-rpm" {
				t.Errorf("%s: the fourth: got %d by %q, want 429 by ip/ip-rpm", s.path, got.status, got.header.Get("X-Llmgw-Limited-By"))
			}
			if got := h.ask(chatPath, chatPrompt); got.status != 429 {
				t.Errorf("a caller at the same address: got %d, want 429", got.status)
			}
			if h.limiter.open() != 0 || len(there.take()) != 0 {
				t.Errorf("%s: something is open, or reached the provider", s.path)
			}
		})
	}
	inHouse(t, setting{rules: func(r *Rules) { r.Limits = []*budget.Limit{ipLimit(3)} }}, says("application/json", wholeChat), func(h *house) {
		for i := range 4 {
			if got := h.ask(chatPath, chatPrompt); (got.status == 200) != (i < 3) {
				t.Errorf("call %d of a known caller: got %d, want it to count once", i, got.status)
			}
		}
	})
}

func TestAPathWithOneVersionTooManyOrTooFewIsServedAsWhatItMeans(t *testing.T) {
	for _, s := range []struct{ dialect, path, body, sent string }{
		{"openai", "/chat/completions", chatPrompt, "POST /chat/completions"},
		{"openai", "/v1/v1/chat/completions?x=1", chatPrompt, "POST /chat/completions?x=1"},
		{"openai", "/responses", `{"model":"m","input":"hi"}`, "POST /responses"},
		{"openai", "/v1/openai/deployments/m/chat/completions", chatPrompt, "POST /chat/completions"},
		{"anthropic", "/messages", `{"model":"m","max_tokens":9,"messages":[]}`, "POST /v1/messages"},
		{"anthropic", "/v1/v1/messages", `{"model":"m","max_tokens":9,"messages":[]}`, "POST /v1/messages"},
		{"gemini", "/v1beta/models/m:generateContent", `{"contents":[]}`, "POST /v1beta/models/m:generateContent"},
		{"gemini", "/v1/models/m:generateContent", `{"contents":[]}`, "POST /v1/models/m:generateContent"},
		{"gemini", "/v1alpha/models/m:countTokens", `{"contents":[]}`, "POST /v1alpha/models/m:countTokens"},
		{"gemini", "/models/m:streamGenerateContent?alt=sse", `{"contents":[]}`, "POST /v1beta/models/m:streamGenerateContent?alt=sse"},
		{"gemini", "/v1/v1beta/models/m%3AgenerateContent", `{"contents":[]}`, "POST /v1beta/models/m:generateContent"},
		{"gemini", "/v1beta/v1beta/models/m:generateContent", `{"contents":[]}`, "POST /v1beta/models/m:generateContent"},
		{"gemini", "/v1alpha/v1alpha/models/m:countTokens", `{"contents":[]}`, "POST /v1alpha/models/m:countTokens"},
		{"gemini", "/v1beta/v1/models/m:generateContent", `{"contents":[]}`, "POST /v1/models/m:generateContent"},
		{"cohere", "/v2/v2/chat", `{"model":"m","messages":[]}`, "POST /v2/chat"},
		{"bedrock", "/v1/model/m/converse", `{"messages":[]}`, "POST /model/m/converse"},
		{"bedrock", "/model/m/count-tokens", `{"input":{"converse":{"messages":[]}}}`, "POST /model/m/count-tokens"},
		{"ollama", "/v1/api/chat", `{"model":"m","messages":[],"stream":false}`, "POST /api/chat"},
		{"ollama", "/api/embeddings", `{"model":"m","prompt":"hi"}`, "POST /api/embeddings"},
		{"cohere", "/v1/v2/chat", `{"model":"m","messages":[]}`, "POST /v2/chat"},
	} {
		var there seen
		inHouse(t, setting{dialect: s.dialect}, there.says("{}"), func(h *house) {
			got := h.ask(s.path, s.body)
			if calls := there.take(); got.status != 200 || !slices.Equal(calls, []string{s.sent}) {
				t.Errorf("%s: got %d, and the provider %q, want %q\n%s", s.path, got.status, calls, s.sent, got.body)
			}
		})
	}
}

func TestAPathThatIsNearlyOneIsToldWhichOne(t *testing.T) {
	inHouse(t, setting{}, says("application/json", "{}"), func(h *house) {
		for path, want := range map[string]string{
			"/v1/chat/completion":          "/v1/chat/completions",
			"/v1/chat/completions/":        "/v1/chat/completions",
			"/v1//chat/completions":        "/v1/chat/completions",
			"/V1/chat/completions":         "/v1/chat/completions",
			"/v1/chat":                     "/v1/chat/completions",
			"/api/v1/chat/completions":     "/v1/chat/completions",
			"/v1/mesages":                  "/v1/messages",
			"/v1beta/model/x:countTokens":  "/v1beta/models/x:countTokens",
			"/model/x/converze":            "/model/x/converse",
			"/v1/files":                    "",
			"/":                            "",
			"/nothing/at/all":              "",
			"/" + strings.Repeat("x", 300): "",
		} {
			got := h.ask(path, "{}")
			if got.status != 404 || got.header.Get("X-Llmgw-Error-Code") != "not_found" {
				t.Errorf("%s: got %d %s", path, got.status, got.body)
			}
			_, meant, found := strings.Cut(got.body, "Did you mean ")
			if found != (want != "") || !strings.HasPrefix(meant, want) {
				t.Errorf("%s: got %q, want it to name %q", path, got.body, want)
			}
		}
	})
}

func TestALostRequestIsRefusedInTheShapeOfWhatItMeans(t *testing.T) {
	inHouse(t, setting{}, says("application/json", "{}"), func(h *house) {
		for path, sign := range map[string]string{
			"/api/v1/chat/completions":         `"code":"not_found"`,
			"/api/v1/messages":                 `"type":"error"`,
			"/api/v1beta/models/m:countTokens": `"status":"NOT_FOUND"`,
			"/api/chatt":                       `{"error":"`,
		} {
			if got := h.ask(path, "{}"); got.status != 404 || !strings.Contains(got.body, sign) {
				t.Errorf("%s: got %d %s, want %s", path, got.status, got.body, sign)
			}
		}
	})
}

func TestCompactingIsMeteredByItsUsageAndNoResponse(t *testing.T) {
	const compacted = `{"id":"resp_1","object":"response.compaction","output":[{"type":"compaction","encrypted_content":"x"}],"usage":{"input_tokens":139,"output_tokens":438,"total_tokens":577}}`
	for _, path := range []string{"/v1/responses/compact", "/openai/v1/responses/compact", "/responses/compact"} {
		var there seen
		inHouse(t, setting{model: func(m *charge.Model) { m.CapOutput = true }}, there.says(compacted), func(h *house) {
			if got := h.ask(path, `{"model":"m","input":"hi"}`); got.status != 200 || got.body != compacted {
				t.Fatalf("%s: got %d %s", path, got.status, got.body)
			}
			if used := h.limiter.used(h.entry().RequestID); !slices.Equal(used, []int64{577, 1}) {
				t.Errorf("%s: charged %v, want 577 tokens and a request", path, used)
			}
			if calls := there.take(); !slices.Equal(calls, []string{"POST /responses/compact"}) {
				t.Errorf("%s: the provider saw %q", path, calls)
			}
			for _, method := range []string{"GET", "DELETE"} {
				if got := h.ask(method+" "+path, ""); got.status != 405 || len(there.take()) != 0 {
					t.Errorf("%s %s: got %d, want 405 and no call", method, path, got.status)
				}
			}
		})
	}
}

// namesIn are the strings at a key of the objects in a list of a document.
func namesIn(t *testing.T, body, list, key string) []string {
	t.Helper()
	var doc map[string]json.RawMessage
	var all []map[string]any
	if err := json.Unmarshal([]byte(body), &doc); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	if err := json.Unmarshal(doc[list], &all); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	names := []string{}
	for _, m := range all {
		names = append(names, fmt.Sprint(m[key]))
	}
	return names
}

func TestEachAPIListsTheModelsThatTheKeyMayCallThere(t *testing.T) {
	two := setting{rules: func(r *Rules) {
		m := *r.Models["m"]
		m.Name = "m/two"
		r.Models["m/two"] = &m
		secret := *r.Models["m"]
		secret.Name = "secret"
		r.Models["secret"] = &secret
		other := charge.Model{Name: "elsewhere", Targets: []upstream.Target{{Provider: &upstream.Provider{Name: "q", Dialect: "nobody's"}}}}
		r.Models["elsewhere"] = &other
		key := *r.Directory.Key("k")
		d, err := tenant.NewDirectory([]tenant.Team{{Name: "t", Weight: 1, Models: map[string]bool{"m": true, "m/two": true, "elsewhere": true}, Keys: []tenant.Key{key}}})
		if err != nil {
			t.Fatal(err)
		}
		r.Directory = d
	}}
	for _, s := range []struct {
		dialect, path string
		header        []string
		list, key     string
		names         []string
	}{
		{"openai", "GET /v1/models", nil, "data", "id", []string{"elsewhere", "m", "m/two"}},
		{"openai", "GET /models", nil, "data", "id", []string{"elsewhere", "m", "m/two"}},
		{"openai", "GET /v1/v1/models", nil, "data", "id", []string{"elsewhere", "m", "m/two"}},
		{"openai", "GET /openai/v1/models", nil, "data", "id", []string{"elsewhere", "m", "m/two"}},
		{"anthropic", "GET /v1/models", []string{"Anthropic-Version", "2023-06-01"}, "data", "display_name", []string{"elsewhere", "m", "m/two"}},
		{"azure", "GET /openai/models?api-version=2024-10-21", nil, "data", "id", []string{"m", "m/two"}},
		{"azure", "GET /openai/deployments?api-version=2022-12-01", nil, "data", "model", []string{"m", "m/two"}},
		{"gemini", "GET /v1beta/models", nil, "models", "name", []string{"models/m", "models/m/two"}},
		{"gemini", "GET /v1beta/models?pageSize=1", nil, "models", "name", []string{"models/m", "models/m/two"}},
		{"gemini", "GET /v1/models", []string{"X-Goog-Api-Key", houseKey}, "models", "name", []string{"models/m", "models/m/two"}},
		{"gemini", "GET /models?key=" + houseKey, nil, "models", "name", []string{"models/m", "models/m/two"}},
		{"ollama", "GET /api/tags", nil, "models", "name", []string{"m", "m/two"}},
		{"ollama", "GET /api/ps", nil, "models", "name", []string{}},
		{"openai", "GET /v1beta/models", nil, "models", "name", []string{}},
	} {
		set := two
		set.dialect = s.dialect
		inHouse(t, set, says("application/json", "{}"), func(h *house) {
			got := h.ask(s.path, "", s.header...)
			if got.status != 200 {
				t.Fatalf("%s: got %d %s", s.path, got.status, got.body)
			}
			if names := namesIn(t, got.body, s.list, s.key); !slices.Equal(names, s.names) {
				t.Errorf("%s: got %q, want %q", s.path, names, s.names)
			}
			if got := h.ask(s.path, "", append(s.header, "Authorization", "Bearer x")...); got.status != 401 {
				t.Errorf("%s: with an unknown key: got %d, want 401", s.path, got.status)
			}
		})
	}
}

func TestEachAPIShowsOneModel(t *testing.T) {
	for _, s := range []struct {
		dialect, found, lost string
		body                 string // %s: the model
		want                 string
	}{
		{"openai", "GET /v1/models/m", "GET /v1/models/x", "", `"id":"m"`},
		{"openai", "GET /models/m", "GET /models/x", "", `"id":"m"`},
		{"azure", "GET /openai/v1/models/m", "GET /openai/v1/models/x", "", `"id":"m"`},
		{"azure", "GET /openai/models/m?api-version=2024-10-21", "GET /openai/models/x", "", `"status":"succeeded"`},
		{"azure", "GET /openai/deployments/m", "GET /openai/deployments/x", "", `"model":"m"`},
		{"gemini", "GET /v1beta/models/m", "GET /v1beta/models/x", "", `"name":"models/m"`},
		{"ollama", "/api/show", "/api/show", `{"model":"%s"}`, `"capabilities":["completion","tools"]`},
		{"ollama", "/api/show", "/api/show", `{"name":"%s","verbose":true}`, `"details":{`},
	} {
		var there seen
		inHouse(t, setting{dialect: s.dialect}, there.says("{}"), func(h *house) {
			body := func(model string) string {
				if s.body == "" {
					return ""
				}
				return fmt.Sprintf(s.body, model)
			}
			if got := h.ask(s.found, body("m")); got.status != 200 || !strings.Contains(got.body, s.want) {
				t.Errorf("%s: got %d %s, want %s", s.found, got.status, got.body, s.want)
			}
			if got := h.ask(s.lost, body("x")); got.status != 404 || got.header.Get("X-Llmgw-Error-Code") != "model_not_found" {
				t.Errorf("%s: got %d %s, want 404", s.lost, got.status, got.body)
			}
			if e := h.entry(); e.Asked != "x" || e.Model != "other" {
				t.Errorf("%s: the log says asked_model %q, model %q", s.lost, e.Asked, e.Model)
			}
			if calls := there.take(); len(calls) != 0 {
				t.Errorf("%s: the provider saw %q", s.found, calls)
			}
		})
	}
	inHouse(t, setting{dialect: "ollama"}, says("application/json", "{}"), func(h *house) {
		if got := h.ask("GET /api/version", "", "Authorization", ""); got.status != 200 || !strings.Contains(got.body, `"version":"0.`) {
			t.Errorf("got %d %s", got.status, got.body)
		}
	})
}

func TestTheLogHasTheBeginningOfTheModelThatARefusedRequestAskedFor(t *testing.T) {
	inHouse(t, setting{}, says("application/json", "{}"), func(h *house) {
		long := strings.Repeat("ä", 100)
		for model, want := range map[string]string{"gpt-nope": "gpt-nope", long: strings.Repeat("ä", 64) + "…"} {
			if got := h.ask(chatPath, `{"model":"`+model+`","messages":[]}`); got.status != 404 {
				t.Fatalf("got %d, want 404", got.status)
			}
			if e := h.entry(); e.Asked != want || e.Model != "other" {
				t.Errorf("got asked_model %q, model %q, want %q and other", e.Asked, e.Model, want)
			}
		}
	})
}

func TestAPassthroughServesMembersAndNothingBesides(t *testing.T) {
	passes := setting{rules: func(r *Rules) {
		p := r.Models["m"].Targets[0].Provider
		p.BaseURL = "http://p/v1"
		r.Passthrough = []Passthrough{
			{Path: "/v1/batches/{id}", Methods: []string{"GET"}, Provider: p, Requests: 1, Tokens: 5},
			{Path: "/v1/batches/{id}/cancel", Methods: []string{"POST"}, Provider: p, Requests: 1, Tokens: 5},
			{Path: "/v1/files/**", Methods: []string{"GET", "DELETE"}, Provider: p, Requests: 1, Tokens: 5},
		}
	}}
	for path, sent := range map[string]string{
		"GET /v1/batches/batch_1":                "GET /v1/batches/batch_1",
		"GET /v1/batches/batch_1?a=b":            "GET /v1/batches/batch_1?a=b",
		"POST /v1/batches/batch_1/cancel":        "POST /v1/batches/batch_1/cancel",
		"GET /v1/files":                          "GET /v1/files",
		"GET /v1/files/file-1":                   "GET /v1/files/file-1",
		"GET /v1/files/file-1/content":           "GET /v1/files/file-1/content",
		"DELETE /v1/files/a:b/c@d":               "DELETE /v1/files/a:b/c@d",
		"GET /v1/batches":                        "",
		"GET /v1/batches/":                       "",
		"GET /v1/batches/a/b":                    "",
		"GET /v1/batches/..":                     "",
		"GET /v1/batches/%2e%2e":                 "",
		"GET /v1/batches/a%2Fb":                  "",
		"GET /v1/batches/a%5Cb":                  "",
		"GET /v1/files/../chat/completions":      "",
		"GET /v1/files/a/../../chat/completions": "",
		"GET /v1/files/%2e%2e/chat/completions":  "",
		"GET /v1/files/a//b":                     "",
		"GET /v1/files/a/":                       "",
		"GET /v1/files/a;b":                      "",
		"GET /v1/filesystem":                     "",
		"GET /v1/%66iles/a":                      "",
		"DELETE /v1/batches/batch_1":             "",
		"POST /v1/files/a":                       "",
		"GET /V1/files/a":                        "",
	} {
		var there seen
		inHouse(t, passes, there.says("{}"), func(h *house) {
			got := h.ask(path, "")
			calls := there.take()
			if sent == "" {
				if len(calls) != 0 || got.status != 404 && got.status != 405 && got.status != 400 {
					t.Errorf("%s: got %d, and the provider %q, want a refusal", path, got.status, calls)
				}
				return
			}
			if got.status != 200 || !slices.Equal(calls, []string{sent}) {
				t.Errorf("%s: got %d, and the provider %q, want %q\n%s", path, got.status, calls, sent, got.body)
			}
			if used := h.limiter.used(h.entry().RequestID); !slices.Equal(used, []int64{5, 1}) {
				t.Errorf("%s: charged %v, want 5 tokens and a request", path, used)
			}
		})
	}
}
