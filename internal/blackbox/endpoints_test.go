package blackbox

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// plane are the data plane's endpoints that a provider answers. A {} is a
// model; free is what draws on limits of requests alone.
var plane = []struct{ method, path, endpoint, body, free string }{
	{"POST", chat, "", `{"model":"{}",` + chatMessages + `}`, ""},
	{"POST", "/v1/completions", "", `{"model":"{}","prompt":"hi"}`, ""},
	{"POST", "/v1/responses", "", `{"model":"{}","input":"hi"}`, ""},
	{"POST", "/v1/responses/input_tokens", "", `{"model":"{}","input":"hi"}`, "counts"},
	{"GET", "/v1/responses/resp_1", "/v1/responses/{response_id}", "", "stored"},
	{"GET", "/v1/responses/resp_1/input_items", "/v1/responses/{response_id}/input_items", "", "stored"},
	{"POST", "/v1/responses/resp_1/cancel", "/v1/responses/{response_id}/cancel", "", "stored"},
	{"DELETE", "/v1/responses/resp_1", "/v1/responses/{response_id}", "", "stored"},
	{"POST", "/v1/embeddings", "", `{"model":"{}","input":"hi"}`, ""},
	{"POST", "/v1/moderations", "", `{"model":"{}","input":"hi"}`, ""},
	{"POST", "/v1/images/generations", "", `{"model":"{}","prompt":"hi"}`, ""},
	{"POST", "/v1/images/edits", "", "form", ""},
	{"POST", "/v1/audio/speech", "", `{"model":"{}","input":"hi","voice":"alloy"}`, ""},
	{"POST", "/v1/audio/transcriptions", "", "form", ""},
	{"POST", "/v1/audio/translations", "", "form", ""},
	{"POST", "/openai/deployments/{}/chat/completions?api-version=2024-10-21", "/openai/deployments/{deployment}/chat/completions", `{` + chatMessages + `}`, ""},
	{"POST", "/openai/deployments/{}/completions?api-version=2024-10-21", "/openai/deployments/{deployment}/completions", `{"prompt":"hi"}`, ""},
	{"POST", "/openai/deployments/{}/embeddings?api-version=2024-10-21", "/openai/deployments/{deployment}/embeddings", `{"input":"hi"}`, ""},
	{"POST", "/openai/deployments/{}/images/generations?api-version=2024-10-21", "/openai/deployments/{deployment}/images/generations", `{"prompt":"hi"}`, ""},
	{"POST", "/openai/deployments/{}/images/edits?api-version=2024-10-21", "/openai/deployments/{deployment}/images/edits", "form", ""},
	{"POST", "/openai/deployments/{}/audio/speech?api-version=2024-10-21", "/openai/deployments/{deployment}/audio/speech", `{"input":"hi","voice":"alloy"}`, ""},
	{"POST", "/openai/deployments/{}/audio/transcriptions?api-version=2024-10-21", "/openai/deployments/{deployment}/audio/transcriptions", "form", ""},
	{"POST", "/openai/deployments/{}/audio/translations?api-version=2024-10-21", "/openai/deployments/{deployment}/audio/translations", "form", ""},
	{"POST", "/openai/v1/chat/completions", "", `{"model":"{}",` + chatMessages + `}`, ""},
	{"POST", "/openai/v1/responses", "", `{"model":"{}","input":"hi"}`, ""},
	{"GET", "/openai/v1/responses/resp_1", "/openai/v1/responses/{response_id}", "", "stored"},
	{"POST", "/openai/responses?api-version=2025-03-01-preview", "/openai/responses", `{"model":"{}","input":"hi"}`, ""},
	{"GET", "/openai/responses/resp_1?api-version=2025-03-01-preview", "/openai/responses/{response_id}", "", "stored"},
	{"POST", "/openai/v1/embeddings", "", `{"model":"{}","input":"hi"}`, ""},
	{"POST", "/v1/messages", "", `{"model":"{}","max_tokens":50,` + chatMessages + `}`, ""},
	{"POST", "/v1/messages/count_tokens", "", `{"model":"{}",` + chatMessages + `}`, "counts"},
	{"POST", "/v1beta/models/{}:generateContent", "/v1beta/models/{model}:generateContent", geminiBody, ""},
	{"POST", "/v1beta/models/{}:streamGenerateContent?alt=sse", "/v1beta/models/{model}:streamGenerateContent", geminiBody, ""},
	{"POST", "/v1beta/models/{}:countTokens", "/v1beta/models/{model}:countTokens", geminiBody, "counts"},
	{"POST", "/v1beta/models/{}:embedContent", "/v1beta/models/{model}:embedContent", `{"content":{"parts":[{"text":"hi"}]}}`, ""},
	{"POST", "/v1beta/models/{}:batchEmbedContents", "/v1beta/models/{model}:batchEmbedContents", `{"requests":[{"content":{"parts":[{"text":"hi"}]}}]}`, ""},
	{"POST", "/model/{}/converse", "/model/{model}/converse", `{"messages":[{"role":"user","content":[{"text":"hi"}]}]}`, ""},
	{"POST", "/model/{}/converse-stream", "/model/{model}/converse-stream", `{"messages":[{"role":"user","content":[{"text":"hi"}]}]}`, ""},
	{"POST", "/model/{}/invoke", "/model/{model}/invoke", `{"max_tokens":50,` + chatMessages + `}`, ""},
	{"POST", "/model/{}/invoke-with-response-stream", "/model/{model}/invoke-with-response-stream", `{"max_tokens":50,` + chatMessages + `}`, ""},
	{"POST", "/v2/chat", "", `{"model":"{}",` + chatMessages + `}`, ""},
	{"POST", "/v2/embed", "", `{"model":"{}","texts":["hi"],"input_type":"search_query"}`, ""},
	{"POST", "/v2/rerank", "", `{"model":"{}","query":"hi","documents":["ho"]}`, ""},
	{"POST", "/api/chat", "", `{"model":"{}","stream":false,` + chatMessages + `}`, ""},
	{"POST", "/api/generate", "", `{"model":"{}","stream":false,"prompt":"hi"}`, ""},
	{"POST", "/api/embed", "", `{"model":"{}","input":"hi"}`, ""},
}

