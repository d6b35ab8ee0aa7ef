package blackbox

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// vendor answers as Bedrock, Cohere and Ollama do, each for 11 tokens read and
// 3 written. An answer that the prompt asks to cut lacks its end.
func vendor(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err) // the gateway broke off: no case here does
	}
	w.Header().Set("X-Saw-Path", r.URL.EscapedPath())
	w.Header().Set("X-Saw-As", r.Header.Get("Authorization"))
	w.Header().Set("Content-Type", "application/json")
	switch {
	case strings.HasSuffix(r.URL.Path, "/converse"):
		fmt.Fprint(w, `{"output":{"message":{"role":"assistant","content":[{"text":"hello"}]}},"stopReason":"end_turn","usage":{"inputTokens":11,"outputTokens":3,"totalTokens":14}}`)
	case r.URL.Path == "/v2/chat":
		fmt.Fprint(w, `{"id":"1","finish_reason":"COMPLETE","message":{"role":"assistant","content":[{"type":"text","text":"hi"}]},"usage":{"billed_units":{"input_tokens":11,"output_tokens":3}}}`)
	case r.URL.Path == "/v2/embed":
		fmt.Fprint(w, `{"id":"1","embeddings":{"float":[[0.1]]},"meta":{"billed_units":{"input_tokens":14}}}`)
	case r.URL.Path == "/api/chat":
		w.Header().Set("Content-Type", "application/x-ndjson")
		fmt.Fprint(w, `{"model":"m","message":{"role":"assistant","content":"hello"},"done":false}`+"\n")
		if !strings.Contains(string(body), "cut") {
			fmt.Fprint(w, `{"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","prompt_eval_count":11,"eval_count":3}`+"\n")
		}
	}
}

func TestBedrockCohereAndOllamaAreMeteredInTheirOwnAPIs(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(vendor))
	t.Cleanup(server.Close)
	w := start(t, setup{
		limits: tokensLimit() + "\n{name: slots, unit: concurrency, amount: 5}",
		providers: "{name: bedrock, dialect: bedrock, base_url: " + server.URL + ", region: us-east-1, api_keys: [sk-bearer]}\n" +
			"{name: signed, dialect: bedrock, base_url: " + server.URL + ", region: us-east-1, api_keys: [\"AKIAEXAMPLE:secret\"]}\n" +
			"{name: cohere, dialect: cohere, base_url: " + server.URL + ", api_keys: [sk-cohere]}\n" +
			"{name: ollama, dialect: ollama, base_url: " + server.URL + "}",
		models: "{name: \"vendor.model-1:0\", targets: [{provider: bedrock}]}\n" +
			"{name: signed, targets: [{provider: signed, model: \"arn/x:0\"}]}\n" +
			"{name: command, targets: [{provider: cohere}]}\n{name: llama, targets: [{provider: ollama, model: llama3}]}",
	})
	spent := 0
	for _, s := range []struct{ what, path, body, sent, key string }{
		{"Bedrock", "/model/vendor.model-1%3A0/converse", `{"messages":[{"role":"user","content":[{"text":"hi"}]}]}`, "/model/vendor.model-1%3A0/converse", "Bearer sk-bearer"},
		{"Bedrock, signed", "/model/signed/converse", `{"messages":[{"role":"user","content":[{"text":"hi"}]}]}`, "/model/arn%2Fx%3A0/converse", "AWS4-HMAC-SHA256 Credential=AKIAEXAMPLE/"},
		{"Cohere", "/v2/chat", `{"model":"command","messages":[{"role":"user","content":"hi"}]}`, "/v2/chat", "Bearer sk-cohere"},
		{"Cohere's embeddings", "/v2/embed", `{"model":"command","texts":["a"],"input_type":"search_query","embedding_types":["float"]}`, "/v2/embed", "Bearer sk-cohere"},
		{"Ollama", "/api/chat", `{"model":"llama","messages":[{"role":"user","content":"hi"}]}`, "/api/chat", ""},
	} {
		a := w.Post(secret, s.path, s.body)
		if a.Status != 200 || a.Header.Get("X-Saw-Path") != s.sent || !strings.HasPrefix(a.Header.Get("X-Saw-As"), s.key) {
			t.Errorf("%s: got %d, sent to %q with %q\n%s", s.what, a.Status, a.Header.Get("X-Saw-Path"), a.Header.Get("X-Saw-As"), a.Body)
		}
		spent += 14
		if got := w.spent("tokens"); got != spent {
			t.Errorf("%s: got %d tokens charged, want 14 more: %d", s.what, got, spent)
		}
	}
	a, err := w.Try(secret, "/api/chat", `{"model":"llama","messages":[{"role":"user","content":"cut"}]}`)
	if err == nil || !strings.HasSuffix(a.Body, "}\n") || !strings.Contains(a.Body, `{"error":`) {
		t.Errorf("lines without the last: got %v, want an error in a line and a broken connection\n%s", err, a.Body)
	}
	w.Eventually("counted", eventually, func() bool {
		return w.Metrics().Sum("llmgw_requests_total", "endpoint", "/api/chat", "outcome", "upstream_truncated") == 1
	})
	w.settled()
}
