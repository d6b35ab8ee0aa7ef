package upstream

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/anthropic"
	"llmgw/internal/dialect/bedrock"
	"llmgw/internal/dialect/cohere"
	"llmgw/internal/dialect/gemini"
	"llmgw/internal/dialect/ollama"
	"llmgw/internal/dialect/openai"
	"llmgw/internal/dialect/stream"
	"llmgw/internal/tokens"
)

func bedrockEvent(kind, name, payload string) string {
	header := ":event-type"
	if kind == "exception" {
		header = ":exception-type"
	}
	return string(stream.AppendFrame(nil, [][2]string{{":message-type", kind}, {header, name}, {":content-type", "application/json"}}, []byte(payload)))
}

// What each API sends before an answer has content, the first content, and an
// error in its place.
var announced = []struct {
	what      string
	dialect   dialect.Dialect
	operation dialect.Operation
	kind      string
	before    string
	content   string
	failure   string
	status    int // that the failure stands for, 0: none
}{
	{"OpenAI: the role alone", openai.New(), dialect.Chat, "text/event-stream",
		"data: {\"id\":\"c\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}],\"usage\":null}\n\n",
		"data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"},\"finish_reason\":null}]}\n\n",
		"data: {\"error\":{\"message\":\"no\",\"type\":\"server_error\"}}\n\n", 0},
	{"OpenAI: a tool call", openai.New(), dialect.Chat, "text/event-stream",
		"data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":null}}]}\n\n",
		"data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"name\":\"f\",\"arguments\":\"\"}}]}}]}\n\n",
		"data: {\"error\":{\"message\":\"no\",\"code\":503}}\n\n", 503},
	{"OpenRouter: comments", openai.New(), dialect.Chat, "text/event-stream",
		": OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\n\n",
		"data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"reasoning\":\"Hm\"}}]}\n\n",
		"data: {\"id\":\"c\",\"error\":{\"code\":502,\"message\":\"no\"},\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"},\"finish_reason\":\"error\"}]}\n\n", 502},
	{"DeepSeek: blank lines", openai.New(), dialect.Chat, "text/event-stream",
		"\n\n\r\n\n",
		"data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"Hm\"}}]}\n\n",
		"data: {\"error\":{\"message\":\"no\",\"type\":\"invalid_request_error\",\"code\":\"rate_limit_exceeded\"}}\n\n", 429},
	{"Azure: the prompt's filter", openai.New(), dialect.Chat, "text/event-stream",
		"data: {\"choices\":[],\"created\":0,\"id\":\"\",\"model\":\"\",\"object\":\"\",\"prompt_filter_results\":[{\"prompt_index\":0,\"content_filter_results\":{}}]}\n\n",
		"data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"}}]}\n\n",
		"data: {\"error\":{\"message\":\"no\",\"code\":\"429\"}}\n\n", 429},
	{"Responses: created, in progress, an item", openai.New(), dialect.Responses, "text/event-stream",
		"event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"status\":\"in_progress\",\"error\":null,\"instructions\":\"" + strings.Repeat("Be kind. ", 3000) + "\",\"usage\":null}}\n\n" +
			"event: response.in_progress\ndata: {\"type\":\"response.in_progress\",\"response\":{\"id\":\"r\",\"status\":\"in_progress\"}}\n\n" +
			"event: response.output_item.added\ndata: {\"type\":\"response.output_item.added\",\"item\":{\"id\":\"m\",\"type\":\"message\",\"content\":[]}}\n\n",
		"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"Hi\"}\n\n",
		"event: error\ndata: {\"type\":\"error\",\"code\":\"rate_limit_exceeded\",\"message\":\"no\"}\n\n", 429},
	{"Responses: one that fails", openai.New(), dialect.Responses, "text/event-stream",
		"event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"status\":\"in_progress\",\"error\":null}}\n\n",
		"event: response.output_item.added\ndata: {\"type\":\"response.output_item.added\",\"item\":{\"type\":\"function_call\",\"name\":\"f\"}}\n\n",
		"event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"id\":\"r\",\"status\":\"failed\",\"error\":{\"code\":\"server_error\",\"message\":\"no\"}}}\n\n", 0},
	{"Anthropic: the message's start, a ping, a block", anthropic.New(), dialect.Chat, "text/event-stream",
		"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\n" +
			"event: ping\ndata: {\"type\":\"ping\"}\n\n" +
			"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
		"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hi\"}}\n\n",
		"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n", 529},
	{"Gemini: the role alone", gemini.New(), dialect.Chat, "text/event-stream",
		"data: {\"candidates\":[{\"content\":{\"role\":\"model\"},\"index\":0}],\"usageMetadata\":{\"promptTokenCount\":4},\"responseId\":\"r\"}\r\n\r\n",
		"data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Hi\"}],\"role\":\"model\"},\"index\":0}]}\r\n\r\n",
		"data: {\"error\":{\"code\":503,\"message\":\"no\",\"status\":\"UNAVAILABLE\"}}\r\n\r\n", 503},
	{"Gemini: the start of an array", gemini.New(), dialect.Chat, "application/json",
		"[{\"candidates\":[{\"content\":{\"role\":\"model\"},\"index\":0}],\"responseId\":\"r\"}\n",
		",\r\n{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Hi\"}]}}]}",
		",\r\n{\"error\":{\"code\":429,\"message\":\"no\",\"status\":\"RESOURCE_EXHAUSTED\"}}]", 429},
	{"Bedrock: the message's start", bedrock.New(), dialect.Chat, "application/vnd.amazon.eventstream",
		bedrockEvent("event", "messageStart", `{"role":"assistant"}`),
		bedrockEvent("event", "contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"Hi"}}`),
		bedrockEvent("exception", "throttlingException", `{"message":"no"}`), 429},
	{"Cohere: the message's start", cohere.New(), dialect.Chat, "text/event-stream",
		"event: message-start\ndata: {\"id\":\"m\",\"type\":\"message-start\",\"delta\":{\"message\":{\"role\":\"assistant\",\"content\":[]}}}\n\n",
		"event: content-delta\ndata: {\"type\":\"content-delta\",\"index\":0,\"delta\":{\"message\":{\"content\":{\"text\":\"Hi\"}}}}\n\n",
		"event: message-end\ndata: {\"type\":\"message-end\",\"delta\":{\"finish_reason\":\"ERROR\",\"error\":\"no\"}}\n\n", 0},
	{"Ollama: an empty line", ollama.New(), dialect.Chat, "application/x-ndjson",
		"{\"model\":\"m\",\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"done\":false}\n",
		"{\"model\":\"m\",\"message\":{\"role\":\"assistant\",\"content\":\"Hi\"},\"done\":false}\n",
		"{\"error\":\"no\"}\n", 0},
}

