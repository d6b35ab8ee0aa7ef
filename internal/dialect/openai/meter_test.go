package openai

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"slices"
	"strings"
	"testing"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/dialecttest"
	"llmgw/internal/tokens"
)

// watching returns a meter for an answer to a streamed call.
func watching(o dialect.Operation, hide bool, flavor, contentType string) dialect.Meter {
	c := &dialect.Call{Request: dialect.Request{Endpoint: dialect.Endpoint{Operation: o}}, Stream: true, Choices: 1}
	a := dialect.Answer{Status: 200, Header: dialect.Header{"Content-Type": {contentType}}}
	return New().Meter(c, a, dialect.MeterOptions{HideUsage: hide, Count: dialecttest.Bytes, Flavor: flavor})
}

func chatting(hide bool) dialect.Meter {
	return watching(dialect.Chat, hide, "openai", "text/event-stream; charset=utf-8")
}

func sse(documents ...string) string {
	return "data: " + strings.Join(documents, "\n\ndata: ") + "\n\n"
}

func relayed(m dialect.Meter, answer string) (string, dialect.Report) {
	out := append([]byte(nil), m.Feed([]byte(answer))...)
	out = append(out, m.End()...)
	return string(out), m.Report()
}

const (
	word  = `{"id":"c","model":"gpt","choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null}]}`
	last  = `{"id":"c","model":"gpt","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	spent = `{"id":"c","model":"gpt","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":20,"total_tokens":30}}`
)

func TestC1StreamedUsageIsCounted(t *testing.T) {
	_, r := relayed(chatting(false), sse(slices.Concat(slices.Repeat([]string{word}, 20), []string{last, spent, "[DONE]"})...))
	if r.Usage != (tokens.Usage{Input: 10, Output: 20}) || !r.Complete || r.Finish != "stop" || r.Model != "gpt" || r.ID != "c" {
		t.Errorf("got %+v", r)
	}
}

func TestC2AClientThatDidNotAskSeesNoUsage(t *testing.T) {
	withNull := strings.TrimSuffix(word, "}") + `,"usage":null}`
	out, r := relayed(chatting(true), sse(withNull, withNull, last, spent, "[DONE]"))
	if want := sse(word, word, last, "[DONE]"); out != want {
		t.Errorf("got  %s\nwant %s", out, want)
	}
	if r.Usage.Total() != 30 {
		t.Errorf("got %+v", r.Usage)
	}
}

func TestC4AChunkWithoutChoicesIsNoTrouble(t *testing.T) {
	for _, chunk := range []string{
		`{"choices":[]}`, `{"choices":null}`, `{}`, `{"choices":{}}`, `{"choices":[null]}`, `{"choices":[[]]}`, `{"choices":[{"delta":null}]}`, `{"choices":[{"index":1e15,"finish_reason":null},{"index":-1e15},{"index":"0"}]}`, `[]`, `null`, `7`, `"x"`,
		`{"choices":[{"delta":{"content":null,"tool_calls":null}}]}`, `{"choices":[{"delta":{"tool_calls":[{"function":null}]}}]}`,
	} {
		for _, hide := range []bool{false, true} {
			out, r := relayed(chatting(hide), sse(word, chunk, last))
			if out != sse(word, chunk, last) || !r.Complete || r.Counted != 5 || r.Failure != nil {
				t.Errorf("%s: got %q, %+v", chunk, out, r)
			}
		}
	}
}

func TestC6ExplicitZeroUsageIsUsage(t *testing.T) {
	const zero = `{"choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}`
	if _, r := relayed(chatting(false), sse(last, zero, "[DONE]")); !r.InputKnown || !r.OutputKnown || r.Usage != (tokens.Usage{}) {
		t.Errorf("without output: got %+v", r)
	}
	if _, r := relayed(chatting(false), sse(word, last, zero, "[DONE]")); r.InputKnown || r.OutputKnown || r.Counted != 5 {
		t.Errorf("with output: got %+v", r)
	}
}

