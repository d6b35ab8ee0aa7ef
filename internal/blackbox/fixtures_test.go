package blackbox

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"llmgw/internal/dialect/dialecttest"
	"llmgw/internal/gatewaytest"
)

// fixtures is where the recordings are: the whole collection where it is at
// hand, else the part that is in this repository.
func fixtures() string {
	const whole = "../../../shared/fixtures"
	if _, err := os.Stat(whole); err == nil {
		return whole
	}
	return "../dialect/testdata"
}

// source is how a recorded answer is asked for.
type source struct {
	dialect, flavor string
	path            string // {} stands for the model
	streamPath      string // of a stream, where it has another; "": the same
	body            string // {} stands for the model, {stream} for whether
}

const chatMessages = `"messages":[{"role":"user","content":"hi"}]`

// sources are by the recordings' names of APIs. What is not here are native
// APIs of LM Studio, llama.cpp and Gemini that the gateway does not have.
var sources = func() map[string]source {
	chatBody := `{"model":"{}","max_tokens":50,"stream":{stream},` + chatMessages + `}`
	openai := func(flavor string) source {
		return source{dialect: "openai", flavor: flavor, path: chat, body: chatBody}
	}
	at := func(path, body string) source { return source{dialect: "openai", path: path, body: body} }
	of := func(dialect, path, streamPath, body string) source {
		return source{dialect: dialect, path: path, streamPath: streamPath, body: body}
	}
	anthropic := of("anthropic", "/v1/messages", "", `{"model":"{}","max_tokens":50,"stream":{stream},`+chatMessages+`}`)
	gemini := of("gemini", "/v1beta/models/{}:generateContent", "/v1beta/models/{}:streamGenerateContent", geminiBody)
	converse := of("bedrock", "/model/{}/converse", "/model/{}/converse-stream", `{"messages":[{"role":"user","content":[{"text":"hi"}]}]}`)
	cohere := of("cohere", "/v2/chat", "", chatBody)
	ollama := of("ollama", "/api/chat", "", `{"model":"{}","stream":{stream},`+chatMessages+`}`)
	azure := of("azure", "/openai/deployments/{}/chat/completions?api-version=2024-10-21", "", `{"stream":{stream},`+chatMessages+`}`)
	all := map[string]source{
		"anthropic.messages": anthropic, "anthropic.error": anthropic,
		"anthropic.count_tokens": of("anthropic", "/v1/messages/count_tokens", "", `{"model":"{}",`+chatMessages+`}`),
		"azure.chat":             azure, "azure.error": azure,
		"bedrock.converse": converse, "bedrock.error": converse,
		"bedrock.invoke": of("bedrock", "/model/{}/invoke", "/model/{}/invoke-with-response-stream", `{"anthropic_version":"bedrock-2023-05-31","max_tokens":50,`+chatMessages+`}`),
		"cohere.chat":    cohere, "cohere.error": cohere,
		"cohere.embed":    of("cohere", "/v2/embed", "", `{"model":"{}","texts":["a"],"input_type":"search_query"}`),
		"cohere.rerank":   of("cohere", "/v2/rerank", "", `{"model":"{}","query":"q","documents":["a"]}`),
		"gemini.generate": gemini, "gemini.error": gemini,
		"gemini.count_tokens": of("gemini", "/v1beta/models/{}:countTokens", "", `{"contents":[{"parts":[{"text":"hi"}]}]}`),
		"ollama.chat":         ollama, "ollama.error": ollama,
		"ollama.generate":             of("ollama", "/api/generate", "", `{"model":"{}","stream":{stream},"prompt":"hi"}`),
		"ollama.embed":                of("ollama", "/api/embed", "", `{"model":"{}","input":"hi"}`),
		"openai.completions":          at("/v1/completions", `{"model":"{}","max_tokens":50,"stream":{stream},"prompt":"hi"}`),
		"openai.responses":            at("/v1/responses", `{"model":"{}","max_output_tokens":50,"stream":{stream},"input":"hi"}`),
		"openai.embeddings":           at("/v1/embeddings", `{"model":"{}","input":"hi"}`),
		"openai.moderations":          at("/v1/moderations", `{"model":"{}","input":"hi"}`),
		"openai.images":               at("/v1/images/generations", `{"model":"{}","prompt":"hi","stream":{stream}}`),
		"openai.audio.speech":         at("/v1/audio/speech", `{"model":"{}","input":"hi","voice":"alloy","stream_format":"sse"}`),
		"openai.audio.transcriptions": at("/v1/audio/transcriptions", "multipart"),
	}
	for _, flavor := range []string{"openai", "mistral", "deepseek", "groq", "openrouter", "together", "fireworks", "xai", "perplexity", "vllm", "llamacpp", "lmstudio"} {
		all[flavor+".chat"], all[flavor+".error"] = openai(flavor), openai(flavor)
	}
	return all
}()

