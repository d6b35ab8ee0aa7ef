package blackbox

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// everyDialect is a world whose models are served in the dialects that the
// simulated provider speaks, and Azure's.
func everyDialect(t *testing.T, limits string) *world {
	s := setup{limits: limits}
	s.fake.Script = "sim-in20-out10"
	w := start(t, s)
	s.providers = "{name: sim-gemini, dialect: gemini, base_url: " + w.provider.URL + ", api_keys: [sk-provider]}\n" +
		"{name: sim-azure, dialect: azure, base_url: " + w.provider.URL + ", api_version: 2024-10-21, api_keys: [sk-provider]}"
	s.models = "{name: on-openai, targets: [{provider: sim, model: sim-in20-out10}]}\n" +
		"{name: on-azure, targets: [{provider: sim-azure, model: sim-in20-out10}]}\n" +
		"{name: on-anthropic, targets: [{provider: sim-anthropic, model: sim-in20-out10}]}\n" +
		"{name: on-gemini, targets: [{provider: sim-gemini, model: sim-in20-out10}]}\n" +
		"{name: sim-end3-chunks8, targets: [{provider: sim-gemini}]}"
	w.WriteConfig(s.config(w))
	if a := w.Admin("POST", "/admin/v1/reload", ""); a.Status != 200 {
		t.Fatalf("reload: %d %s", a.Status, a.Body)
	}
	return w
}

const (
	geminiBody    = `{"contents":[{"parts":[{"text":"hi"}]}],"generationConfig":{"maxOutputTokens":100}}`
	anthropicBody = `{"model":"on-anthropic","max_tokens":100,"messages":[{"role":"user","content":"hi"}]}`
	azureBody     = `{"messages":[{"role":"user","content":"hi"}],"max_tokens":100}`
)

func TestEachDialectIsServedByTheProvidersThatSpeakIt(t *testing.T) {
	w := everyDialect(t, tokensLimit())
	for _, s := range []struct {
		what, path, body string
		upstream, sent   string
		endpoint         string
	}{
		{"OpenAI to OpenAI", chat, ask("on-openai", bound(108)), "sim/", "/v1/chat/completions", chat},
		{"OpenAI to Azure", chat, ask("on-azure", bound(108)), "sim-azure/", "/openai/deployments/sim-in20-out10/chat/completions", chat},
		{"Azure to Azure", "/openai/deployments/on-azure/chat/completions?api-version=2023-05-15", azureBody, "sim-azure/", "/openai/deployments/sim-in20-out10/chat/completions", "/openai/deployments/{deployment}/chat/completions"},
		{"Azure to OpenAI", "/openai/deployments/on-openai/chat/completions?api-version=2024-10-21", azureBody, "sim/", "/v1/chat/completions", "/openai/deployments/{deployment}/chat/completions"},
		{"Azure's v1 to OpenAI", "/openai/v1/chat/completions", ask("on-openai", bound(108)), "sim/", "/v1/chat/completions", "/openai/v1/chat/completions"},
		{"Anthropic", "/v1/messages", anthropicBody, "sim-anthropic/", "/v1/messages", "/v1/messages"},
		{"Gemini", "/v1beta/models/on-gemini:generateContent", geminiBody, "sim-gemini/", "/v1beta/models/sim-in20-out10:generateContent", "/v1beta/models/{model}:generateContent"},
	} {
		before := w.Metrics().Sum("llmgw_requests_total", "endpoint", s.endpoint, "outcome", "completed")
		a := w.Post(secret, s.path, s.body)
		if a.Status != 200 || a.Header.Get("X-LLMGW-Upstream") != s.upstream+"sim-in20-out10" {
			t.Errorf("%s: got %d from %q, want 200 from %s\n%s", s.what, a.Status, a.Header.Get("X-LLMGW-Upstream"), s.upstream, a.Body)
		}
		if seen := w.provider.Saw("sim-in20-out10"); len(seen) == 0 || seen[len(seen)-1].Path != s.sent {
			t.Errorf("%s: it was not sent to %s: %+v", s.what, s.sent, seen)
		}
		w.Eventually("counted: "+s.what, eventually, func() bool {
			return w.Metrics().Sum("llmgw_requests_total", "endpoint", s.endpoint, "outcome", "completed") == before+1
		})
	}
	if got := w.spent("tokens"); got != 7*30 {
		t.Errorf("seven calls of 20 + 10 tokens were charged %d", got)
	}
	w.settled()
}