func TestC8TextReasoningAndToolArgumentsAreCounted(t *testing.T) {
	for _, s := range []struct {
		flavor, delta string
		want          tokens.Count
	}{
		{"openai", `{"content":"12345"}`, 5},
		{"openai", `{"refusal":"12345"}`, 5},
		{"openai", `{"audio":{"data":"base64","transcript":"123"}}`, 3},
		{"openai", `{"function_call":{"name":"f","arguments":"{}"}}`, 3},
		{"openai", `{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]}`, 8},
		{"openai", `{"tool_calls":[{"index":0,"custom":{"name":"f","input":"123"}}]}`, 4},
		{"deepseek", `{"reasoning_content":"123","content":null}`, 3},
		{"openrouter", `{"reasoning":"123","reasoning_details":[{"type":"reasoning.text","text":"123"}]}`, 3},
		{"vllm", `{"reasoning":"123","reasoning_content":"123"}`, 3},
		{"mistral", `{"content":[{"type":"thinking","thinking":[{"type":"text","text":"12"}]},{"type":"text","text":"345"}]}`, 5},
		{"together", `{"content":"123"}`, 3},
	} {
		chunk := fmt.Sprintf(`{"choices":[{"index":0,"text":"%s","delta":%s}],"obfuscation":"xyz"}`, "123", s.delta)
		_, r := relayed(watching(dialect.Chat, false, s.flavor, "text/event-stream"), sse(chunk))
		if r.Counted != s.want || !r.Content {
			t.Errorf("%s %s: got %d, want %d", s.flavor, s.delta, r.Counted, s.want)
		}
	}
}

func TestC9AStreamThatComesByteByByteIsReadAndRelayed(t *testing.T) {
	answer := sse(word, last, spent, "[DONE]")
	for hide, want := range map[bool]string{false: answer, true: sse(word, last, "[DONE]")} {
		m := chatting(hide)
		var out []byte
		for i := range answer {
			out = append(out, m.Feed([]byte(answer[i:i+1]))...)
		}
		out = append(out, m.End()...)
		if r := m.Report(); string(out) != want || r.Usage.Total() != 30 || !r.Complete || r.Events != 4 {
			t.Errorf("hide %v: got %q, %+v", hide, out, r)
		}
	}
}

func TestC21AnEventIsPassedOnAtOnce(t *testing.T) {
	for _, hide := range []bool{false, true} {
		m := chatting(hide)
		for range 3 {
			if out := m.Feed([]byte(sse(word))); string(out) != sse(word) {
				t.Errorf("hide %v: %q came of a whole event", hide, out)
			}
		}
		if out := m.Feed([]byte(": still here\n\n")); string(out) != ": still here\n\n" {
			t.Errorf("hide %v: %q came of a comment", hide, out)
		}
	}
}

func TestC11AnEventOfTwoMegabytesIsRelayedAndCounted(t *testing.T) {
	huge := `{"choices":[{"index":0,"delta":{"tool_calls":[{"function":{"arguments":"` + strings.Repeat("x", 2<<20) + `"}}]}}]}`
	for _, hide := range []bool{false, true} {
		m := chatting(hide)
		answer := []byte(sse(word, huge, last, spent, "[DONE]"))
		var out []byte
		for piece := range slices.Chunk(answer, 16<<10) {
			out = append(out, m.Feed(piece)...)
		}
		out = append(out, m.End()...)
		want := string(answer)
		if hide {
			want = sse(word, huge, last, "[DONE]")
		}
		if r := m.Report(); string(out) != want || r.Usage.Output != 20 || !r.Complete || r.Counted != 2<<20+5 {
			t.Errorf("hide %v: %d bytes came, want %d; %+v", hide, len(out), len(want), r)
		}
	}
}