// streamed is the endpoint of d by which an operation streams.
func streamed(d dialect.Dialect, o dialect.Operation) (found dialect.Endpoint) {
	for _, e := range d.Endpoints() {
		if e.Operation == o && (found.Pattern == "" || strings.Contains(strings.ToLower(e.Pattern), "stream") && !strings.Contains(found.Pattern, "stream")) {
			found = e
		}
	}
	return found
}

func TestEveryAPIsStreamIsHeldUntilItHasContent(t *testing.T) {
	for _, s := range announced {
		meter := func() dialect.Meter {
			call := &dialect.Call{Request: dialect.Request{Endpoint: streamed(s.dialect, s.operation)}, Stream: true}
			answer := dialect.Answer{Status: 200, Header: dialect.Header{"Content-Type": {s.kind}}}
			return s.dialect.Meter(call, answer, dialect.MeterOptions{Count: func(b []byte) tokens.Count { return tokens.Count(len(b)) }})
		}
		pieces := func(all ...string) io.ReadCloser {
			return io.NopCloser(iotest.OneByteReader(strings.NewReader(strings.Join(all, ""))))
		}

		m := meter()
		prefix, _, err := peek(pieces(s.before, s.failure), m)
		if r := m.Report(); err != nil && err != io.EOF || !r.FailedFirst || r.Failure.Status != s.status {
			t.Errorf("%s, then an error: released %d bytes with %v, reported as %+v", s.what, len(prefix), err, r.Failure)
		}
		m.End()

		m = meter()
		prefix, _, err = peek(pieces(s.before, s.content, s.content), m)
		if r := m.Report(); err != nil || !r.Content || r.FailedFirst || len(prefix) > len(s.before+s.content) {
			t.Errorf("%s, then content: %d bytes of %d and %d were held, with %v", s.what, len(prefix), len(s.before), len(s.content), err)
		}
		m.End()

		m = meter()
		known := !strings.HasPrefix(s.what, "Azure") && s.what != "Bedrock: the message's start" // whose first event names nothing
		if _, _, err = peek(pieces(s.before), m); known && err != io.ErrUnexpectedEOF {
			t.Errorf("%s, and then its end: %v", s.what, err)
		}
		m.End()
	}
}
