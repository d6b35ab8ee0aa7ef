package fakellm

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// world is a provider behind a real server.
type world struct {
	*Provider
	t   *testing.T
	url string
}

func newWorld(t *testing.T, o Options) *world {
	t.Helper()
	p := New(o)
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	return &world{Provider: p, t: t, url: server.URL}
}

// post sends a body and returns the answer, whose body is closed by the test's
// end.
func (w *world) post(path, body string) *http.Response {
	w.t.Helper()
	resp, err := http.Post(w.url+path, "application/json", strings.NewReader(body))
	if err != nil {
		w.t.Fatalf("POST %s: %v", path, err)
	}
	w.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// text posts and returns the whole body.
func (w *world) text(path, body string) string {
	w.t.Helper()
	b, err := io.ReadAll(w.post(path, body).Body)
	if err != nil {
		w.t.Fatalf("POST %s: %v", path, err)
	}
	return string(b)
}

// object posts and returns the body as JSON.
func (w *world) object(path, body string) map[string]any {
	w.t.Helper()
	return parse(w.t, w.text(path, body))
}

func parse(t *testing.T, s string) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatalf("not an object: %v in %q", err, s)
	}
	return v
}

// dig follows a path such as choices.0.message.content.
func dig(t *testing.T, v any, path string) any {
	t.Helper()
	for _, step := range strings.Split(path, ".") {
		switch at := v.(type) {
		case map[string]any:
			v = at[step]
		case []any:
			i := int(step[0] - '0')
			if i >= len(at) {
				t.Fatalf("%s: no element %s in %v", path, step, at)
			}
			v = at[i]
		default:
			t.Fatalf("%s: nothing at %s in %v", path, step, v)
		}
	}
	return v
}

// events reads the data of a stream's events, in order.
func events(t *testing.T, stream string) []string {
	t.Helper()
	var data []string
	lines := bufio.NewScanner(strings.NewReader(stream))
	lines.Buffer(nil, 8<<20)
	for lines.Scan() {
		if d, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			data = append(data, d)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return data
}

func TestEachAPIAnswersWithTheUsageItIsTold(t *testing.T) {
	w := newWorld(t, Options{})
	for _, s := range []struct {
		path, body    string
		text          string // where it stands
		input, output string // where they stand
	}{
		{"/v1/chat/completions", `{"model":"sim-in20-out5","messages":[]}`, "choices.0.message.content", "usage.prompt_tokens", "usage.completion_tokens"},
		{"/v1/completions", `{"model":"sim-in20-out5","prompt":"x"}`, "choices.0.text", "usage.prompt_tokens", "usage.completion_tokens"},
		{"/v1/responses", `{"model":"sim-in20-out5","input":"x"}`, "output.0.content.0.text", "usage.input_tokens", "usage.output_tokens"},
		{"/v1/messages", `{"model":"sim-in20-out5","max_tokens":9,"messages":[]}`, "content.0.text", "usage.input_tokens", "usage.output_tokens"},
		{"/v1beta/models/sim-in20-out5:generateContent", `{"contents":[]}`, "candidates.0.content.parts.0.text", "usageMetadata.promptTokenCount", "usageMetadata.candidatesTokenCount"},
		{"/openai/deployments/sim-in20-out5/chat/completions?api-version=1", `{"messages":[]}`, "choices.0.message.content", "usage.prompt_tokens", "usage.completion_tokens"},
	} {
		t.Run(s.path, func(t *testing.T) {
			got := w.object(s.path, s.body)
			if text := dig(t, got, s.text); text != "the budget of every team" {
				t.Errorf("text = %q, want five words", text)
			}
			if in, out := dig(t, got, s.input), dig(t, got, s.output); in != 20.0 || out != 5.0 {
				t.Errorf("usage = %v + %v, want 20 + 5", in, out)
			}
		})
	}
}