func TestC16UsageIsInWhicheverEventIsTheLast(t *testing.T) {
	const usage = `"usage":{"input_tokens":5,"input_tokens_details":{"cached_tokens":2,"cache_write_tokens":1},"output_tokens":7,"output_tokens_details":{"reasoning_tokens":3},"total_tokens":12}`
	for _, s := range []struct {
		event, status, failure string
		complete               bool
	}{
		{"response.completed", "completed", "null", true},
		{"response.incomplete", "incomplete", "null", true},
		{"response.cancelled", "cancelled", "null", true},
		{"response.failed", "failed", `{"code":"server_error","message":"no"}`, false},
	} {
		answer := "event: response.created\n" + sse(`{"type":"response.created","response":{"id":"r","model":"m","status":"in_progress","error":null,"usage":null}}`) +
			"event: response.output_text.delta\n" + sse(`{"type":"response.output_text.delta","delta":"abc"}`) +
			"event: response.audio.delta\n" + sse(`{"type":"response.audio.delta","delta":"YmFzZTY0"}`) +
			"event: response.output_text.done\n" + sse(`{"type":"response.output_text.done","text":"abc"}`) +
			"event: " + s.event + "\n" + sse(fmt.Sprintf(`{"type":%q,"response":{"id":"r","status":%q,"error":%s,"output":[{"content":[{"text":"abc"}]}],%s}}`, s.event, s.status, s.failure, usage))
		_, r := relayed(watching(dialect.Responses, true, "openai", "text/event-stream"), answer)
		if r.Usage != (tokens.Usage{Input: 5, CachedInput: 2, CacheWrite: 1, Output: 7, Reasoning: 3}) || r.Complete != s.complete || r.Finish != s.status || r.Counted != 3 || (r.Failure == nil) != s.complete {
			t.Errorf("%s: got %+v", s.event, r)
		}
	}
}

func TestEveryKindOfTextInAResponseIsCountedOnce(t *testing.T) {
	for kind, counts := range map[string]bool{
		"response.output_text.delta": true, "response.refusal.delta": true, "response.reasoning_text.delta": true, "response.reasoning_summary_text.delta": true,
		"response.function_call_arguments.delta": true, "response.mcp_call_arguments.delta": true, "response.custom_tool_call_input.delta": true,
		"response.code_interpreter_call_code.delta": true, "response.audio.transcript.delta": true,
		"response.audio.delta": false, "response.output_text.done": false, "response.unheard_of.delta": false, "": false,
	} {
		for _, event := range []string{
			sse(fmt.Sprintf(`{"type":%q,"delta":"abc"}`, kind)),
			"event: " + kind + "\n" + sse(fmt.Sprintf(`{"delta":"abc","type":%q}`, kind)),
		} {
			_, r := relayed(watching(dialect.Responses, false, "openai", "text/event-stream"), event)
			if (r.Counted == 3) != counts || r.Content != counts {
				t.Errorf("%q: got %+v, want counted %v", event, r, counts)
			}
		}
	}
}

func TestC19AStreamThatBreaksOffIsNotComplete(t *testing.T) {
	whole := sse(word, word, word, last, spent, "[DONE]")
	end := strings.Index(whole, last) + len(last)
	for cut := range len(whole) {
		m := chatting(false)
		m.Feed([]byte(whole[:cut]))
		if r := m.Report(); r.Complete && cut < end {
			t.Fatalf("cut at %d, after %q: complete", cut, whole[max(0, cut-20):cut])
		}
		m.End()
		if r := m.Report(); r.Complete && cut < end || r.Counted%5 != 0 {
			t.Fatalf("cut at %d, in the end: %+v", cut, r)
		}
	}
}

func TestD7TheTextOfAnErrorIsNoOutput(t *testing.T) {
	for _, s := range []struct{ contentType, answer string }{
		{"application/json", `{"error":{"message":"a long message","type":"server_error","code":null}}`},
		{"text/event-stream", sse(`{"error":{"message":"a long message","type":"server_error"}}`)},
		{"text/event-stream", sse(`{"object":"error","message":"a long message","type":"server_error","code":400}`)},
	} {
		_, r := relayed(watching(dialect.Chat, true, "", s.contentType), s.answer)
		if r.Failure == nil || r.Failure.Message != "a long message" || r.Failure.Type != "server_error" || r.Counted != 0 || r.Content || r.Complete {
			t.Errorf("%s: got %+v", s.answer, r)
		}
	}
}

