package blackbox

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// endpoints are all paths of the data plane that reach a provider, with a body
// that each takes.
var endpoints = []struct{ method, path, body string }{
	{"POST", chat, `{"model":"m",` + chatMessages + `}`},
	{"POST", "/v1/completions", `{"model":"m","prompt":"hi"}`},
	{"POST", "/v1/responses", `{"model":"m","input":"hi"}`},
	{"POST", "/v1/responses/input_tokens", `{"model":"m","input":"hi"}`},
	{"POST", "/v1/responses/compact", `{"model":"m","input":"hi"}`},
	{"POST", "/chat/completions", `{"model":"m",` + chatMessages + `}`},
	{"POST", "/v1/v1/chat/completions", `{"model":"m",` + chatMessages + `}`},
	{"GET", "/v1/responses/resp_1", ""},
	{"DELETE", "/v1/responses/resp_1", ""},
	{"POST", "/v1/responses/resp_1/cancel", ""},
	{"POST", "/v1/embeddings", `{"model":"m","input":"hi"}`},
	{"POST", "/v1/moderations", `{"model":"m","input":"hi"}`},
	{"POST", "/v1/moderations", `{"input":"hi"}`},
	{"POST", "/v1/images/generations", `{"model":"m","prompt":"hi"}`},
	{"POST", "/v1/images/edits", form("m", false)},
	{"POST", "/v1/audio/speech", `{"model":"m","input":"hi","voice":"alloy"}`},
	{"POST", "/v1/audio/transcriptions", form("m", false)},
	{"POST", "/v1/audio/translations", form("m", false)},
	{"POST", "/openai/deployments/m/chat/completions?api-version=2024-10-21", `{` + chatMessages + `}`},
	{"POST", "/openai/deployments/m/embeddings?api-version=2024-10-21", `{"input":"hi"}`},
	{"POST", "/openai/v1/chat/completions", `{"model":"m",` + chatMessages + `}`},
	{"POST", "/openai/v1/responses", `{"model":"m","input":"hi"}`},
	{"POST", "/v1/messages", `{"model":"m","max_tokens":9,` + chatMessages + `}`},
	{"POST", "/v1/messages/count_tokens", `{"model":"m",` + chatMessages + `}`},
	{"POST", "/v1beta/models/m:generateContent", geminiBody},
	{"POST", "/v1beta/models/m:streamGenerateContent?alt=sse", geminiBody},
	{"POST", "/v1beta/models/m:countTokens", geminiBody},
	{"POST", "/v1/models/m:generateContent", geminiBody},
	{"POST", "/models/m:generateContent", geminiBody},
	{"POST", "/v1beta/models/m:embedContent", `{"content":{"parts":[{"text":"hi"}]}}`},
	{"POST", "/v1beta/models/m:batchEmbedContents", `{"requests":[{"model":"models/m","content":{"parts":[{"text":"hi"}]}}]}`},
	{"POST", "/model/m/converse", `{"messages":[{"role":"user","content":[{"text":"hi"}]}]}`},
	{"POST", "/model/m/converse-stream", `{"messages":[{"role":"user","content":[{"text":"hi"}]}]}`},
	{"POST", "/model/m/count-tokens", `{"input":{"converse":{"messages":[]}}}`},
	{"POST", "/model/m/invoke", `{"max_tokens":9,` + chatMessages + `}`},
	{"POST", "/model/m/invoke-with-response-stream", `{"max_tokens":9,` + chatMessages + `}`},
	{"POST", "/v2/chat", `{"model":"m",` + chatMessages + `}`},
	{"POST", "/v2/embed", `{"model":"m","texts":["a"],"input_type":"search_query"}`},
	{"POST", "/v2/rerank", `{"model":"m","query":"q","documents":["a"]}`},
	{"POST", "/api/chat", `{"model":"m",` + chatMessages + `}`},
	{"POST", "/api/generate", `{"model":"m","prompt":"hi"}`},
	{"POST", "/api/embed", `{"model":"m","input":"hi"}`},
	{"POST", "/api/embeddings", `{"model":"m","prompt":"hi"}`},
	{"POST", "/v1/files", "{}"}, // passed through
}

