package blackbox

import (
	"compress/zlib"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"llmgw/internal/gatewaytest"
)

// said is what a provider answers, headers and all. It must not be trusted to
// say what it sends.
type said struct {
	status int
	kind   string // its Content-Type; "-": none
	coding string // its Content-Encoding
	length bool   // it says how long it is
	cut    bool   // its connection breaks behind it
	body   string
}

func (a said) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // what was asked does not matter
	h := w.Header()
	h["Content-Type"] = []string{a.kind}
	if a.kind == "-" {
		h["Content-Type"] = nil
	}
	if a.coding != "" {
		h.Set("Content-Encoding", a.coding)
	}
	if a.length {
		h.Set("Content-Length", strconv.Itoa(len(a.body)))
	}
	w.WriteHeader(max(a.status, http.StatusOK))
	_, _ = io.WriteString(w, a.body) // the gateway may have left
	if a.cut {
		_ = http.NewResponseController(w).Flush() // as before
		panic(http.ErrAbortHandler)
	}
}

const (
	shown   = `{"choices":[{"index":0,"delta":{"content":"hello"},"finish_reason":null}]}`
	over    = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	counts  = `{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}`
	wholeIs = "data: " + shown + "\n\ndata: " + over + "\n\ndata: " + counts + "\n\ndata: [DONE]\n\n"
	cutIs   = "data: " + shown + "\n\n"
)

// asked is a model, the call for it, what its provider says, and what is to come
// of it.
type asked struct {
	what   string
	path   string // empty: a chat
	body   string // {} stands for the model; empty: a chat as a stream that shows usage
	says   said
	output int // tokens; -1: more than none
	told   bool
	end    string // the outcome
	broken bool   // the client's connection breaks
	gets   string // empty: what the provider said
}

func TestAnAnswerIsTakenForWhatItIsAndNotForWhatItSays(t *testing.T) {
	hidden := strings.Replace(wholeIs, "data: "+counts+"\n\n", "", 1)
	document := strings.Replace(strings.Replace(counts, "[]", `[{"message":{"content":"hello"}}]`, 1), "5,", "7,", 1)
	unasked := `{"model":"{}","stream":true,` + chatMessages + `}`
	plain := `{"model":"{}","max_tokens":40,` + chatMessages + `}`
	speech := `{"model":"{}","input":"hello there","voice":"alloy"}`
	checkAsked(t, []asked{
		{what: "a stream without a type", says: said{kind: "-", body: wholeIs}, output: 5, told: true, end: "completed"},
		{what: "of a type in capitals", says: said{kind: "TEXT/Event-Stream;charset=UTF-8", body: wholeIs}, output: 5, told: true, end: "completed"},
		{what: "of no type, and cut", says: said{kind: "-", body: cutIs}, output: 1, end: "upstream_truncated", broken: true},
		{what: "of a type in capitals, and cut", says: said{kind: "Text/Event-Stream", body: cutIs}, output: 1, end: "upstream_truncated", broken: true},
		{what: "that says it is text, and how long it is", body: unasked, says: said{kind: "text/plain", length: true, body: wholeIs}, output: 5, told: true, end: "completed", gets: hidden},
		{what: "that says it is JSON", says: said{kind: "application/json", body: wholeIs}, output: -1, end: "completed"},
		{what: "in no coding", says: said{kind: "text/event-stream", coding: "Identity", body: wholeIs}, output: 5, told: true, end: "completed"},
		{what: "that says it is gzip", says: said{kind: "text/event-stream", coding: "gzip", body: wholeIs}, output: 5, told: true, end: "completed"},
		{what: "in a coding that nobody knows", says: said{kind: "text/event-stream", coding: "compress", body: "\x1f\x9d\x90" + wholeIs}, output: -1, end: "completed"},
		{what: "the same, cut", says: said{kind: "text/event-stream", coding: "compress", cut: true, body: "\x1f\x9d\x90" + cutIs}, output: -1, end: "upstream_truncated", broken: true},
		{what: "a document that says it is brotli", body: plain, says: said{kind: "application/json", coding: "br", length: true, body: document}, output: 7, told: true, end: "completed"},
		{what: "a document that says it is zstd", body: plain, says: said{kind: "application/json", coding: "zstd", length: true, body: document}, output: 7, told: true, end: "completed"},
		{what: "a page", body: plain, says: said{kind: "text/html", body: "<html>" + strings.Repeat("busy ", 1000)}, output: 40, end: "completed"},
		{what: "sound", path: "/v1/audio/speech", body: speech, says: said{kind: "audio/mpeg", body: "\xff\xfb\x00"}, output: -1, end: "completed"},
		{what: "sound that is cut", path: "/v1/audio/speech", body: speech, says: said{kind: "audio/mpeg", cut: true, body: "\xff\xfb\x00"}, output: -1, end: "upstream_truncated", broken: true},
	})
}

