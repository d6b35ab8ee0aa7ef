package fakellm

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

const fiveWords = "the budget of every team"

func TestBedrockCohereAndOllamaAnswerWithTheUsageTheyAreTold(t *testing.T) {
	w := newWorld(t, Options{})
	const tool = `"tools":[{"type":"function","function":{"name":"f"}}]`
	for _, s := range []struct {
		path, body string
		at         map[string]any // what stands where
	}{
		{"/model/sim-in20-cached8-out5/converse", `{"messages":[]}`, map[string]any{
			"output.message.content.0.text": fiveWords, "usage.inputTokens": 12.0, "usage.cacheReadInputTokens": 8.0, "usage.outputTokens": 5.0, "stopReason": "end_turn"}},
		{"/model/sim-out9/converse", `{"messages":[],"inferenceConfig":{"maxTokens":5}}`, map[string]any{
			"output.message.content.0.text": fiveWords, "usage.outputTokens": 5.0, "stopReason": "max_tokens"}},
		{"/model/sim-tool-out5/converse", `{"messages":[],"toolConfig":{"tools":[{"toolSpec":{"name":"f"}}]}}`, map[string]any{
			"output.message.content.0.toolUse.name": "f", "output.message.content.0.toolUse.input.text": fiveWords, "stopReason": "tool_use"}},
		{"/model/sim-in20-out5/invoke", `{"messages":[],"max_tokens":9}`, map[string]any{"content.0.text": fiveWords, "usage.input_tokens": 20.0}},
		{"/v2/chat", `{"model":"sim-in20-out5","messages":[]}`, map[string]any{
			"message.content.0.text": fiveWords, "usage.billed_units.input_tokens": 20.0, "usage.billed_units.output_tokens": 5.0, "usage.tokens.input_tokens": 520.0}},
		{"/v2/chat", `{"model":"sim-tool-out5","messages":[],` + tool + `}`, map[string]any{
			"message.tool_calls.0.function.name": "f", "message.tool_calls.0.function.arguments": `{"text":"` + fiveWords + `"}`, "finish_reason": "TOOL_CALL"}},
		{"/v2/embed", `{"model":"sim-in7","texts":["a","b"]}`, map[string]any{"embeddings.float.1.0": -0.4375, "meta.billed_units.input_tokens": 7.0}},
		{"/v2/rerank", `{"model":"sim","query":"q","documents":["a","b"]}`, map[string]any{"results.1.index": 1.0, "meta.billed_units.search_units": 1.0}},
		{"/api/chat", `{"model":"sim-in20-out5","stream":false}`, map[string]any{
			"message.content": fiveWords, "done": true, "prompt_eval_count": 20.0, "eval_count": 5.0}},
		{"/api/chat", `{"model":"sim-tool-out5","stream":false,` + tool + `}`, map[string]any{
			"message.tool_calls.0.function.name": "f", "message.tool_calls.0.function.arguments.text": fiveWords}},
		{"/api/generate", `{"model":"sim-out9","stream":false,"options":{"num_predict":5}}`, map[string]any{"response": fiveWords, "done_reason": "length"}},
		{"/api/embed", `{"model":"sim-in7","input":["a","b"]}`, map[string]any{"embeddings.1.0": -0.4375, "prompt_eval_count": 7.0}},
	} {
		got := w.object(s.path, s.body)
		for at, want := range s.at {
			if v := dig(t, got, at); v != want {
				t.Errorf("%s %s: %s = %v, want %v", s.path, s.body, at, v, want)
			}
		}
	}
}

func TestOllamaStreamsLinesUnlessToldNotTo(t *testing.T) {
	w := newWorld(t, Options{})
	text, last := "", map[string]any{}
	for line := range strings.Lines(w.text("/api/chat", `{"model":"sim-in20-out5"}`)) {
		last = parse(t, line)
		text += dig(t, last, "message.content").(string)
	}
	if text != fiveWords || last["done"] != true || last["eval_count"] != 5.0 {
		t.Errorf("got %q, and at last %v", text, last)
	}
}

func TestCohereStreamsNamedEvents(t *testing.T) {
	w := newWorld(t, Options{})
	text, last := "", map[string]any{}
	for _, e := range events(t, w.text("/v2/chat", `{"model":"sim-in20-out5","stream":true}`)) {
		last = parse(t, e)
		if last["type"] == "content-delta" {
			text += dig(t, last, "delta.message.content.text").(string)
		}
	}
	if text != fiveWords || last["type"] != "message-end" || dig(t, last, "delta.usage.billed_units.output_tokens") != 5.0 {
		t.Errorf("got %q, and at last %v", text, last)
	}
}