func TestUsageOfEachFlavorIsReadInItsPlace(t *testing.T) {
	for _, s := range []struct {
		flavor, chunk string
		want          tokens.Usage
	}{
		{"groq", `{"choices":[{"delta":{},"finish_reason":"stop"}],"x_groq":{"usage":{"prompt_tokens":4,"completion_tokens":5,"total_tokens":9}}}`, tokens.Usage{Input: 4, Output: 5}},
		{"openai", `{"choices":[{"delta":{},"finish_reason":"stop"}],"x_groq":{"usage":{"prompt_tokens":4,"completion_tokens":5}}}`, tokens.Usage{}},
		{"llamacpp", `{"choices":[],"timings":{"cache_n":6,"prompt_n":4,"predicted_n":5}}`, tokens.Usage{Input: 10, CachedInput: 6, Output: 5}},
		{"openai", `{"choices":[],"timings":{"cache_n":6,"prompt_n":4,"predicted_n":5}}`, tokens.Usage{}},
		{"llamacpp", `{"timings":{"cache_n":6,"prompt_n":4,"predicted_n":5},"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}`, tokens.Usage{Input: 10, CachedInput: 6, Output: 5}},
		{"xai", `{"usage":{"prompt_tokens":6,"completion_tokens":2,"total_tokens":20,"prompt_tokens_details":{"cached_tokens":8},"completion_tokens_details":{"reasoning_tokens":4}}}`, tokens.Usage{Input: 14, CachedInput: 8, Output: 6, Reasoning: 4}},
		{"mistral", `{"usage":{"prompt_tokens":6,"completion_tokens":2,"prompt_token_details":{"cached_tokens":3}}}`, tokens.Usage{Input: 6, CachedInput: 3, Output: 2}},
		{"mistral", `{"usage":{"prompt_tokens":6,"completion_tokens":2,"num_cached_tokens":3}}`, tokens.Usage{Input: 6, CachedInput: 3, Output: 2}},
		{"together", `{"usage":{"prompt_tokens":6,"completion_tokens":2,"cached_tokens":3}}`, tokens.Usage{Input: 6, CachedInput: 3, Output: 2}},
		{"openrouter", `{"usage":{"prompt_tokens":6,"completion_tokens":2,"cost":0.1,"prompt_tokens_details":{"cached_tokens":1,"cache_write_tokens":3},"completion_tokens_details":{"reasoning_tokens":1}}}`, tokens.Usage{Input: 6, CachedInput: 1, CacheWrite: 3, Output: 2, Reasoning: 1}},
		{"deepseek", `{"usage":{"prompt_tokens":6,"completion_tokens":2,"prompt_cache_hit_tokens":5,"prompt_cache_miss_tokens":1}}`, tokens.Usage{Input: 6, CachedInput: 5, Output: 2}},
		{"perplexity", `{"usage":{"prompt_tokens":6,"completion_tokens":2,"reasoning_tokens":1,"cost":{"total_cost":1}}}`, tokens.Usage{Input: 6, Output: 2, Reasoning: 1}},
	} {
		if _, r := relayed(watching(dialect.Chat, true, s.flavor, "text/event-stream"), sse(s.chunk)); r.Usage != s.want {
			t.Errorf("%s %s: got %+v, want %+v", s.flavor, s.chunk, r.Usage, s.want)
		}
	}
}