// everywhere starts a gateway whose models are served by providers of every
// dialect at one address.
func everywhere(t *testing.T, at string, set setup) *world {
	t.Helper()
	var targets []string
	for _, d := range []string{"openai", "azure", "anthropic", "gemini", "bedrock", "cohere", "ollama"} {
		base := at
		if d == "openai" {
			base += "/v1"
		}
		set.providers += fmt.Sprintf("{name: %s, dialect: %s, base_url: %s, api_keys: [sk-hidden]%s, retries: {attempts: 0}}\n", d, d, base, wants[d])
		targets = append(targets, "{provider: "+d+"}")
	}
	for _, name := range []string{"m", "omni-moderation-latest"} {
		set.models += "{name: " + name + ", targets: [" + strings.Join(targets, ", ") + "]}\n"
	}
	return start(t, set)
}

func (w *world) call(method, path, body string) (int, string, string) {
	w.t.Helper()
	kind := "application/json"
	if strings.HasPrefix(body, "--zzz") {
		kind = "multipart/form-data; boundary=zzz"
	}
	a := w.send(method, path, secret, body, "Content-Type", kind)
	return a.Status, a.Code(), a.Body
}

// TestNoEndpointIsOutsideTheLimits spends a team's requests and then knocks at
// every endpoint.
func TestNoEndpointIsOutsideTheLimits(t *testing.T) {
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		fmt.Fprint(w, "{}")
	}))
	t.Cleanup(server.Close)
	w := everywhere(t, server.URL, setup{
		limits: monthly("requests", "requests", 1),
		top:    "passthrough: [{path: /v1/files, methods: [POST], provider: openai, charge: {requests: 1}}]",
	})
	if status, _, body := w.call("POST", chat, endpoints[0].body); status != 200 {
		t.Fatalf("the one request: got %d\n%s", status, body)
	}
	for _, e := range endpoints {
		if status, code, body := w.call(e.method, e.path, e.body); status < 400 || code != "insufficient_quota" {
			t.Errorf("%s %s: got %d %q, want to be refused\n%s", e.method, e.path, status, code, body)
		}
	}
	if got := calls.Load(); got != 1 {
		t.Errorf("%d calls reached the provider, want 1", got)
	}
}

func TestWhatCannotBeMeteredHasNoPath(t *testing.T) {
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }))
	t.Cleanup(server.Close)
	w := everywhere(t, server.URL, setup{})
	for _, path := range []string{
		"/v1/batches", "/v1/batches/batch_1", "/v1/files", "/v1/files/file_1/content", "/v1/uploads", "/v1/fine_tuning/jobs", "/v1/assistants", "/v1/threads", "/v1/threads/runs",
		"/v1/vector_stores", "/v1/videos", "/v1/containers", "/v1/conversations", "/v1/evals", "/v1/realtime/client_secrets", "/v1/realtime/calls",
		"/v1/messages/batches", "/v1/messages/batches/b/results", "/v1beta/models/m:batchGenerateContent", "/v1beta/models/m:asyncBatchEmbedContent", "/v1beta/files", "/v1beta/cachedContents",
		"/upload/v1beta/files", "/v1beta/models/m:predict", "/model/m/async-invoke", "/async-invoke", "/model-invocation-job", "/guardrail/g/version/1/apply",
		"/openai/batches", "/openai/v1/batches", "/openai/files", "/openai/deployments/m/batches", "/openai/deployments/m/extensions/chat/completions",
		"/v2/batches", "/v1/embed-jobs", "/v1/datasets", "/api/pull", "/api/push", "/api/create", "/api/delete", "/api/copy", "/api/blobs/x",
		"/v1/chat/completions/", "/v1//chat/completions", "/V1/chat/completions", "/v1/chat/completions/../files", "/v1/engines/m/completions",
	} {
		if status, code, body := w.call("POST", path, `{"model":"m"}`); status != 404 || code != "not_found" || body == "" {
			t.Errorf("%s: got %d %q, want 404 not_found\n%s", path, status, code, body)
		}
	}
	if got := calls.Load(); got != 0 {
		t.Errorf("%d calls reached the provider", got)
	}
}

