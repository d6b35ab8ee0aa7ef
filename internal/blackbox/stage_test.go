package blackbox

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// play is a provider that does for each model what its part says.
type play map[string]func(w http.ResponseWriter, r *http.Request)

func (p play) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	for name, part := range p {
		if strings.Contains(string(body), `"`+name+`"`) {
			part(w, r)
			return
		}
	}
	http.NotFound(w, r)
}

// onStage starts a gateway before a play, in which each model has a provider of
// its own, of that dialect and with these further keys.
func onStage(t *testing.T, p play, dialect, keys string, set setup) *world {
	t.Helper()
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	base := server.URL
	if dialect == "openai" {
		base += "/v1"
	}
	set.limits += "\n" + tokensLimit() + "\n" + monthly("requests", "requests", 1000)
	for name := range p {
		set.providers += fmt.Sprintf("{name: at-%s, dialect: %s, base_url: %s, api_keys: [sk-p], retries: {attempts: 0}%s}\n", name, dialect, base, keys)
		set.models += fmt.Sprintf("{name: %s, targets: [{provider: at-%s}]}\n", name, name)
	}
	return start(t, set)
}

// serve runs a server until the test ends, and returns where.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

// say writes parts of a stream, each at once.
func say(w http.ResponseWriter, parts ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, p := range parts {
		if _, err := io.WriteString(w, p); err != nil {
			return // the gateway left
		}
		w.(http.Flusher).Flush()
	}
}

// Parts of OpenAI's stream: two tokens of output, and its end with a usage of
// 11 + 3.
const (
	twoTokens  = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"the\"}}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" budget\"}}]}\n\n"
	usageChunk = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":3,\"total_tokens\":14}}\n\n"
	doneChunk  = "data: [DONE]\n\n"
	errorChunk = "data: {\"error\":{\"message\":\"It broke.\",\"type\":\"server_error\",\"param\":null,\"code\":null}}\n\n"
)

// until waits for the gateway to leave.
func until(r *http.Request) { <-r.Context().Done() }

// ended checks how the only call for a model ended.
func (w *world) ended(name, outcome string, input, output int, estimated bool) {
	w.t.Helper()
	w.Eventually("counted: "+name, eventually, func() bool { return w.Metrics().Sum("llmgw_requests_total", "model", name) == 1 })
	m := w.Metrics()
	if m.Sum("llmgw_requests_total", "model", name, "outcome", outcome) != 1 {
		for _, s := range m {
			if s.Name == "llmgw_requests_total" && s.Labels["model"] == name {
				w.t.Errorf("%s: the outcome is %s, want %s", name, s.Labels["outcome"], outcome)
			}
		}
	}
	in, out := m.Sum("llmgw_tokens_total", "model", name, "kind", "input"), m.Sum("llmgw_tokens_total", "model", name, "kind", "output")
	if int(in) != input || int(out) != output {
		w.t.Errorf("%s: charged %v + %v, want %d + %d", name, in, out, input, output)
	}
	if got := m.Sum("llmgw_settlements_estimated_total", "model", name) == 1; got != estimated {
		w.t.Errorf("%s: estimated is %v, want %v", name, got, estimated)
	}
}

// leaving sends a streamed call and leaves once it has read up to a text; at
// once after the provider was asked, if that is empty.
func (w *world) leaving(name, after string, asked <-chan struct{}) {
	w.t.Helper()
	ctx, leave := context.WithCancel(w.t.Context())
	defer leave()
	r, err := http.NewRequestWithContext(ctx, "POST", w.URL+chat, strings.NewReader(ask(name, streamed, bound(100))))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+secret)
	if after == "" {
		go func() { <-asked; leave() }()
		if resp, err := http.DefaultClient.Do(r); err == nil {
			resp.Body.Close()
			w.t.Errorf("%s: got %d, want to have left before", name, resp.StatusCode)
		}
		return
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	in := bufio.NewReader(resp.Body)
	for seen := ""; !strings.Contains(seen, after); {
		line, err := in.ReadString('\n')
		if err != nil {
			w.t.Fatalf("%s: %v after %q", name, err, seen)
		}
		seen += line
	}
}
