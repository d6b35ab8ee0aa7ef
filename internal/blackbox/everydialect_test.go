package blackbox

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// spoken are the dialects, each with a call for a model that its path or its
// body names: {}.
var spoken = []struct{ dialect, path, body string }{
	{"openai", chat, `{"model":"{}","max_tokens":50,` + chatMessages + `}`},
	{"azure", "/openai/deployments/{}/chat/completions?api-version=2024-10-21", `{"max_tokens":50,` + chatMessages + `}`},
	{"anthropic", "/v1/messages", `{"model":"{}","max_tokens":50,` + chatMessages + `}`},
	{"gemini", "/v1beta/models/{}:generateContent", geminiBody},
	{"bedrock", "/model/{}/converse", `{"inferenceConfig":{"maxTokens":50},"messages":[{"role":"user","content":[{"text":"hi"}]}]}`},
	{"cohere", "/v2/chat", `{"model":"{}","max_tokens":50,` + chatMessages + `}`},
	{"ollama", "/api/chat", `{"model":"{}","stream":false,"options":{"num_predict":50},` + chatMessages + `}`},
}

// providers are one provider of each dialect at a server, named dialect-name,
// and the targets that lead to all of them.
func providers(name, server, more string) (list, targets string) {
	var to []string
	for _, s := range spoken {
		base := server
		if s.dialect == "openai" {
			base += "/v1"
		}
		list += fmt.Sprintf("{name: %s-%s, dialect: %s, base_url: %s, api_keys: [sk-p]%s, retries: {attempts: 0}%s}\n", s.dialect, name, s.dialect, base, wants[s.dialect], more)
		to = append(to, "{provider: "+s.dialect+"-"+name+"}")
	}
	return list, "targets: [" + strings.Join(to, ", ") + "]"
}

// document answers every call with an empty document, and one for the model
// silent not at all.
func document(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil || r.Header.Get("X-Ask") == "silent" {
		<-r.Context().Done() // which ends with the client only when the body was read
		return
	}
	if strings.HasSuffix(r.URL.Path, ":streamGenerateContent") { // which has no other answer than a stream
		say(w, "data: {\"candidates\":[{\"finishReason\":\"STOP\"}]}\n\n")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, "{}")
}

// TestEachRefusalHasOneStatusInAllDialects holds the table of refusals to every
// API: the same status, code and advice about retries, in the API's own shape.
func TestEachRefusalHasOneStatusInAllDialects(t *testing.T) {
	const (
		sleepIt = "Retry-After, retry-after-ms and x-should-retry: true"
		tooLong = "x-should-retry: false and no Retry-After"
	)
	server := httptest.NewServer(http.HandlerFunc(document))
	t.Cleanup(server.Close)
	var set setup
	add := func(name, base, provider, model string) {
		list, targets := providers(name, base, provider)
		set.providers += list
		set.models += fmt.Sprintf("{name: %s, %s%s}\n", name, targets, model)
	}
	add("short", server.URL, "", ", limits: [{name: l, unit: tokens, amount: 6000, per: minute, start: empty}]")
	add("long", server.URL, "", ", limits: [{name: l, unit: tokens, amount: 600, per: hour, start: empty}]")
	add("never", server.URL, "", ", limits: [{name: l, unit: tokens, amount: 20, per: minute}]")
	add("spent", server.URL, "", ", limits: [{name: l, unit: requests, amount: 1, per: month}]")
	add("capacity", server.URL, ", limits: {requests_per_minute: 1}, max_wait: 1ms", "")
	add("gone", "http://127.0.0.1:1", "", "")
	add("silent", server.URL, ", timeouts: {first_byte: 50ms}", "")
	add("hidden", server.URL, "", "")
	w := start(t, set)
	w.WriteConfig(strings.Replace(set.config(w), "  - name: search\n", "  - name: search\n    models: [short, long, never, spent, capacity, gone, silent]\n", 1))
	if a := w.Admin("POST", "/admin/v1/reload", ""); a.Status != 200 {
		t.Fatalf("reload: %d %s", a.Status, a.Body)
	}
	for _, s := range []struct {
		model, body string // body: instead of the call's
		key         string
		calls       int // of each dialect before the one that is refused
		status      int
		code, retry string
		limited     bool
	}{
		{model: "short", key: "sk-wrong", status: 401, code: "invalid_api_key", retry: tooLong},
		{model: "hidden", status: 403, code: "model_not_allowed", retry: tooLong},
		{model: "nobody", status: 404, code: "model_not_found", retry: tooLong},
		{model: "short", body: "{", status: 400, code: "invalid_request", retry: tooLong},
		{model: "never", status: 400, code: "exceeds_limit", retry: tooLong, limited: true},
		{model: "short", status: 429, code: "rate_limit_exceeded", retry: sleepIt, limited: true},
		{model: "long", status: 429, code: "rate_limit_exceeded", retry: tooLong, limited: true},
		{model: "spent", calls: 1, status: 429, code: "insufficient_quota", retry: tooLong, limited: true},
		{model: "capacity", calls: 2, status: 503, code: "upstream_capacity", retry: sleepIt, limited: true},
		{model: "gone", status: 502, code: "upstream_error"},
		{model: "silent", status: 504, code: "upstream_timeout"},
	} {
		for _, call := range spoken {
			what := call.dialect + ": " + s.model + s.body
			path, body, key := strings.ReplaceAll(call.path, "{}", s.model), strings.ReplaceAll(call.body, "{}", s.model), secret
			if s.body != "" {
				body = s.body
			}
			if s.key != "" {
				key = s.key
			}
			for range s.calls {
				w.Post(key, path, body)
			}
			a := w.Post(key, path, body, "X-Ask", s.model)
			if a.Status != s.status || a.Code() != s.code || (a.LimitedBy() != "") != s.limited {
				t.Errorf("%s: got %d %q by %q, want %d %q", what, a.Status, a.Code(), a.LimitedBy(), s.status, s.code)
			}
			if got := retryTold(a); got != s.retry {
				t.Errorf("%s: told %q, want %q", what, got, s.retry)
			}
			if !json.Valid([]byte(a.Body)) || len(strings.TrimSpace(a.Body)) < len(`{"message":""}`) {
				t.Errorf("%s: the body is %q", what, a.Body)
			}
		}
	}
}

func TestAPathThatIsNotThereIsRefusedAsTheNearestOneWouldBe(t *testing.T) {
	w := start(t, setup{})
	for path, reads := range map[string]string{
		"/v1/files":                `"type":"invalid_request_error"`,
		"/v1/messages/batches":     `"type":"not_found_error"`,
		"/openai/deployments/x/no": `"code":"not_found"`,
		"/v1beta/files":            `"status":"NOT_FOUND"`,
		"/v1beta/models/x:tune":    `"status":"NOT_FOUND"`,
		"/model/x/async-invoke":    `{"message":`,
		"/v2/classify":             `"message":`,
		"/api/pull":                `{"error":"`,
		"/nothing":                 `"type":"invalid_request_error"`,
		"/":                        `"type":"invalid_request_error"`,
	} {
		a := w.Post(secret, path, "{}")
		if a.Status != 404 || a.Code() != "not_found" || !strings.Contains(a.Body, reads) || !json.Valid([]byte(a.Body)) {
			t.Errorf("%s: got %d %q, want 404 with %s\n%s", path, a.Status, a.Code(), reads, a.Body)
		}
	}
}