// replay serves the recorded answer that a request's X-Fixture names.
type replay map[string]dialecttest.Answer

func (all replay) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a, ok := all[r.Header.Get("X-Fixture")]
	if _, err := io.Copy(io.Discard, r.Body); err != nil || !ok {
		http.Error(w, "no such fixture", http.StatusTeapot)
		return
	}
	w.Header().Set("Content-Type", a.HTTP.ContentType)
	for name, value := range a.HTTP.Headers {
		w.Header().Set(name, value)
	}
	w.WriteHeader(a.HTTP.Status)
	if _, err := w.Write(a.Body); err != nil {
		panic(http.ErrAbortHandler) // the gateway left
	}
}

// model is the name by which a recording is asked for.
func model(file string) string { return strings.ReplaceAll("fx-"+file, ".", "-") }

// wants is what providers of some dialects must have besides.
var wants = map[string]string{"bedrock": ", region: us-east-1", "azure": ", api_version: \"2024-10-21\""}

// onReplay starts a gateway before a server of recordings, each of which has a
// provider of its own: what one says of its limits is nothing to the others.
func onReplay(t *testing.T, all replay) *world {
	t.Helper()
	server := httptest.NewServer(all)
	t.Cleanup(server.Close)
	set := setup{limits: monthly("tokens", "tokens", 1_000_000_000)}
	for file, a := range all {
		s := sources[a.Dialect]
		base, more := server.URL, wants[s.dialect]
		if s.dialect == "openai" {
			base += "/v1"
		}
		if s.flavor != "" {
			more += ", flavor: " + s.flavor
		}
		set.providers += fmt.Sprintf("{name: %s, dialect: %s%s, base_url: %s, api_keys: [sk-p], retries: {attempts: 0}}\n", model(file), s.dialect, more, base)
		set.models += fmt.Sprintf("{name: %s, targets: [{provider: %s}]}\n", model(file), model(file))
	}
	return start(t, set)
}

// askFor asks for a recorded answer.
func (w *world) askFor(a dialecttest.Answer, usage string) (gatewaytest.Answer, error) {
	s := sources[a.Dialect]
	path, body, kind := s.path, s.body, "application/json"
	if a.Stream && s.streamPath != "" {
		path = s.streamPath
		if strings.HasPrefix(a.HTTP.ContentType, "text/event-stream") {
			path += "?alt=sse"
		}
	}
	path, body = strings.ReplaceAll(path, "{}", model(a.File)), strings.ReplaceAll(body, "{}", model(a.File))
	body = strings.ReplaceAll(body, "{stream}", fmt.Sprint(a.Stream))
	if a.Stream && usage != "" {
		body = strings.Replace(body, `"stream":true`, `"stream":true,`+usage, 1)
	}
	if body == "multipart" {
		body, kind = form(model(a.File), a.Stream), "multipart/form-data; boundary=zzz"
	}
	return w.Try(secret, path, body, "X-Fixture", a.File, "Content-Type", kind)
}

// form is a transcription's body, with the file before the model.
func form(model string, stream bool) string {
	return "--zzz\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\nContent-Type: audio/wav\r\n\r\nRIFF\x00\x01--zz\r\n" +
		"--zzz\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n" + model + "\r\n" +
		fmt.Sprintf("--zzz\r\nContent-Disposition: form-data; name=\"stream\"\r\n\r\n%v\r\n", stream) + "--zzz--\r\n"
}

const askUsage = `"stream_options":{"include_usage":true}`