func TestAModelIsNotTranslatedForAnotherDialect(t *testing.T) {
	w := everyDialect(t, "")
	for _, s := range []struct{ path, body, use string }{
		{chat, ask("on-anthropic"), "/v1/messages"},
		{chat, ask("on-gemini"), ":generateContent"},
		{"/v1/messages", strings.Replace(anthropicBody, "on-anthropic", "on-openai", 1), "/v1/chat/completions"},
		{"/v1beta/models/on-azure:generateContent", geminiBody, "/v1/chat/completions"},
	} {
		if a := w.Post(secret, s.path, s.body); a.Status != 400 || a.Code() != "invalid_request" || !strings.Contains(a.Body, s.use) {
			t.Errorf("%s: got %d %q, want 400 invalid_request that names %s\n%s", s.path, a.Status, a.Code(), s.use, a.Body)
		}
	}
}

func TestARefusalHasTheShapeOfTheAPIThatWasCalled(t *testing.T) {
	w := everyDialect(t, "{name: tpm, unit: tokens, amount: 6000, per: minute, start: empty}")
	for _, s := range []struct {
		what, path, body string
		reads            []string
	}{
		{"OpenAI", chat, ask("on-openai", bound(600)), []string{`"type":"tokens"`, `"code":"rate_limit_exceeded"`, `"limit":{`}},
		{"Azure", "/openai/deployments/on-azure/chat/completions", azureBody, []string{`"code":"429"`}},
		{"Anthropic", "/v1/messages", anthropicBody, []string{`"type":"rate_limit_error"`, `"details":{"error_code":"rate_limit_exceeded","limit":{`}},
		{"Gemini", "/v1beta/models/on-gemini:generateContent", geminiBody, []string{`"status":"RESOURCE_EXHAUSTED"`, `"reason":"rate_limit_exceeded"`, "google.rpc.RetryInfo"}},
	} {
		a := w.Post(secret, s.path, s.body)
		if a.Status != 429 || a.Code() != "rate_limit_exceeded" || a.LimitedBy() != "team/search/tpm" || !json.Valid([]byte(a.Body)) {
			t.Errorf("%s: got %d %q by %q\n%s", s.what, a.Status, a.Code(), a.LimitedBy(), a.Body)
		}
		for _, part := range s.reads {
			if !strings.Contains(a.Body, part) {
				t.Errorf("%s: %s is missing in %s", s.what, part, a.Body)
			}
		}
		anthropics := a.Header.Get("Anthropic-Ratelimit-Tokens-Limit") != ""
		openAIs := a.Header.Get("X-Ratelimit-Limit-Tokens") != ""
		if anthropics != (s.what == "Anthropic") || openAIs == anthropics {
			t.Errorf("%s: the headers are of another API: %v", s.what, a.Header)
		}
		if a.Header.Get("X-LLMGW-Request-Id") == "" || a.Header.Get("X-Request-Id") == "" || a.Header.Get("X-LLMGW-Estimated-Tokens") == "" || a.Header.Get("RateLimit") == "" {
			t.Errorf("%s: headers are missing: %v", s.what, a.Header)
		}
	}
}

