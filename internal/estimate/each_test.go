package estimate

import (
	"fmt"
	"testing"

	"llmgw/internal/dialect"
	"llmgw/internal/tokens"
)

func TestEachTargetIsEstimatedAsIfItWereAlone(t *testing.T) {
	rules := []Rules{
		{Provider: "openai", Dialect: "openai", ProviderModel: "gpt-4o"},
		{Provider: "azure", Dialect: "azure", ProviderModel: "my-deployment"}, // the same encoding, but nobody can be sure
		{Provider: "azure-2", Dialect: "azure", ProviderModel: "my-deployment"},
		{Provider: "router", Dialect: "openai", Flavor: "openrouter", ProviderModel: "anthropic/claude-opus-4.7"},
		{Provider: "own", Dialect: "openai", Flavor: "vllm", ProviderModel: "qwen3-32b"},
		{Provider: "openai", Dialect: "openai", ProviderModel: "gpt-4o-mini"}, // another price for images
	}
	for _, text := range unlike {
		body := fmt.Sprintf(`{"messages":[{"role":"user","content":[{"type":"text","text":%q},{"type":"image_url","image_url":{"url":"data:image/png;base64,%s"}}]}],"tools":[%s]}`, text, png(600, 600), tool)
		c := call(t, dialect.Chat, body)
		e := New(Config{})
		teach(e, rules[2], c, 1.3)
		got, err := e.EstimateEach(c, rules)
		if err != nil {
			t.Fatal(err)
		}
		alone := New(Config{}) // with nothing remembered
		teach(alone, rules[2], c, 1.3)
		for i, r := range rules {
			if want := estimated(t, alone, c, r); got[i] != want {
				t.Errorf("%.20q at %s/%s: got %+v, want %+v", text, r.Provider, r.ProviderModel, got[i], want)
			}
		}
		if again, err := e.EstimateEach(c, rules[:2]); err != nil || again[0] != got[0] || again[1] != got[1] {
			t.Errorf("%.20q: another time it is %+v, want %+v", text, again, got[:2])
		}
	}
	if _, err := New(Config{}).EstimateEach(call(t, dialect.Chat, `{}`), []Rules{{}, {Encoding: "nonesuch"}}); err == nil {
		t.Error("an encoding that does not exist was counted in")
	}
}

// teach lets e learn that a model uses so much of what is estimated for text.
func teach(e *Estimator, r Rules, c *dialect.Call, ratio float64) {
	plain := &dialect.Call{Request: c.Request, Choices: 1}
	for range 20 {
		e.Observe(Observation{Rules: r, Call: plain, InputKnown: true,
			Estimate: Estimate{base: 1000, class: "latin"}, Used: tokens.Usage{Input: tokens.Count(1000 * ratio)}})
	}
}

func TestModelsThatCountAlikeAreReadOnce(t *testing.T) {
	for _, s := range []struct {
		a, b Rules
		want bool
	}{
		{Rules{ProviderModel: "gpt-4o"}, Rules{Dialect: "azure", ProviderModel: "my-deployment"}, true},
		{Rules{ProviderModel: "gpt-4o"}, Rules{ProviderModel: "gpt-4.1"}, true},
		{Rules{ProviderModel: "gpt-4o"}, Rules{ProviderModel: "gpt-4o-mini"}, false}, // images
		{Rules{ProviderModel: "gpt-4o"}, Rules{ProviderModel: "gpt-4"}, false},       // the encoding
		{Rules{ProviderModel: "gpt-4o"}, Rules{ProviderModel: "o3"}, false},          // the chat's format
		{Rules{ProviderModel: "llama-3.3-70b"}, Rules{ProviderModel: "gpt-4o"}, false},
		{Rules{ProviderModel: "meta-llama/Llama-3.3-70B"}, Rules{ProviderModel: "llama-3.1-8b"}, true},
	} {
		a, b := resolve(nil, s.a), resolve(nil, s.b)
		if got := a.countsLike(&b); got != s.want || b.countsLike(&a) != got {
			t.Errorf("%s and %s: %v, want %v", s.a.ProviderModel, s.b.ProviderModel, got, s.want)
		}
	}
}

func TestTheMostOutputIsWhatTheRequestAllowsWhateverWasLearned(t *testing.T) {
	e := New(Config{})
	rules := Rules{Model: "m", Team: "t", Learned: true, DefaultMaxOutput: 900, MaxOutput: 1000}
	c := call(t, dialect.Chat, `{"messages":[]}`)
	for range 100 {
		e.Observe(Observation{Rules: rules, Call: c, OutputKnown: true, Complete: true, Used: tokens.Usage{Output: 50}})
	}
	bounded := call(t, dialect.Chat, `{"messages":[]}`)
	bounded.HasMaxOutput, bounded.MaxOutput, bounded.Choices = true, 5000, 3
	for _, s := range []struct {
		what         string
		call         *dialect.Call
		most, output tokens.Count
	}{
		{"a request without a bound", c, 900, 51},
		{"three answers and too large a bound", bounded, 1000, 3 * 51},
		{"no output", &dialect.Call{NoOutput: true}, 0, 0},
	} {
		if got := estimated(t, e, s.call, rules); got.MaxOutput != s.most || got.Output != s.output {
			t.Errorf("%s: %d of %d, want %d of %d", s.what, got.Output, got.MaxOutput, s.output, s.most)
		}
	}
}