// TestEveryRecordedAnswerIsRelayedAndCharged compares what a client gets through
// the running gateway, and what it is charged, with what is known of each
// recording.
func TestEveryRecordedAnswerIsRelayedAndCharged(t *testing.T) {
	all := replay{}
	for _, a := range dialecttest.Answers(t, fixtures()) {
		if _, ok := sources[a.Dialect]; ok {
			all[a.File] = a
		}
	}
	w := onReplay(t, all)
	for _, a := range all {
		got, err := w.askFor(a, askUsage)
		checkRelayed(t, a, got, err)
	}
	w.Eventually("counted", eventually, func() bool {
		m := w.Metrics()
		return m.Sum("llmgw_requests_total") >= float64(len(all)) && m.Sum("llmgw_reservations_open") == 0
	})
	m := w.Metrics()
	for _, a := range all {
		checkCharged(t, a, m)
	}
	t.Logf("%d recordings", len(all))
}

// checkRelayed checks the bytes that a client got.
func checkRelayed(t *testing.T, a dialecttest.Answer, got gatewaytest.Answer, err error) {
	t.Helper()
	switch {
	case failsFirst(a):
		if got.Status < 400 || err != nil || !json.Valid([]byte(got.Body)) {
			t.Errorf("%s: a stream that begins with an error: got %d, %v\n%s", a.File, got.Status, err, got.Body)
		}
	case a.Stream && !a.Complete && a.Error == nil:
		if got.Status != 200 || err == nil || !strings.HasPrefix(got.Body, string(a.Body)) {
			t.Errorf("%s: a stream that was cut: got %d, %v, want the bytes and a broken connection\n%.300q\n%.300q", a.File, got.Status, err, got.Body, a.Body)
		}
	case got.Status != a.HTTP.Status || got.Body != string(a.Body):
		t.Errorf("%s: got %d, %v, want %d and the same bytes\n got %.300q\nwant %.300q", a.File, got.Status, err, a.HTTP.Status, got.Body, a.Body)
	case got.Header.Get("Content-Type") != a.HTTP.ContentType:
		t.Errorf("%s: the content type is %q, want %q", a.File, got.Header.Get("Content-Type"), a.HTTP.ContentType)
	}
}

// failsFirst tells whether a stream's first event is its error.
func failsFirst(a dialecttest.Answer) bool {
	return a.Stream && a.HTTP.Status < 400 && a.Error != nil && (a.Extra.ContentText == nil || *a.Extra.ContentText == "") && a.Input == nil && a.Output == nil &&
		bytes.Count(bytes.TrimSpace(a.Body), []byte("\n\n"))+bytes.Count(a.Body, []byte("\r\n\r\n")) == 0
}

// checkCharged checks what a recording came to in the metrics.
func checkCharged(t *testing.T, a dialecttest.Answer, m gatewaytest.Metrics) {
	t.Helper()
	name := model(a.File)
	tokens := func(kind string) int64 {
		return int64(m.Sum("llmgw_tokens_total", "model", name, "kind", kind))
	}
	estimated := m.Sum("llmgw_settlements_estimated_total", "model", name)
	outcome := "none"
	for _, s := range m {
		if s.Name == "llmgw_requests_total" && s.Labels["model"] == name {
			outcome = s.Labels["outcome"]
		}
	}
	unsaid := a.Stream && a.Error != nil && a.Output == nil && (a.Extra.ContentText == nil || *a.Extra.ContentText == "") // it failed before it said anything
	free := a.HTTP.Status >= 400 || unsaid || strings.HasSuffix(a.Dialect, "count_tokens")
	if free {
		if in, out := tokens("input"), tokens("output"); in != 0 || out != 0 || estimated != 0 {
			t.Errorf("%s: charged %d + %d (estimated: %v), want nothing", a.File, in, out, estimated)
		}
	} else {
		for _, side := range []struct {
			kind string
			want *int64
		}{{"input", a.Input}, {"output", a.Output}, {"cached_input", a.Cached}, {"cache_write", a.Written}, {"reasoning", a.Reasoning}} {
			if got := tokens(side.kind); side.want != nil && got != *side.want {
				t.Errorf("%s: charged %s of %d, want %d", a.File, side.kind, got, *side.want)
			}
		}
		if known := a.Input != nil && a.Output != nil; known != (estimated == 0) && a.Dialect != "ollama.embed" {
			t.Errorf("%s: estimated is %v, but the provider told %v", a.File, estimated, known)
		}
	}
	want := "completed"
	switch {
	case a.HTTP.Status >= 400 || !a.Complete && a.Error != nil:
		want = "upstream_error"
	case !a.Complete && a.Stream:
		want = "upstream_truncated"
	}
	if outcome != want {
		t.Errorf("%s: the outcome is %s, want %s", a.File, outcome, want)
	}
}

