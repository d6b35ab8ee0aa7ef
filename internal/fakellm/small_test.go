package fakellm

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// do sends a request without a body and returns status and body.
func (w *world) do(method, path string) (int, string) {
	w.t.Helper()
	r, err := http.NewRequest(method, w.url+path, http.NoBody)
	if err != nil {
		w.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestEmbeddingsAreOneForEachInput(t *testing.T) {
	w := newWorld(t, Options{})
	for _, s := range []struct {
		what, input string
		want        int
	}{
		{"a string", `"one"`, 1},
		{"strings", `["one","two"]`, 2},
		{"token ids", `[1,2,3]`, 1},
		{"lists of ids", `[[1],[2],[3]]`, 3},
		{"nothing", `[]`, 1},
	} {
		got := w.object("/v1/embeddings", `{"model":"sim-in6","input":`+s.input+`}`)
		if n := len(got["data"].([]any)); n != s.want || dig(t, got, "usage.total_tokens") != 6.0 {
			t.Errorf("%s: %d embeddings, usage %v, want %d and 6", s.what, n, got["usage"], s.want)
		}
	}
	if n := len(dig(t, w.object("/v1/embeddings", `{"model":"sim","input":"x","dimensions":24}`), "data.0.embedding").([]any)); n != 24 {
		t.Errorf("%d dimensions, want 24", n)
	}
	encoded := dig(t, w.object("/v1/embeddings", `{"model":"sim","input":"x","encoding_format":"base64"}`), "data.0.embedding").(string)
	if raw, err := base64.StdEncoding.DecodeString(encoded); err != nil || len(raw) != 4*vector {
		t.Errorf("base64 of %d bytes, %v, want %d", len(raw), err, 4*vector)
	}
}

func TestTheSmallEndpointsAnswer(t *testing.T) {
	w := newWorld(t, Options{})
	for _, s := range []struct {
		path, body, at string
		want           any
	}{
		{"/v1/moderations", `{"model":"sim","input":["a","b"]}`, "results.1.flagged", false},
		{"/v1/moderations", `{"input":"a"}`, "model", "omni-moderation-latest"},
		{"/v1/messages/count_tokens", `{"model":"sim-in42","messages":[]}`, "input_tokens", 42.0},
		{"/v1/responses/input_tokens", `{"model":"sim-in42","input":"x"}`, "input_tokens", 42.0},
		{"/v1beta/models/sim-in42:countTokens", `{"contents":[]}`, "totalTokens", 42.0},
		{"/v1beta/models/sim:embedContent", `{"content":{}}`, "embedding.values.0", -0.5},
		{"/v1beta/models/sim:batchEmbedContents", `{"requests":[{},{}]}`, "embeddings.1.values.0", -0.4375},
	} {
		if got := dig(t, w.object(s.path, s.body), s.at); got != s.want {
			t.Errorf("%s: %s = %v, want %v", s.path, s.at, got, s.want)
		}
	}
	w.idle()
	if got := w.Stats(); got.OutputTokens != 0 {
		t.Errorf("they used %d output tokens", got.OutputTokens)
	}
}

func TestInputIsAQuarterOfThePromptsBytes(t *testing.T) {
	w := newWorld(t, Options{})
	prompt := strings.Repeat("x", 398) // 400 with its quotes
	for _, s := range []struct{ path, body, at string }{
		{"/v1/completions", `{"model":"sim","prompt":"` + prompt + `"}`, "usage.prompt_tokens"},
		{"/v1/responses", `{"model":"sim","input":"` + prompt + `","metadata":{"a":"` + prompt + `"}}`, "usage.input_tokens"},
	} {
		if got := dig(t, w.object(s.path, s.body), s.at); got != 100.0 {
			t.Errorf("%s: %v tokens, want 100", s.path, got)
		}
	}
}

func TestModelsAreListedAndShown(t *testing.T) {
	w := newWorld(t, Options{})
	if status, body := w.do(http.MethodGet, "/v1/models"); status != 200 || dig(t, parse(t, body), "data.0.id") != "sim" {
		t.Errorf("list: %d %s", status, body)
	}
	if status, body := w.do(http.MethodGet, "/v1/models/sim-out5"); status != 200 || parse(t, body)["id"] != "sim-out5" {
		t.Errorf("one: %d %s", status, body)
	}
}

func TestAToolIsCalledInEveryAPI(t *testing.T) {
	w := newWorld(t, Options{})
	for _, s := range []struct{ path, body, name, argument string }{
		{"/v1/chat/completions", `{"model":"sim-tool-out2","messages":[],"tools":[{"type":"function","function":{"name":"f"}}]}`,
			"choices.0.message.tool_calls.0.function.name", "choices.0.message.tool_calls.0.function.arguments"},
		{"/v1/responses", `{"model":"sim-tool-out2","input":"x","tools":[{"type":"function","name":"f"}]}`, "output.0.name", "output.0.arguments"},
		{"/v1/messages", `{"model":"sim-tool-out2","max_tokens":9,"messages":[],"tools":[{"name":"f"}]}`, "content.0.name", "content.0.input.text"},
		{"/v1beta/models/sim-tool-out2:generateContent", `{"contents":[],"tools":[{"functionDeclarations":[{"name":"f"}]}]}`,
			"candidates.0.content.parts.0.functionCall.name", "candidates.0.content.parts.0.functionCall.args.text"},
	} {
		got := w.object(s.path, s.body)
		if name := dig(t, got, s.name); name != "f" {
			t.Errorf("%s: called %v", s.path, name)
		}
		argument := dig(t, got, s.argument).(string)
		if strings.HasPrefix(argument, "{") {
			argument = parse(t, argument)["text"].(string)
		}
		if argument != "the budget" {
			t.Errorf("%s: argument %q, want two words", s.path, argument)
		}
	}
	if got := dig(t, w.object("/v1/chat/completions", `{"model":"sim-tool-out2","messages":[]}`), "choices.0.message.content"); got != "the budget" {
		t.Errorf("without tools it says %v", got)
	}
}

func TestResponsesAreKept(t *testing.T) {
	w := newWorld(t, Options{})
	made := w.object("/v1/responses", `{"model":"sim-in4-out3","input":"x"}`)
	path := "/v1/responses/" + made["id"].(string)
	if status, body := w.do(http.MethodGet, path); status != 200 || dig(t, parse(t, body), "usage.total_tokens") != 7.0 {
		t.Errorf("GET: %d %s", status, body)
	}
	if status, body := w.do(http.MethodDelete, path); status != 200 || parse(t, body)["deleted"] != true {
		t.Errorf("DELETE: %d %s", status, body)
	}
	if status, _ := w.do(http.MethodGet, path); status != 404 {
		t.Errorf("GET after that: %d, want 404", status)
	}
}

func TestAResponseInTheBackgroundIsReadyTheSecondTime(t *testing.T) {
	w := newWorld(t, Options{})
	start := func() string {
		made := w.object("/v1/responses", `{"model":"sim-in4-out3","input":"x","background":true}`)
		if made["status"] != "queued" || made["usage"] != nil {
			t.Errorf("at once: %v, usage %v, want queued and none", made["status"], made["usage"])
		}
		return "/v1/responses/" + made["id"].(string)
	}
	path := start()
	for _, want := range []string{"in_progress", "completed", "completed"} {
		_, body := w.do(http.MethodGet, path)
		got := parse(t, body)
		if got["status"] != want || (got["usage"] != nil) != (want == "completed") {
			t.Errorf("status %v, usage %v, want %s", got["status"], got["usage"], want)
		}
	}
	path = start()
	for _, method := range []string{http.MethodPost, http.MethodGet} {
		target := path
		if method == http.MethodPost {
			target += "/cancel"
		}
		if _, body := w.do(method, target); parse(t, body)["status"] != "cancelled" {
			t.Errorf("%s %s: %s", method, target, body)
		}
	}
}

func TestTheShelfForgetsTheOldest(t *testing.T) {
	s := newShelf()
	for i := range maxKept + 1 {
		s.put(itoa(int64(i)), &kept{final: []byte("x")})
	}
	if s.take("0", http.MethodGet) != nil || s.take("1", http.MethodGet) == nil {
		t.Error("the oldest is still there, or the second is not")
	}
}

func TestAToolIsCalledOnceWithTheArgumentsOfItsName(t *testing.T) {
	w := newWorld(t, Options{Calls: map[string]string{"read": `{"path":"a \"b\""}`}})
	const arguments = `{"path":"a \"b\""}`
	for _, s := range []struct{ path, tools, result, name, arguments string }{
		{"/v1/chat/completions", `"model":"sim-tool-once","tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"read"}}],"messages":`,
			`[{"role":"tool","tool_call_id":"x","content":"y"}]`, "choices.0.message.tool_calls.0.function.name", "choices.0.message.tool_calls.0.function.arguments"},
		{"/v1/responses", `"model":"sim-tool-once","tools":[{"type":"function","name":"f"},{"type":"function","name":"read"}],"input":`,
			`[{"type":"function_call_output","output":"y"}]`, "output.0.name", "output.0.arguments"},
		{"/v1/messages", `"model":"sim-tool-once","max_tokens":99,"tools":[{"name":"f"},{"name":"read"}],"messages":`,
			`[{"role":"user","content":[{"type":"tool_result","tool_use_id":"x"}]}]`, "content.0.name", "content.0.input"},
		{"/v1beta/models/sim-tool-once:generateContent", `"tools":[{"functionDeclarations":[{"name":"f"},{"name":"read"}]}],"contents":`,
			`[{"parts":[{"functionResponse":{"name":"read"}}]}]`, "candidates.0.content.parts.0.functionCall.name", "candidates.0.content.parts.0.functionCall.args"},
		{"/model/sim-tool-once/converse", `"toolConfig":{"tools":[{"toolSpec":{"name":"f"}},{"toolSpec":{"name":"read"}}]},"messages":`,
			`[{"content":[{"toolResult":{}}]}]`, "output.message.content.0.toolUse.name", "output.message.content.0.toolUse.input"},
	} {
		got := w.object(s.path, `{`+s.tools+`[]}`)
		if name := dig(t, got, s.name); name != "read" {
			t.Errorf("%s: called %v, want read", s.path, name)
		}
		called := dig(t, got, s.arguments)
		if _, quoted := called.(string); !quoted {
			b, err := json.Marshal(called)
			if err != nil {
				t.Fatal(err)
			}
			called = string(b)
		}
		if called != arguments {
			t.Errorf("%s: called with %v, want %s", s.path, called, arguments)
		}
		if after := w.text(s.path, `{`+s.tools+s.result+`}`); strings.Contains(after, `"read"`) || !strings.Contains(after, "the budget") {
			t.Errorf("%s: after a result came %s, want text", s.path, after)
		}
	}
	stream := w.text("/v1/messages", `{"model":"sim-tool-once","stream":true,"max_tokens":99,"messages":[],"tools":[{"name":"read"}]}`)
	joined := ""
	for _, e := range events(t, stream) {
		if strings.Contains(e, "input_json_delta") {
			joined += dig(t, parse(t, e), "delta.partial_json").(string)
		}
	}
	if joined != arguments {
		t.Errorf("streamed %s, want %s", joined, arguments)
	}
}