func TestAnUpgradeIsRefusedInEveryDialect(t *testing.T) {
	w := start(t, setup{})
	for _, path := range []string{"/v1/responses", "/v1/realtime?model=m", chat, "/openai/v1/realtime", "/v1/messages", "/v1beta/models/m:generateContent", "/model/m/converse", "/v2/chat", "/api/chat", "/ws/google.ai"} {
		for _, method := range []string{"GET", "POST"} {
			a := w.send(method, path, secret, "", "Connection", "keep-alive, Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
			if a.Status != 426 || a.Code() != "invalid_request" || !strings.Contains(a.Body, "WebSocket") || a.Header.Get("Upgrade") != "" {
				t.Errorf("%s %s: got %d %q, want a 426 that offers nothing\n%s", method, path, a.Status, a.Code(), a.Body)
			}
		}
	}
	a := w.Post(secret, chat, ask("sim-out1"), "Connection", "Upgrade, HTTP2-Settings", "Upgrade", "h2c", "HTTP2-Settings", "AAMAAABkAAQCAAAAAAIAAAAA")
	if a.Status != 200 {
		t.Errorf("an offer of HTTP/2: got %d, want the call to be served\n%s", a.Status, a.Body)
	}
	if seen := w.provider.Stats().Last; len(seen) != 1 || seen[0].Header.Get("Http2-Settings") != "" {
		t.Errorf("the provider saw %+v", seen)
	}
}

func TestHeadersOfOneHopStayAtIt(t *testing.T) {
	var saw atomic.Pointer[http.Request]
	w := onStage(t, play{"m": func(w http.ResponseWriter, r *http.Request) {
		saw.Store(r)
		h := w.Header()
		h.Set("Connection", "X-Hop-Back")
		h.Set("X-Hop-Back", "secret")
		h.Set("Keep-Alive", "timeout=5")
		h.Set("Proxy-Authenticate", "Basic")
		h.Set("Set-Cookie", "account=shared")
		h.Set("X-Kept", "yes")
		h.Set("X-Request-Id", "req_of_provider")
		h.Set("Trailer", "X-Last")
		h.Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusOK)
		say(w, twoTokens, usageChunk, doneChunk)
		h.Set("X-Last", "in a trailer")
	}}, "openai", "", setup{})
	resp, err := w.Open(secret, chat, ask("m", streamed, bound(100)),
		"Connection", "X-Hop, keep-alive", "X-Hop", "secret", "Keep-Alive", "timeout=5", "TE", "trailers", "Proxy-Authorization", "Basic eDp5", "Cookie", "a=b",
		"X-Forwarded-For", "203.0.113.9", "X-Real-IP", "203.0.113.9", "Forwarded", "for=203.0.113.9", "X-Amz-Security-Token", "secret", "OpenAI-Organization", "org-client",
		"X-Request-Id", "req_of_client", "X-Custom", "kept", "User-Agent", "an-sdk/1.0", "X-LLMGW-User", "ann", "Expect", "100-continue")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != 200 {
		t.Fatalf("got %d, %v", resp.StatusCode, err)
	}
	up := saw.Load()
	for _, name := range []string{"X-Hop", "Keep-Alive", "Te", "Proxy-Authorization", "Cookie", "X-Forwarded-For", "X-Real-Ip", "Forwarded", "X-Amz-Security-Token", "Openai-Organization", "X-Llmgw-User", "Expect"} {
		if got := up.Header.Get(name); got != "" {
			t.Errorf("the provider saw %s: %s", name, got)
		}
	}
	if up.Header.Get("X-Custom") != "kept" || up.Header.Get("User-Agent") != "an-sdk/1.0" || up.Header.Get("Authorization") != "Bearer sk-p" {
		t.Errorf("the provider saw %v", up.Header)
	}
	for _, name := range []string{"X-Hop-Back", "Keep-Alive", "Proxy-Authenticate", "Set-Cookie"} {
		if got := resp.Header.Get(name); got != "" {
			t.Errorf("the client saw %s: %s", name, got)
		}
	}
	if resp.Header.Get("X-Kept") != "yes" || resp.Header.Get("X-Request-Id") != "req_of_provider" || resp.Trailer.Get("X-Last") != "in a trailer" {
		t.Errorf("the client saw %v and the trailer %v", resp.Header, resp.Trailer)
	}
	if id := resp.Header.Get("X-LLMGW-Request-Id"); id == "" || id == "req_of_provider" {
		t.Errorf("the gateway's own id is %q", id)
	}
}

