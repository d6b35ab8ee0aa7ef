package estimate

import (
	"strings"
	"testing"

	"llmgw/internal/dialect"
	"llmgw/internal/tokens"
)

func TestSpeechCostsByTheTextThatIsSpoken(t *testing.T) {
	e := New(Config{})
	for _, s := range []struct {
		what, model, body string
		want              tokens.Count
	}{
		{"a word", "gpt-4o-mini-tts", `{"input":"Hello"}`, 30},
		{"an escaped one", "gpt-4o-mini-tts", `{"input":"Hell\u006f"}`, 30},
		{"of three bytes a character", "openai/gpt-4o-mini-tts-2025-12-15", `{"input":"預算"}`, 32},
		{"slowly", "gpt-4o-mini-tts", `{"input":"Hello","speed":0.5}`, 60},
		{"as slowly as can be", "gpt-4o-mini-tts", `{"speed":1e-9,"input":"Hello"}`, 120},
		{"fast", "gpt-4o-mini-tts", `{"input":"Hello","speed":4}`, 30},
		{"at no speed", "gpt-4o-mini-tts", `{"input":"Hello","speed":"fast"}`, 30},
		{"nothing", "gpt-4o-mini-tts", `{"input":""}`, 20},
		{"no text", "gpt-4o-mini-tts", `{}`, 20},
		{"by the character", "tts-1-hd", `{"input":"預算 ok"}`, 5},
		{"by another's rule", "kokoro", `{"input":"Hello"}`, 700},
		{"a model that listens", "gpt-4o-audio", `{"input":"Hello"}`, 700},
	} {
		c := call(t, dialect.Speech, s.body)
		if got := estimated(t, e, c, Rules{Model: s.model, DefaultMaxOutput: 700}).Output; got != s.want {
			t.Errorf("%s: got %d, want %d", s.what, got, s.want)
		}
	}
	long := call(t, dialect.Speech, `{"input":"`+strings.Repeat("word ", 1000)+`"}`)
	if got := estimated(t, e, long, Rules{Model: "gpt-4o-mini-tts", MaxOutput: 2000}).Output; got != 2000 {
		t.Errorf("with a maximum: got %d, want 2000", got)
	}
	broken := &dialect.Call{Members: []dialect.Member{{Key: "input", Value: dialect.Span{Start: 5, End: 90}}}}
	if got, ok := speechOutput("gpt-4o-mini-tts", broken); !ok || got != 20 {
		t.Errorf("a member that stands nowhere: got %d, %v", got, ok)
	}
}
