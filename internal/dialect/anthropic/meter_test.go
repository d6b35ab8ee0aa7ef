package anthropic

import (
	"fmt"
	"strings"
	"testing"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/dialecttest"
	"llmgw/internal/fault"
	"llmgw/internal/tokens"
)

func watching(contentType string) dialect.Meter {
	c := &dialect.Call{Request: dialect.Request{Endpoint: dialect.Endpoint{Operation: dialect.Chat}}, Stream: true, Choices: 1}
	return New().Meter(c, dialect.Answer{Status: 200, Header: dialect.Header{"Content-Type": {contentType}}}, dialect.MeterOptions{Count: dialecttest.Bytes, HideUsage: true})
}

// events frames events by their types.
func events(documents ...string) string {
	var b strings.Builder
	for _, d := range documents {
		kind, _, _ := strings.Cut(strings.TrimPrefix(d, `{"type":"`), `"`)
		fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", kind, d)
	}
	return b.String()
}

const (
	start = `{"type":"message_start","message":{"id":"msg","model":"claude","usage":{"input_tokens":100,"cache_read_input_tokens":900,"cache_creation_input_tokens":null,"output_tokens":1}}}`
	hello = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hello"}}`
	stop  = `{"type":"message_stop"}`
)

func delta(usage string) string {
	return `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":` + usage + `}`
}

func TestC13CacheTokensCountOnce(t *testing.T) {
	for _, s := range []struct {
		what   string
		stream string
		want   tokens.Usage
		output bool
		whole  bool
	}{
		{"the delta repeats the input", events(start, hello, delta(`{"input_tokens":100,"cache_read_input_tokens":900,"output_tokens":50}`), stop), tokens.Usage{Input: 1000, CachedInput: 900, Output: 50}, true, true},
		{"the delta has output alone", events(start, hello, delta(`{"output_tokens":50}`), stop), tokens.Usage{Input: 1000, CachedInput: 900, Output: 50}, true, true},
		{"the delta raises the input", events(start, hello, delta(`{"input_tokens":300,"output_tokens":50}`), stop), tokens.Usage{Input: 1200, CachedInput: 900, Output: 50}, true, true},
		{"the delta has nulls", events(start, hello, delta(`{"input_tokens":null,"cache_read_input_tokens":null,"output_tokens":50}`), stop), tokens.Usage{Input: 1000, CachedInput: 900, Output: 50}, true, true},
		{"several deltas", events(start, hello, delta(`{"output_tokens":20}`), delta(`{"output_tokens":50}`), stop), tokens.Usage{Input: 1000, CachedInput: 900, Output: 50}, true, true},
		{"no delta came", events(start, hello), tokens.Usage{Input: 1000, CachedInput: 900}, false, false},
		{"no end came", events(start, hello, delta(`{"output_tokens":50}`)), tokens.Usage{Input: 1000, CachedInput: 900, Output: 50}, true, false},
		{"pings", events(`{"type":"ping"}`, start, `{"type":"ping"}`, hello, delta(`{"output_tokens":50}`), `{"type":"ping"}`, stop), tokens.Usage{Input: 1000, CachedInput: 900, Output: 50}, true, true},
		{"no event lines", "data: " + start + "\n\ndata: " + delta(`{"output_tokens":50}`) + "\n\ndata: " + stop + "\n\n", tokens.Usage{Input: 1000, CachedInput: 900, Output: 50}, true, true},
	} {
		m := watching("text/event-stream")
		out := string(m.Feed([]byte(s.stream))) + string(m.End())
		if out != s.stream {
			t.Errorf("%s: the stream was changed", s.what)
		}
		r := m.Report()
		if r.Usage != s.want || !r.InputKnown || r.OutputKnown != s.output || r.Complete != s.whole {
			t.Errorf("%s: got %+v, want %+v (%v, complete %v)", s.what, r, s.want, s.output, s.whole)
		}
	}
}

func TestPassesAreSummedByTheirTypes(t *testing.T) {
	pass := func(kind string, in, out int) string {
		return fmt.Sprintf(`{"type":%q,"input_tokens":%d,"output_tokens":%d,"cache_read_input_tokens":1}`, kind, in, out)
	}
	for _, s := range []struct {
		what   string
		passes []string
		want   tokens.Usage
	}{
		{"none", nil, tokens.Usage{Input: 10, Output: 5}},
		{"one", []string{pass("message", 10, 5)}, tokens.Usage{Input: 11, CachedInput: 1, Output: 5}},
		{"a compaction", []string{pass("compaction", 100, 50), pass("message", 10, 5)}, tokens.Usage{Input: 112, CachedInput: 2, Output: 55}},
		{"an advisor", []string{pass("message", 10, 5), pass("advisor_message", 1000, 500)}, tokens.Usage{Input: 11, CachedInput: 1, Output: 5}},
		{"a fallback", []string{pass("message", 100, 50), pass("fallback_message", 10, 5)}, tokens.Usage{Input: 10, Output: 5}},
		{"a fallback first", []string{pass("fallback_message", 10, 5), pass("message", 100, 50)}, tokens.Usage{Input: 10, Output: 5}},
		{"the type last", []string{`{"input_tokens":7,"output_tokens":3,"type":"message"}`}, tokens.Usage{Input: 7, Output: 3}},
		{"no type", []string{`{"input_tokens":7,"output_tokens":3}`}, tokens.Usage{Input: 10, Output: 5}},
	} {
		list := strings.Join(s.passes, ",")
		for _, usage := range []string{
			`{"input_tokens":10,"output_tokens":5,"iterations":[` + list + `]}`,
			`{"iterations":[` + list + `],"input_tokens":10,"output_tokens":5}`,
		} {
			m := watching("application/json")
			m.Feed([]byte(`{"id":"m","stop_reason":"end_turn","content":[{"type":"text","text":"hi"}],"usage":` + usage + `}`))
			m.End()
			if r := m.Report(); r.Usage != s.want || !r.Complete || r.Finish != "end_turn" {
				t.Errorf("%s: got %+v, want %+v", s.what, r, s.want)
			}
		}
	}
}

func TestThinkingToolsAndTextAreCounted(t *testing.T) {
	m := watching("text/event-stream")
	m.Feed([]byte(events(
		start,
		`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"abc"}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"not text"}}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"fn","input":{}}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\":1}"}}`,
		hello,
	)))
	if r := m.Report(); r.Counted != tokens.Count(len("abc"+"fn"+`{"a":1}`+"hello")) || !r.Content || r.Events != 7 {
		t.Errorf("got %+v", r)
	}
}

func TestAnErrorEventEndsTheAnswer(t *testing.T) {
	m := watching("text/event-stream")
	m.Feed([]byte(events(start, hello)))
	m.Feed(New().ErrorEvent(&faultBudget, "r"))
	m.End()
	r := m.Report()
	if r.Failure == nil || *r.Failure != (dialect.Failure{Type: "rate_limit_error", Code: "enforced_spend_limit_reached", Message: "Spent.", Status: 429}) || r.Complete || r.Usage.Input != 1000 || r.OutputKnown {
		t.Errorf("got %+v, %+v", r, r.Failure)
	}
}

var faultBudget = fault.Error{Code: fault.InsufficientQuota, Message: "Spent."}