// TestEveryEndpointOfTheDataPlaneIsServedAndCounted calls each endpoint: it gets
// to the provider, is counted under its pattern and in limits of requests, wants
// a key, and takes no other method, which is told before the key is looked at.
func TestEveryEndpointOfTheDataPlaneIsServedAndCounted(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(document))
	t.Cleanup(server.Close)
	list, targets := providers("any", server.URL, "")
	w := start(t, setup{
		limits: monthly("requests", "requests", 1000) + "\n" + tokensLimit(), providers: list,
		models: "{name: m, default_max_output: 10, " + targets + "}",
	})
	served := map[string]float64{}
	for i, s := range plane {
		path, body, kind := strings.ReplaceAll(s.path, "{}", "m"), strings.ReplaceAll(s.body, "{}", "m"), "application/json"
		if body == "form" {
			body, kind = form("m", false), "multipart/form-data; boundary=zzz"
		}
		endpoint := s.endpoint
		if endpoint == "" {
			endpoint = s.path
		}
		served[endpoint]++
		before := w.spent("tokens")
		if a := w.send(s.method, path, secret, body, "Content-Type", kind); a.Status != 200 {
			t.Errorf("%s %s: got %d\n%s", s.method, s.path, a.Status, a.Body)
		}
		if got := w.spent("requests"); got != i+1 {
			t.Errorf("%s %s: %d requests are charged, want %d", s.method, s.path, got, i+1)
		}
		if charged := w.spent("tokens") > before; charged != (s.free == "") {
			t.Errorf("%s %s: charged tokens: %v", s.method, s.path, charged)
		}
		if a := w.send(s.method, path, "", body, "Content-Type", kind); a.Status != 401 || a.Code() != "invalid_api_key" {
			t.Errorf("%s %s without a key: got %d %q", s.method, s.path, a.Status, a.Code())
		}
		if a := w.send("PATCH", path, "", ""); a.Status != 405 || a.Code() != "method_not_allowed" || a.Header.Get("Allow") == "" {
			t.Errorf("PATCH %s: got %d %q, Allow: %q", s.path, a.Status, a.Code(), a.Header.Get("Allow"))
		}
	}
	w.Eventually("counted", eventually, func() bool {
		return w.Metrics().Sum("llmgw_requests_total", "outcome", "completed") == float64(len(plane))
	})
	for endpoint, n := range served {
		if got := w.Metrics().Sum("llmgw_requests_total", "endpoint", endpoint, "outcome", "completed"); got != n {
			t.Errorf("%s: counted %v calls, want %v", endpoint, got, n)
		}
	}
}
