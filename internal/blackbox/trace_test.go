package blackbox

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// traced is a collector of traces: for each span's name its attributes, as they
// are printed, and the span's trace under "trace".
type traced struct {
	mu    sync.Mutex
	spans map[string]map[string]string
}

func (c *traced) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = unzipped
	}
	raw, err := io.ReadAll(body)
	var in collector.ExportTraceServiceRequest
	if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(raw, &in) != nil {
		return // it is about metrics
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range in.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				has := map[string]string{"trace": string(s.GetTraceId())}
				for _, a := range s.GetAttributes() {
					has[a.GetKey()] = a.GetValue().String()
				}
				c.spans[s.GetName()] = has
			}
		}
	}
}

func TestATraceTellsWhichProviderTookTheCall(t *testing.T) {
	traces := &traced{spans: map[string]map[string]string{}}
	at := serve(t, traces.ServeHTTP)
	w := start(t, setup{
		top:       "telemetry: {otlp_endpoint: \"" + at + "\"}",
		providers: "{name: gone, dialect: openai, base_url: \"http://127.0.0.1:1/v1\", api_keys: [sk-p]}",
		models:    "{name: moved, targets: [{provider: gone}, {provider: sim, model: sim-in10-out3, weight: 0}]}",
	})
	const trace = "0af7651916cd43dd8448eb211c80319c"
	for _, model := range []string{"moved", "sim-in8-out2"} {
		if a := w.Post(secret, chat, ask(model), "Traceparent", "00-"+trace+"-b7ad6b7169203331-01"); a.Status != 200 {
			t.Fatalf("%s: got %d\n%s", model, a.Status, a.Body)
		}
	}
	if code := w.Stop(); code != 0 { // and what is traced goes out
		t.Fatalf("got the exit code %d\n%s", code, w.Log())
	}
	traces.mu.Lock()
	defer traces.mu.Unlock()
	for name, want := range map[string]map[string]string{
		"chat sim-in10-out3":        {"llmgw.provider": "sim", "gen_ai.request.model": "sim-in10-out3", "gen_ai.provider.name": "openai", "http.request.resend_count": "1", "gen_ai.usage.output_tokens": "3"},
		"chat sim-in8-out2":         {"llmgw.provider": "sim", "gen_ai.request.model": "sim-in8-out2", "gen_ai.usage.input_tokens": "8"},
		"POST /v1/chat/completions": {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "llmgw.team": "search", "llmgw.outcome": "completed"},
	} {
		got := traces.spans[name]
		if id := got["trace"]; len(id) != 16 || id[0] != 0x0a || id[15] != 0x9c {
			t.Errorf("%s: the trace is %x, want the client's", name, id)
		}
		for key, value := range want {
			if !strings.Contains(got[key], value) {
				t.Errorf("%s: %s is %q, want %q", name, key, got[key], value)
			}
		}
	}
	for _, seen := range w.provider.Stats().Last {
		if !strings.HasPrefix(seen.Header.Get("Traceparent"), "00-"+trace+"-") {
			t.Errorf("the provider got the traceparent %q", seen.Header.Get("Traceparent"))
		}
	}
}