func TestAGeminiStreamThatIsAnArrayIsRefusedInOne(t *testing.T) {
	w := everyDialect(t, "{name: tpm, unit: tokens, amount: 6000, per: minute, start: empty}")
	for action, array := range map[string]bool{"streamGenerateContent": true, "streamGenerateContent?alt=sse": false, "generateContent": false, "generateContent?alt=json": false} {
		for _, key := range []string{secret, "sk-nobody"} {
			a := w.Post(key, "/v1beta/models/on-gemini:"+action, geminiBody)
			body, inArray := strings.CutPrefix(strings.TrimSpace(a.Body), "[")
			if inArray {
				body, inArray = strings.CutSuffix(body, "]")
			}
			var doc struct{ Error struct{ Code int } }
			if err := json.Unmarshal([]byte(body), &doc); err != nil || doc.Error.Code != a.Status || inArray != array {
				t.Errorf("%s: got %d, in an array: %v, %v\n%s", action, a.Status, inArray, err, a.Body)
			}
		}
	}
}

func TestAStreamThatIsNoEventStreamIsCutVisiblyToo(t *testing.T) {
	w := everyDialect(t, tokensLimit())
	a, err := w.Try(secret, "/v1beta/models/sim-end3-chunks8:streamGenerateContent", geminiBody)
	if err == nil || json.Valid([]byte(a.Body)) {
		t.Errorf("an array that lacks its end came as if it were whole: %d\n%s", a.Status, a.Body)
	}
	w.Eventually("counted", eventually, func() bool {
		return w.Metrics().Sum("llmgw_requests_total", "outcome", "upstream_truncated") == 1
	})
	w.settled()
}

func TestWhoHasNoKeyIsToldInEveryDialect(t *testing.T) {
	w := start(t, setup{})
	for _, path := range []string{
		chat, "/openai/deployments/x/chat/completions", "/v1/messages", "/v1beta/models/x:generateContent",
		"/model/x/converse", "/v2/chat", "/api/chat",
	} {
		a := w.send("POST", path, "", "{}")
		if a.Status != 401 || a.Code() != "invalid_api_key" || !json.Valid([]byte(a.Body)) {
			t.Errorf("%s: got %d %q\n%s", path, a.Status, a.Code(), a.Body)
		}
	}
	for _, s := range []struct {
		method, path string
		status       int
		code         string
	}{
		{"POST", "/v1/nothing", 404, "not_found"},
		{"GET", chat, 405, "method_not_allowed"},
		{"DELETE", "/v1/models", 405, "method_not_allowed"},
		{"GET", "/v1beta/models/x", 401, "invalid_api_key"},
		{"DELETE", "/v1beta/models/x:generateContent", 405, "method_not_allowed"},
		{"POST", "/v1beta/models/x:tuneModel", 404, "not_found"},
		{"POST", "/v1beta/models/x", 404, "not_found"},
	} {
		if a := w.send(s.method, s.path, "", ""); a.Status != s.status || a.Code() != s.code {
			t.Errorf("%s %s without a key: got %d %q, want %d %q", s.method, s.path, a.Status, a.Code(), s.status, s.code)
		}
	}
}

func TestEveryClientsHeaderForItsKeyIsRead(t *testing.T) {
	w := start(t, setup{})
	for _, s := range []struct{ name, value, query string }{
		{"Authorization", "Bearer " + secret, ""}, {"X-Api-Key", secret, ""}, {"Api-Key", secret, ""}, {"X-Goog-Api-Key", secret, ""}, {"Accept", "*/*", "?key=" + secret},
	} {
		a := w.send("POST", chat+s.query, "", ask("sim-out1"), s.name, s.value, "Content-Type", "application/json")
		if a.Status != 200 {
			t.Errorf("%s: got %d\n%s", s.name+s.query, a.Status, a.Body)
		}
	}
	for _, seen := range w.provider.Stats().Last {
		if seen.Key != "sk-provider" || strings.Contains(seen.Path, secret) || slices.Contains(seen.Header["X-Api-Key"], secret) {
			t.Errorf("the provider saw the gateway's key: %+v", seen)
		}
	}
}