func TestAClientThatExpectsToContinueIsToldToOnlyWhenItsBodyIsWanted(t *testing.T) {
	w := start(t, setup{server: "max_body_bytes: 1MiB"})
	for _, s := range []struct {
		what, path, key string
		length          int
		first           string
	}{
		{"a call", chat, secret, len(ask("sim-out1")), "HTTP/1.1 100 Continue"},
		{"an unknown path", "/v1/nothing", secret, 10, "HTTP/1.1 404 Not Found"},
		{"an unknown key", chat, "sk-nobody", 10, "HTTP/1.1 401 Unauthorized"},
		{"a body too large", chat, secret, 2 << 20, "HTTP/1.1 413 Request Entity Too Large"},
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(w.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.SetDeadline(time.Now().Add(eventually)); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", s.path, s.key, s.length)
		in := textproto.NewReader(bufio.NewReader(conn))
		if got, err := in.ReadLine(); err != nil || got != s.first {
			t.Errorf("%s: got %q, %v, want %q", s.what, got, err, s.first)
		} else if strings.Contains(got, "100") {
			fmt.Fprint(conn, ask("sim-out1"))
			in.ReadLine() // a blank line
			if got, err := in.ReadLine(); err != nil || got != "HTTP/1.1 200 OK" {
				t.Errorf("%s: then got %q, %v", s.what, got, err)
			}
		}
		conn.Close()
	}
}

func TestSequentialCallsShareOneConnectionToTheProvider(t *testing.T) {
	var opened atomic.Int64
	server := httptest.NewUnstartedServer(play{
		"m": func(w http.ResponseWriter, _ *http.Request) { say(w, twoTokens, usageChunk, doneChunk) },
		"d": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
		},
		"e": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, `{"error":{"message":"no"}}`, 400) },
	})
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	var targets string
	for _, name := range []string{"m", "d", "e"} {
		targets += "{name: " + name + ", targets: [{provider: one}]}\n"
	}
	w := start(t, setup{providers: "{name: one, dialect: openai, base_url: " + server.URL + "/v1, api_keys: [sk-p], retries: {attempts: 0}}", models: targets})
	for range 5 {
		w.Post(secret, chat, ask("m", streamed))
		w.Post(secret, chat, ask("m", streamed, askUsage))
		w.Post(secret, chat, ask("d"))
		w.Post(secret, chat, ask("e"))
	}
	if got := opened.Load(); got != 1 {
		t.Errorf("%d connections were opened for 20 calls one after the other, want 1", got)
	}
}

// standard are the headers that no provider counts as custom ones.
var standard = map[string]bool{"Accept": true, "Accept-Encoding": true, "Accept-Language": true, "Content-Length": true, "Content-Type": true, "User-Agent": true, "Authorization": true, "Api-Key": true}