func TestLlamaCPPsTimingsAreUsageOfCompletionsToo(t *testing.T) {
	const answer = `{"choices":[{"text":"abc","index":0,"finish_reason":"stop"}],"timings":{"cache_n":6,"prompt_n":4,"predicted_n":5}}`
	_, r := relayed(watching(dialect.Completion, false, "llamacpp", "text/event-stream"), sse(answer))
	if r.Usage != (tokens.Usage{Input: 10, CachedInput: 6, Output: 5}) || r.Counted != 3 {
		t.Errorf("got %+v", r)
	}
	_, r = relayed(watching(dialect.Completion, false, "openai", "text/event-stream"), sse(answer))
	if r.InputKnown || r.OutputKnown || r.Counted != 3 {
		t.Errorf("of another flavor: got %+v", r)
	}
}

func TestMediaAnswersMayBeNoJSON(t *testing.T) {
	c := &dialect.Call{Request: dialect.Request{Endpoint: dialect.Endpoint{Operation: dialect.Speech}}}
	const answer = "ID3\x04\x00{\"usage\""
	for contentType, want := range map[string]dialect.Report{
		"audio/mpeg":       {Events: 1},
		"text/plain":       {Events: 1, Content: true, Counted: tokens.Count(len(answer))}, // a transcript
		"application/json": {Events: 1, Unreadable: true, Counted: tokens.Count(len(answer) / 4)},
	} {
		a := dialect.Answer{Status: 200, Header: dialect.Header{"Content-Type": {contentType}}}
		m := New().Meter(c, a, dialect.MeterOptions{Count: dialecttest.Bytes})
		if out, r := relayed(m, answer); out != answer || r != want {
			t.Errorf("%s: got %+v, want %+v", contentType, r, want)
		}
	}
}

func TestACompressedStreamIsMeteredAsItComes(t *testing.T) {
	c := &dialect.Call{Request: dialect.Request{Endpoint: dialect.Endpoint{Operation: dialect.Chat}}, Stream: true, WantsUsage: true}
	a := dialect.Answer{Status: 200, Header: dialect.Header{"Content-Type": {"text/event-stream"}, "Content-Encoding": {"gzip"}}}
	m := New().Meter(c, a, dialect.MeterOptions{Count: dialecttest.Bytes})
	var sent bytes.Buffer
	z := gzip.NewWriter(&sent)
	for i := range 3 {
		if _, err := z.Write([]byte(sse(word))); err != nil {
			t.Fatal(err)
		}
		if err := z.Flush(); err != nil {
			t.Fatal(err)
		}
		raw := bytes.Clone(sent.Bytes())
		sent.Reset()
		if out := m.Feed(raw); !bytes.Equal(out, raw) {
			t.Error("the stream was changed")
		}
		if r := m.Report(); r.Events != i+1 || r.Counted != tokens.Count(5*(i+1)) {
			t.Errorf("after %d events: got %+v", i+1, r)
		}
	}
	m.End()
}

func TestSecondsOfSoundAreRead(t *testing.T) {
	for body, want := range map[string]int64{
		`{"text":"hi","usage":{"type":"duration","seconds":62}}`:                     62,
		`{"text":"hi","duration":61.4}`:                                              62,
		`{"text":"hi","duration":61.4,"usage":{"type":"duration","seconds":61.2}}`:   62,
		`{"text":"hi","usage":{"type":"duration","seconds":-1}}`:                     0,
		`{"text":"hi","usage":{"type":"duration","seconds":1e300}}`:                  0,
		`{"text":"hi","usage":{"type":"duration","seconds":"9"}}`:                    9,
		`{"text":"hi","usage":{"type":"tokens","input_tokens":5,"output_tokens":1}}`: 0,
	} {
		c := &dialect.Call{Request: dialect.Request{Endpoint: dialect.Endpoint{Operation: dialect.Transcribe}}, Choices: 1}
		m := New().Meter(c, dialect.Answer{Status: 200, Header: dialect.Header{"Content-Type": {"application/json"}}}, dialect.MeterOptions{Count: dialecttest.Bytes})
		m.Feed([]byte(body))
		m.End()
		if got := m.Report().Seconds; got != want {
			t.Errorf("%s: got %d seconds, want %d", body, got, want)
		}
	}
}
