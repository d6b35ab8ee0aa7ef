package estimate

import (
	"fmt"
	"strings"
	"testing"

	"llmgw/internal/dialect"
	"llmgw/internal/estimate/bpe"
	"llmgw/internal/tokens"
)

// Texts on which a factor of o200k_base's count is furthest off.
var unlike = map[string]string{
	"digits":   strings.Repeat("3141592653589793 ", 40),
	"logs":     strings.Repeat("2026-11-30T00:41:07.123Z 10.0.12.7 GET /v1/items/48151623 200 42ms\n", 20),
	"Chinese":  strings.Repeat("每个团队都有自己的预算，系统每秒钟自动补充一次。", 20),
	"Japanese": strings.Repeat("リクエストが届くと、まず費用を見積もります。", 20),
	"Russian":  strings.Repeat("Каждый запрос сначала оценивается, а потом отправляется. ", 20),
}

func TestTextOfModelsWithPublicVocabulariesIsCountedExactly(t *testing.T) {
	e := New(Config{})
	for model, encoding := range map[string]string{"qwen3-32b": "qwen3", "deepseek-chat": "deepseek_v3", "open-mistral-nemo": "tekken"} {
		enc, err := bpe.Get(encoding)
		if err != nil {
			t.Fatal(err)
		}
		for what, text := range unlike {
			want := tokens.Count(enc.Count([]byte(text)))
			got := estimated(t, e, call(t, dialect.Chat, fmt.Sprintf(`{"messages":[{"role":"user","content":%q}]}`, text)), Rules{Model: model})
			if got.Parts.Text != want || got.Parts.Factor != 1 {
				t.Errorf("%s, %s: %d tokens × %v, want %d", model, what, got.Parts.Text, got.Parts.Factor, want)
			}
			if n := e.Counter(Rules{Model: model})([]byte(text)); n != want {
				t.Errorf("%s, an answer in %s: %d tokens, want %d", model, what, n, want)
			}
		}
	}
}

func TestWhatIsAroundExactTextIsLearned(t *testing.T) {
	e := New(Config{})
	rules := Rules{Provider: "p", Model: "qwen3-32b"}
	c := call(t, dialect.Chat, fmt.Sprintf(`{"messages":[{"role":"user","content":%q}]}`, long))
	first := estimated(t, e, c, rules)
	for range 60 { // the provider adds a system prompt of its own
		got := estimated(t, e, c, rules)
		e.Observe(Observation{Rules: rules, Estimate: got, Call: c, Used: tokens.Usage{Input: first.Input + first.Input/10}, InputKnown: true})
	}
	if got, want := estimated(t, e, c, rules), first.Input+first.Input/10; got.Input < want || got.Input > want+want/50 {
		t.Errorf("%d tokens, want about %d", got.Input, want)
	}
}