// frames reads AWS's event stream: each frame's kind or exception, and payload.
func frames(t *testing.T, b []byte) (names []string, payloads []map[string]any) {
	t.Helper()
	for len(b) > 0 {
		total, head := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
		if crc32.ChecksumIEEE(b[:8]) != binary.BigEndian.Uint32(b[8:]) || crc32.ChecksumIEEE(b[:total-4]) != binary.BigEndian.Uint32(b[total-4:]) {
			t.Fatal("a checksum is wrong")
		}
		header := b[12 : 12+head]
		n := int(header[0])
		length := int(binary.BigEndian.Uint16(header[n+2:]))
		names = append(names, string(header[n+4:n+4+length]))
		var payload map[string]any
		if err := json.Unmarshal(b[12+head:total-4], &payload); err != nil {
			t.Fatal(err)
		}
		payloads = append(payloads, payload)
		b = b[total:]
	}
	return names, payloads
}

func TestBedrockStreamsFramesAndItsUsageComesLast(t *testing.T) {
	w := newWorld(t, Options{})
	names, payloads := frames(t, []byte(w.text("/model/sim-in20-out2/converse-stream", `{"messages":[]}`)))
	if got := strings.Join(names, " "); got != "messageStart contentBlockDelta contentBlockDelta contentBlockStop messageStop metadata" {
		t.Errorf("got the frames %s", got)
	}
	if got := dig(t, payloads[len(payloads)-1], "usage.totalTokens"); got != 22.0 {
		t.Errorf("got a total of %v tokens, want 22", got)
	}
	names, _ = frames(t, []byte(w.text("/model/sim-err1-out2/converse-stream", `{"messages":[]}`)))
	if got := names[len(names)-1]; got != "serviceUnavailableException" {
		t.Errorf("a stream with an error ends with %s", got)
	}
}

func TestInvokeStreamsTheVendorsEventsAndBedrocksCounts(t *testing.T) {
	w := newWorld(t, Options{})
	_, payloads := frames(t, []byte(w.text("/model/sim-in20-out5/invoke-with-response-stream", `{"messages":[],"max_tokens":9}`)))
	var all [][]byte
	for _, p := range payloads {
		event, err := base64.StdEncoding.DecodeString(p["bytes"].(string))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, event)
	}
	last := all[len(all)-1]
	if !bytes.Contains(all[0], []byte(`"message_start"`)) || dig(t, parse(t, string(last)), "amazon-bedrock-invocationMetrics.inputTokenCount") != 20.0 {
		t.Errorf("got %s … %s", all[0], last)
	}
}

func TestBedrockCohereAndOllamaRefuseInTheirWords(t *testing.T) {
	w := newWorld(t, Options{})
	for _, s := range []struct{ path, body, reads, kind string }{
		{"/model/sim-fail429/converse", `{"messages":[]}`, `{"message":"Rate limit`, "ThrottlingException"},
		{"/model/sim-fail400/converse-stream", `{"messages":[]}`, `{"message":`, "ValidationException"},
		{"/v2/chat", `{"model":"sim-fail429"}`, `{"message":"Rate limit`, ""},
		{"/api/chat", `{"model":"sim-fail404"}`, `{"error":"The request`, ""},
	} {
		resp := w.post(s.path, s.body)
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		body := string(raw)
		kind, _, _ := strings.Cut(resp.Header.Get("X-Amzn-Errortype"), ":")
		if !strings.HasPrefix(body, s.reads) || kind != s.kind {
			t.Errorf("%s: got %q of kind %q", s.path, body, kind)
		}
	}
}

func TestTheServerSpeaksHTTP2WithoutTLS(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := New(Options{}).Server()
	go server.Serve(l) //nolint:errcheck // it ends with Close
	defer server.Close()
	for _, major := range []int{1, 2} {
		var protocols http.Protocols
		protocols.SetHTTP1(major == 1)
		protocols.SetUnencryptedHTTP2(major == 2)
		transport := &http.Transport{Protocols: &protocols}
		defer transport.CloseIdleConnections()
		resp, err := (&http.Client{Transport: transport}).Post("http://"+l.Addr().String()+"/model/sim/converse", "application/json", strings.NewReader(`{"messages":[]}`))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 200 || resp.ProtoMajor != major {
			t.Errorf("got %d over %s, want 200 over HTTP/%d", resp.StatusCode, resp.Proto, major)
		}
	}
}