// TestUsageIsHiddenInRecordedStreams asks for OpenAI's streams without usage.
func TestUsageIsHiddenInRecordedStreams(t *testing.T) {
	all := replay{}
	for _, a := range dialecttest.Answers(t, fixtures()) {
		s, ok := sources[a.Dialect]
		if ok && (s.path == chat || s.path == "/v1/completions" || s.dialect == "azure") && a.Stream && a.HTTP.Status < 400 && a.Error == nil && a.HTTP.Headers["content-encoding"] == "" {
			all[a.File] = a
		}
	}
	w := onReplay(t, all)
	for _, a := range all {
		got, err := w.askFor(a, "")
		if (err == nil) != a.Complete {
			t.Errorf("%s: it ended with %v", a.File, err)
		}
		want, seen := dialecttest.Visible(a.Body), dialecttest.Events([]byte(got.Body))
		if !a.Complete { // an event that was cut is not passed on; the gateway's own error event is
			if _, cut := want[len(want)-1].(string); cut {
				want = want[:len(want)-1]
			}
			seen = seen[:min(len(seen), len(want))]
		}
		if !reflect.DeepEqual(seen, want) {
			t.Errorf("%s: the client saw\n%.2000v\nwant\n%.2000v", a.File, seen, want)
		}
	}
	w.Eventually("counted", eventually, func() bool { return w.Metrics().Sum("llmgw_requests_total") >= float64(len(all)) })
	m := w.Metrics()
	for _, a := range all {
		checkCharged(t, a, m)
	}
	t.Logf("%d streams", len(all))
}

// heard is a server that notes the last request to it.
type heard struct {
	mu   sync.Mutex
	body []byte
	seen int
}

func (h *heard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.body, h.seen = body, h.seen+1
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, "{}")
}

func (h *heard) take() ([]byte, int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	body, n := h.body, h.seen
	h.body, h.seen = nil, 0
	return body, n
}

// TestEveryRecordedRequestIsReadAndPassedOn sends the recorded requests through
// the running gateway.
func TestEveryRecordedRequestIsReadAndPassedOn(t *testing.T) {
	h := &heard{}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	set := setup{model: "default_max_output: 777"}
	var targets []string
	for _, d := range []string{"openai", "azure", "anthropic", "gemini", "bedrock", "cohere", "ollama"} {
		base := server.URL
		if d == "openai" {
			base += "/v1"
		}
		set.providers += fmt.Sprintf("{name: %s, dialect: %s, base_url: %s, api_keys: [sk-p]%s, retries: {attempts: 0}}\n", d, d, base, wants[d])
		targets = append(targets, "{provider: "+d+"}")
	}
	w := start(t, set)
	w.WriteConfig(strings.Replace(set.config(w), "targets: [{provider: sim}, {provider: sim-anthropic}]", "targets: ["+strings.Join(targets, ", ")+"]", 1))
	if a := w.Admin("POST", "/admin/v1/reload", ""); a.Status != 200 {
		t.Fatalf("reload: %d %s", a.Status, a.Body)
	}
	n := 0
	for _, r := range dialecttest.Requests(t, fixtures()) {
		if !routed(r) {
			t.Logf("%s: %s is no endpoint of the gateway", r.File, r.Path)
			continue
		}
		n++
		checkRequest(t, w, h, r)
	}
	t.Logf("%d requests", n)
}