func TestAzureGetsNoMoreCustomHeadersThanItTakes(t *testing.T) {
	var saw atomic.Pointer[http.Request]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		saw.Store(r)
		fmt.Fprint(w, "{}")
	}))
	t.Cleanup(server.Close)
	w := everywhere(t, server.URL, setup{})
	headers := []string{
		"X-Stainless-Lang", "js", "X-Stainless-Package-Version", "6.49.0", "X-Stainless-OS", "Linux", "X-Stainless-Arch", "x64", "X-Stainless-Runtime", "node",
		"X-Stainless-Runtime-Version", "v20", "X-Stainless-Retry-Count", "0", "X-Stainless-Timeout", "600", "X-Stainless-Helper-Method", "stream",
		"Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "Tracestate", "a=b", "X-LLMGW-User", "ann", "X-LLMGW-Max-Wait", "1s", "X-Forwarded-For", "203.0.113.9", "X-Ms-Client-Request-Id", "1",
	}
	w.Post(secret, "/openai/deployments/m/chat/completions?api-version=2024-10-21", endpoints[0].body, headers...)
	for tries := 0; !strings.HasPrefix(saw.Load().URL.Path, "/openai/"); tries++ { // it may have gone to the other provider
		if tries > 20 {
			t.Fatal("nothing went to Azure")
		}
		w.Post(secret, "/openai/deployments/m/chat/completions?api-version=2024-10-21", endpoints[0].body, headers...)
	}
	var custom []string
	for name := range saw.Load().Header {
		if !standard[name] {
			custom = append(custom, name)
		}
	}
	if len(custom) > 10 {
		t.Errorf("Azure gets %d custom headers: %v", len(custom), custom)
	}
	t.Logf("custom headers to Azure: %v", custom)
}

func TestNoErrorNoLogAndNoAddressHasASecret(t *testing.T) {
	var paths sync.Map
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths.Store(r.URL.String(), true)
		if r.URL.Path != "/v1/chat/completions" {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(500)
	}))
	t.Cleanup(server.Close)
	w := everywhere(t, server.URL, setup{})
	var answers strings.Builder
	for _, e := range endpoints {
		sep := "?"
		if strings.Contains(e.path, "?") {
			sep = "&"
		}
		kind := "application/json"
		if strings.HasPrefix(e.body, "--zzz") {
			kind = "multipart/form-data; boundary=zzz"
		}
		a := w.send(e.method, e.path+sep+"key="+secret, "", e.body, "Content-Type", kind)
		fmt.Fprintf(&answers, "%s %v\n", a.Body, a.Header)
	}
	w.Eventually("logged", eventually, func() bool { return strings.Count(w.Log(), `"msg":"request"`) >= len(endpoints) })
	paths.Range(func(url, _ any) bool {
		if strings.Contains(url.(string), "sk-") {
			t.Errorf("a secret is in the address %s", url)
		}
		return true
	})
	for where, text := range map[string]string{"the log": w.Log(), "an answer": answers.String(), "the metrics": w.Admin("GET", "/metrics", "").Body} {
		for _, hidden := range []string{secret, "sk-hidden", strings.TrimPrefix(server.URL, "http://")} {
			if strings.Contains(text, hidden) && (hidden != strings.TrimPrefix(server.URL, "http://") || where == "an answer") {
				t.Errorf("%s has %q", where, hidden)
			}
		}
	}
}

func TestInformationalAnswersAreNotTakenForTheAnswer(t *testing.T) {
	w := onStage(t, play{"m": func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusProcessing)
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"choices":[{"message":{"content":"the budget"}}],"usage":{"prompt_tokens":11,"completion_tokens":3}}`)
	}}, "openai", "", setup{})
	r, err := http.NewRequest("POST", w.URL+chat, strings.NewReader(ask("m", bound(100))))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+secret)
	early := 0
	r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error { early++; return nil }}))
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Errorf("got %d", resp.StatusCode)
	}
	w.ended("m", "completed", 11, 3, false)
	t.Logf("%d informational answers reached the client", early)
}
