package blackbox

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"llmgw/internal/dialect/dialecttest"
)

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
	list, targets := providers("any", server.URL, "")
	set := setup{model: "default_max_output: 777", providers: list}
	w := start(t, set)
	w.WriteConfig(strings.Replace(set.config(w), "targets: [{provider: sim}, {provider: sim-anthropic}]", targets, 1))
	if a := w.Admin("POST", "/admin/v1/reload", ""); a.Status != 200 {
		t.Fatalf("reload: %d %s", a.Status, a.Body)
	}
	n := 0
	for _, r := range dialecttest.Requests(t, fixtures()) {
		n++
		here, ok := atGateway(t, w, h, r)
		if !ok {
			continue
		}
		r.Path = here
		checkRequest(t, w, h, r)
	}
	t.Logf("%d requests", n)
}

// bases are the base URLs of official clients that do not end as the gateway's
// own does: a client that is pointed at the gateway has another in its place.
// "": the path is of a native API that the gateway does not have.
var bases = []struct{ path, here string }{
	{"/api/v1/chat/completions", chat}, // OpenRouter
	{"/inference/v1/chat/completions", chat},
	{"/v1/projects/p/locations/us-central1/publishers/google/models/", "/v1beta/models/"}, // Vertex
	{"/completion", ""},  // llama.cpp
	{"/api/v1/chat", ""}, // LM Studio
}

// atGateway is the path of a recorded request for a client that has the
// gateway's base URL. Of what was recorded below another one it checks that this
// is 404 here, and reaches no provider.
func atGateway(t *testing.T, w *world, h *heard, r dialecttest.Recorded) (path string, ok bool) {
	t.Helper()
	for _, base := range bases {
		rest, found := strings.CutPrefix(r.Path, base.path)
		if !found || rest != "" && !strings.HasSuffix(base.path, "/") {
			continue
		}
		h.take()
		got := w.Post(secret, r.Path, string(r.Body))
		if _, times := h.take(); got.Status != 404 || got.Code() != "not_found" || times != 0 {
			t.Errorf("%s: %s: got %d %q, sent on %d times, want 404 not_found", r.File, r.Path, got.Status, got.Code(), times)
		}
		return base.here + rest, base.here != ""
	}
	return r.Path, true
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
	if r.Invalid || bytes.Contains(r.Body, []byte(`"models":[`)) { // a list of models cannot be charged
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
	top := int64(20_000)
	if bytes.Contains(r.Body, []byte(`"cachedContent"`)) {
		top += 32_768 // for what the provider adds from its store
	}
	if input <= 0 || input > top {
		t.Errorf("%s: estimated %d, of which the most output is %d: an input of %d", r.File, estimated, most, input)
	}
}