// checkAsked asks providers of their own for all of them.
func checkAsked(t *testing.T, all []asked) {
	t.Helper()
	set := setup{limits: monthly("tokens", "tokens", 1_000_000_000)}
	for i, a := range all {
		server := httptest.NewServer(a.says)
		t.Cleanup(server.Close)
		set.providers += fmt.Sprintf("{name: p%d, dialect: openai, base_url: %s/v1, api_keys: [sk-p], retries: {attempts: 0}}\n", i, server.URL)
		set.models += fmt.Sprintf("{name: m%d, targets: [{provider: p%d}]}\n", i, i)
	}
	w := start(t, set)
	for i, a := range all {
		name, path, body := fmt.Sprintf("m%d", i), a.path, a.body
		if path == "" {
			path = chat
		}
		if body == "" {
			body = `{"model":"{}","max_tokens":40,"stream":true,` + askUsage + `,` + chatMessages + `}`
		}
		got, err := w.Try(secret, path, strings.ReplaceAll(body, "{}", name))
		if a.gets == "" {
			a.gets = a.says.body
		}
		if got.Status != http.StatusOK || (err != nil) != a.broken || a.broken && !strings.HasPrefix(got.Body, a.gets) || !a.broken && got.Body != a.gets {
			t.Errorf("%s: got %d, %v\n got %.200q\nwant %.200q", a.what, got.Status, err, got.Body, a.gets)
		}
		if kind := got.Header.Get("Content-Type"); kind != strings.TrimPrefix(a.says.kind, "-") {
			t.Errorf("%s: the type is %q", a.what, kind)
		}
	}
	w.Eventually("counted", eventually, func() bool { return w.Metrics().Sum("llmgw_requests_total") >= float64(len(all)) })
	m := w.Metrics()
	for i, a := range all {
		a.charged(t, m, fmt.Sprintf("m%d", i))
	}
	w.settled()
}

// charged checks what the metrics say of a model.
func (a asked) charged(t *testing.T, m gatewaytest.Metrics, model string) {
	t.Helper()
	output := int(m.Sum("llmgw_tokens_total", "model", model, "kind", "output"))
	if output != a.output && (a.output >= 0 || output == 0) {
		t.Errorf("%s: charged an output of %d, want %d", a.what, output, a.output)
	}
	if estimated := m.Sum("llmgw_settlements_estimated_total", "model", model); (estimated == 0) != a.told {
		t.Errorf("%s: estimated: %v", a.what, estimated)
	}
	if m.Sum("llmgw_requests_total", "model", model, "outcome", a.end) != 1 {
		t.Errorf("%s: the outcome is not %s", a.what, a.end)
	}
}

func TestARelayedAnswerThatBreaksIsBrokenForTheClientToo(t *testing.T) {
	server := httptest.NewServer(said{kind: "application/octet-stream", cut: true, body: "half of a file"})
	defer server.Close()
	w := start(t, setup{
		providers: fmt.Sprintf("{name: files, dialect: openai, base_url: %s/v1, api_keys: [sk-p]}", server.URL),
		top:       "passthrough: [{path: /v1/files, methods: [POST], provider: files, charge: {requests: 1, tokens: 100}}]",
	})
	a, err := w.Try(secret, "/v1/files", "{}")
	if err == nil || a.Body != "half of a file" {
		t.Errorf("got %q and %v, want a connection that breaks", a.Body, err)
	}
	w.Eventually("counted", eventually, func() bool {
		return w.Metrics().Sum("llmgw_requests_total", "endpoint", "/v1/files", "outcome", "upstream_truncated") == 1
	})
	w.settled()
}

func TestC5AProviderIsUnderstoodInWhateverCodingItRefusesTheOption(t *testing.T) {
	var plain, packed strings.Builder
	_, _ = io.WriteString(&plain, `{"error":{"message":"Unrecognized request argument supplied: stream_options"}}`) // a Builder takes all
	z := zlib.NewWriter(&packed)
	_, _ = io.WriteString(z, plain.String()) // as before
	_ = z.Close()                            // as before
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // half of it has no option either
		if strings.Contains(string(body), "stream_options") {
			said{status: 400, kind: "application/json", coding: "deflate", body: packed.String()}.ServeHTTP(w, r)
			return
		}
		said{kind: "text/event-stream", body: "data: " + shown + "\n\ndata: " + over + "\n\ndata: [DONE]\n\n"}.ServeHTTP(w, r)
	}))
	defer server.Close()
	w := start(t, setup{
		limits:    tokensLimit(),
		providers: fmt.Sprintf("{name: strict, dialect: openai, base_url: %s/v1, api_keys: [sk-p], retries: {attempts: 0}}", server.URL),
		models:    "{name: strict, targets: [{provider: strict}]}",
	})
	if a := w.Post(secret, chat, `{"model":"strict","stream":true,`+chatMessages+`}`); a.Status != 200 || !strings.HasSuffix(a.Body, "[DONE]\n\n") {
		t.Errorf("got %d %q", a.Status, a.Body)
	}
	w.settled()
}