// routed tells whether a recorded request is to a path that the gateway has:
// not those of native APIs, or below other base URLs than its own.
func routed(r dialecttest.Recorded) bool {
	for _, other := range []string{"/completion", "/api/v1/", "/v1/projects/", "/inference/"} {
		if r.Path == other || strings.HasPrefix(r.Path, other) && strings.HasSuffix(other, "/") {
			return false
		}
	}
	return r.Dialect != "deepseek.chat" || strings.HasPrefix(r.Path, "/v1/")
}

func checkRequest(t *testing.T, w *world, h *heard, r dialecttest.Recorded) {
	t.Helper()
	var headers []string
	for name, value := range r.Headers {
		switch strings.ToLower(name) {
		case "authorization", "x-api-key", "api-key", "x-goog-api-key", "content-length", "host", "connection":
		default:
			headers = append(headers, name, value)
		}
	}
	h.take()
	path := strings.NewReplacer("?key=AIza", "?x=1").Replace(r.Path)
	got, err := w.Try(secret, path, string(r.Body), headers...)
	sent, times := h.take()
	if r.Invalid {
		if err != nil || got.Status != 400 || got.Code() != "invalid_request" || times != 0 {
			t.Errorf("%s: got %d %q, sent on %d times, want to be refused\n%s", r.File, got.Status, got.Code(), times, got.Body)
		}
		return
	}
	if times != 1 || got.Status != 200 {
		t.Errorf("%s: got %d, sent on %d times\n%.500s", r.File, got.Status, times, got.Body)
		return
	}
	if r.Model != nil && !strings.HasSuffix(got.Header.Get("X-LLMGW-Upstream"), "/"+*r.Model) {
		t.Errorf("%s: sent to %s, want the model %s", r.File, got.Header.Get("X-LLMGW-Upstream"), *r.Model)
	}
	checkBody(t, r, sent)
	checkReserved(t, r, got.Header.Get("X-LLMGW-Estimated-Tokens"))
}

// checkBody checks that a body was passed on as it came, but for the wish for
// usage.
func checkBody(t *testing.T, r dialecttest.Recorded, sent []byte) {
	t.Helper()
	want := r.Body
	if strings.HasSuffix(r.File, ".gz") {
		z, err := gzip.NewReader(bytes.NewReader(want))
		if err != nil {
			t.Fatal(err)
		}
		if want, err = io.ReadAll(z); err != nil {
			t.Fatal(err)
		}
	}
	if bytes.Equal(sent, want) {
		return
	}
	decode := func(b []byte) (v map[string]any) {
		d := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			t.Errorf("%s: %v in %.300q", r.File, err, b)
		}
		return v
	}
	is, was := decode(sent), decode(want)
	if options, ok := is["stream_options"].(map[string]any); !ok || options["include_usage"] != true || r.Usage {
		t.Errorf("%s: the body was changed\n got %.300q\nwant %.300q", r.File, sent, want)
	}
	delete(is, "stream_options")
	delete(was, "stream_options")
	if r.Dialect == "azure.chat" { // the model that counts stands in the path
		delete(is, "model")
		delete(was, "model")
	}
	if !reflect.DeepEqual(is, was) {
		t.Errorf("%s: more than the wish for usage was changed\n got %.300q\nwant %.300q", r.File, sent, want)
	}
}

// checkReserved checks the estimate: a prompt, and the most output that the
// request allows.
func checkReserved(t *testing.T, r dialecttest.Recorded, header string) {
	t.Helper()
	var estimated int64
	if _, err := fmt.Sscan(header, &estimated); err != nil {
		t.Errorf("%s: estimated %q", r.File, header)
		return
	}
	most := int64(777)
	if r.Max != nil {
		most = *r.Max
	}
	most *= r.N * max(r.Prompts, 1)
	switch {
	case strings.Contains(r.Dialect, "embed") || strings.HasSuffix(r.Dialect, "count_tokens"):
		most = 0
	case strings.HasSuffix(filepath.Dir(r.Path), "audio"):
		return // by the model's rule
	}
	input := estimated - most
	if r.Exact != nil && input != *r.Exact {
		t.Errorf("%s: got an input of %d, want %d", r.File, input, *r.Exact)
	}
	if input <= 0 || input > 20_000 {
		t.Errorf("%s: estimated %d, of which the most output is %d: an input of %d", r.File, estimated, most, input)
	}
}
