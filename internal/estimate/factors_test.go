package estimate

import (
	"math"
	"strings"
	"testing"

	"llmgw/internal/dialect"
	"llmgw/internal/tokens"

	"llmgw/internal/estimate/bpe"
)

// Tokens for one of o200k_base, as the models' public vocabularies give them.
func TestStartFactorsAreNearWhatVocabulariesGive(t *testing.T) {
	for _, s := range []struct {
		model string
		class int
		want  float64
		off   float64 // allowed, of want
	}{
		{"llama-3.1-8b", latin, 1.00, 0.05}, {"llama-3.1-8b", wide, 1.18, 0.05}, {"llama-3.1-8b", cjk, 0.99, 0.07}, {"llama-3.1-8b", digit, 1, 0},
		{"qwen-plus", latin, 1.01, 0.05}, {"qwen-plus", wide, 1.21, 0.05}, {"qwen-plus", cjk, 0.89, 0.05}, {"qwen-plus", digit, 3, 0.3},
		{"deepseek-coder", latin, 1.05, 0.05}, {"deepseek-coder", wide, 1.15, 0.05}, {"deepseek-coder", cjk, 0.86, 0.05}, {"deepseek-coder", digit, 1, 0},
		{"gemini-2.5-pro", latin, 1.1, 0.1}, {"gemini-2.5-pro", wide, 1.04, 0.05}, {"gemini-2.5-pro", cjk, 0.79, 0.15}, {"gemini-2.5-pro", digit, 3, 0.3},
		{"mistral-large", latin, 1.04, 0.05}, {"mistral-large", wide, 1.05, 0.1}, {"mistral-large", cjk, 1.14, 0.15}, {"mistral-large", digit, 3, 0.3},
		{"claude-sonnet-4-5", latin, 1.04 * 1.1, 0.1}, {"claude-sonnet-4-5", wide, 2.4 * 1.1, 0.1}, {"claude-sonnet-4-5", cjk, 1.3 * 1.1, 0.1},
		{"claude-opus-4-7", latin, 1.04 * 1.1 * 1.4, 0.1}, {"gpt-oss-20b", latin, 1, 0}, {"gpt-oss-20b", cjk, 1, 0},
		{"qwen3:8b", digit, 1, 0}, {"deepseek-chat", cjk, 1, 0}, {"mistral-nemo", wide, 1, 0}, // counted in their own tokens
	} {
		got := resolve(nil, Rules{Model: s.model}).factors[s.class]
		if math.Abs(got-s.want) > s.off*s.want+1e-9 {
			t.Errorf("%s, class %d: %.2f, want %.2f within %.0f %%", s.model, s.class, got, s.want, 100*s.off)
		}
	}
}

func TestPartsAddUpToTheInput(t *testing.T) {
	for _, model := range []string{"gpt-4o", "gpt-4.1-mini", "claude-opus-4-7", "gemini-3-pro", "some-model"} {
		for _, body := range turns(6) {
			body = strings.TrimSuffix(body, "]}") + `,{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + png(700, 700) + `"}},{"type":"input_audio","input_audio":{"format":"mp3","data":"` + bytesOf(30_000) + `"}}]}],"tools":[` + tool + `]}`
			got := estimated(t, New(Config{}), call(t, dialect.Chat, body), Rules{Model: model})
			p := got.Parts
			if sum := p.Text + p.Messages + p.Tools + p.Images + p.Media; p.Factor != 1 || sum != got.Input || p.Images == 0 || p.Media == 0 || p.Tools == 0 {
				t.Errorf("%s: %+v sum up to %d, the input is %d", model, p, sum, got.Input)
			}
		}
	}
}

func TestAFactorMultipliesTextAndNotMedia(t *testing.T) {
	p := Parts{Text: 100, Messages: 7, Tools: 10, Images: 85, Media: 20, Factor: 1.1}
	if got, want := p.input(), tokens.Count(129+105); got != want {
		t.Errorf("%d, want %d", got, want)
	}
	p.Text = tokens.MaxCount
	if got := p.input(); got != tokens.MaxCount {
		t.Errorf("%d, want the largest count", got)
	}
}

func TestScalesRoundUpAndStayInBounds(t *testing.T) {
	for _, s := range []struct {
		n      int
		factor float64
		want   tokens.Count
	}{
		{0, 1.5, 0}, {1, 1.5, 2}, {10, 1.1, 11}, {10, 1.11, 12}, {3, 1, 3}, {-5, 1, 0}, {5, math.Inf(1), tokens.MaxCount}, {5, math.NaN(), tokens.MaxCount}, {math.MaxInt, 2, tokens.MaxCount},
	} {
		if got := scale(s.n, s.factor); got != s.want {
			t.Errorf("%d × %v = %d, want %d", s.n, s.factor, got, s.want)
		}
	}
}

func TestWarmingUpKnowsItsNames(t *testing.T) {
	e := New(Config{})
	if err := e.Warm("r50k_base", "p50k_edit"); err != nil {
		t.Error(err)
	}
	if err := e.Warm("nonesuch"); err == nil {
		t.Error("an encoding that does not exist was built")
	}
	for _, name := range Encodings {
		if !bpe.Known(name) {
			t.Errorf("%s cannot be built", name)
		}
	}
}

func TestCharactersFallIntoClassesByTheirBlocks(t *testing.T) {
	for r, want := range map[rune]int{
		0xe9: latin, 0x24f: latin, 0x250: wide, 0x3b1: wide, 0x434: wide, 0x627: wide, 0xe01: wide, 0x1fff: wide, 0x2000: latin, 0x20ac: latin, 0x2e7f: latin,
		0x2e80: cjk, 0x3042: cjk, 0x4e00: cjk, 0xa4cf: cjk, 0xa4d0: wide, 0xabff: wide, 0xac00: cjk, 0xd7af: cjk, 0xd7b0: wide,
		0xf8ff: wide, 0xf900: cjk, 0xfaff: cjk, 0xfb00: wide, 0xfeff: wide, 0xff00: cjk, 0xffef: cjk, 0xfff0: wide,
		0x1f600: wide, 0x1ffff: wide, 0x20000: cjk, 0x3ffff: cjk, 0x40000: wide,
	} {
		if got := classOf(r); got != want {
			t.Errorf("%U: class %d, want %d", r, got, want)
		}
		var n tally
		n.classify([]byte("ab1" + string(r) + "23"))
		sum := 0
		for _, c := range n.bytes {
			sum += c
		}
		if sum != 5+len(string(r)) || n.bytes[digit] != 3 || n.bytes[want] < len(string(r)) {
			t.Errorf("%U among others: %v", r, n.bytes)
		}
	}
}
