package gemini

import (
	"strings"
	"testing"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/dialecttest"
	"llmgw/internal/tokens"
)

func watching(contentType string) dialect.Meter {
	c := &dialect.Call{Request: dialect.Request{Endpoint: dialect.Endpoint{Operation: dialect.Chat}}, Stream: true, Choices: 1}
	return New().Meter(c, dialect.Answer{Status: 200, Header: dialect.Header{"Content-Type": {contentType}}}, dialect.MeterOptions{Count: dialecttest.Bytes, HideUsage: true})
}

func part(text, rest string) string {
	return `{"candidates":[{"content":{"parts":[{"text":"` + text + `"}],"role":"model"},"index":0}]` + rest + `,"modelVersion":"gemini","responseId":"r"}`
}

const finish = `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"fn","args":{"to": "x"}}}]},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":1000,"cachedContentTokenCount":800,"candidatesTokenCount":10,"thoughtsTokenCount":40,"toolUsePromptTokenCount":5,"totalTokenCount":1055}}`

func TestC14CachedInputAndThoughtsCountOnce(t *testing.T) {
	want := tokens.Usage{Input: 1005, CachedInput: 800, Output: 50, Reasoning: 40}
	early := []string{part("abc", ``), part("de", `,"usageMetadata":{"promptTokenCount":1000,"totalTokenCount":1000}`), part("f", `,"usageMetadata":{"promptTokenCount":1000,"candidatesTokenCount":3}`), finish}
	for what, answer := range map[string]struct{ contentType, text string }{
		"events":                  {"text/event-stream", "data: " + strings.Join(early, "\r\n\r\ndata: ") + "\r\n\r\n"},
		"a list":                  {"application/json; charset=UTF-8", "[" + strings.Join(early, "\n,\r\n") + "\n]\n"},
		"a list that is not over": {"application/json", "[" + strings.Join(early, ",")},
		"an object":               {"application/json", finish},
	} {
		m := watching(answer.contentType)
		out := string(m.Feed([]byte(answer.text))) + string(m.End())
		r := m.Report()
		if out != answer.text || r.Usage != want || !r.Complete || r.Finish != "STOP" {
			t.Errorf("%s: got %+v", what, r)
		}
		if what != "an object" && (r.Events != 4 || r.Counted != tokens.Count(len(`abcdeffn{"to": "x"}`))) {
			t.Errorf("%s: got %d events and %d bytes of text", what, r.Events, r.Counted)
		}
	}
}

func TestAListIsWholeOnceItIsClosedAndADocumentOnceItHasEnded(t *testing.T) {
	for text, want := range map[string]bool{
		"[]": true, "[" + part("a", "") + "]": true, "[" + part("a", "") + ",": false, "[" + part("a", ""): false, "[": false, "": false,
		"{}": true, part("a", ""): true, part("a", "")[:20]: false, `{"error":{"code":503}}`: false, `[{"error":{"code":503}}]`: false, "no JSON": false,
	} {
		m := watching("application/json")
		m.Feed([]byte(text))
		m.End()
		if r := m.Report(); r.Complete != want || r.Unreadable != (text == "no JSON") {
			t.Errorf("%q: got %+v, want complete %v", text, r, want)
		}
	}
}

func TestAStreamThatIsCutHasTheUsageThatItTold(t *testing.T) {
	for _, s := range []struct {
		what   string
		events []string
		want   tokens.Usage
		output bool
	}{
		{"nothing told", []string{part("abc", ``)}, tokens.Usage{}, false},
		{"the prompt told", []string{part("abc", `,"usageMetadata":{"promptTokenCount":7,"totalTokenCount":7}`)}, tokens.Usage{Input: 7}, false},
		{"of the output only the total told", []string{part("abc", `,"usageMetadata":{"promptTokenCount":7,"toolUsePromptTokenCount":2,"totalTokenCount":20}`)}, tokens.Usage{Input: 9, Output: 11}, true},
		{"thoughts told", []string{part("", `,"usageMetadata":{"promptTokenCount":7,"thoughtsTokenCount":9}`)}, tokens.Usage{Input: 7, Output: 9, Reasoning: 9}, true},
	} {
		m := watching("text/event-stream")
		m.Feed([]byte("data: " + strings.Join(s.events, "\n\ndata: ") + "\n\n"))
		m.End()
		if r := m.Report(); r.Usage != s.want || r.OutputKnown != s.output || r.Complete {
			t.Errorf("%s: got %+v, want %+v", s.what, r, s.want)
		}
	}
}
