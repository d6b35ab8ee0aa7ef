package charge

import (
	"testing"

	"llmgw/internal/dialect"
	"llmgw/internal/estimate"
	"llmgw/internal/tenant"
	"llmgw/internal/tokens"
	"llmgw/internal/upstream"
)

// digitsCall is a call whose prompt is 39 digits: 13 tokens of OpenAI's, 39 of Qwen's.
func digitsCall() *dialect.Call {
	c := &dialect.Call{Request: dialect.Request{Body: []byte(`{"prompt":"314159265358979323846264338327950288419"}`)}, Dialect: "openai", Model: "pi", Choices: 1}
	c.Endpoint.Operation = dialect.Completion
	return c
}

func TestACallIsEstimatedForEachTargetAndTheMostIsReserved(t *testing.T) {
	one := &upstream.Provider{Name: "one", Dialect: "openai"}
	own := &upstream.Provider{Name: "own", Dialect: "openai", Flavor: "vllm"}
	gpt, qwen := upstream.Target{Provider: one, Model: "gpt-4o"}, upstream.Target{Provider: own, Model: "qwen3-8b"}
	for _, s := range []struct {
		what     string
		targets  []upstream.Target
		answers  upstream.Target
		reserved tokens.Count
		expected tokens.Count
	}{
		{"one target", []upstream.Target{gpt}, gpt, 13, 13},
		{"the other", []upstream.Target{qwen}, qwen, 39, 39},
		{"the first of two answers", []upstream.Target{gpt, qwen}, gpt, 39, 13},
		{"the second", []upstream.Target{gpt, qwen}, qwen, 39, 39},
		{"the largest comes first", []upstream.Target{qwen, gpt}, gpt, 39, 13},
		{"none answers that is known: the first is expected to", []upstream.Target{gpt, qwen}, upstream.Target{}, 39, 13},
	} {
		p := &Plan{Caller: Caller{Team: &tenant.Team{Name: "t"}}, Call: digitsCall(), Model: &Model{Name: "pi"}, Targets: s.targets}
		if err := p.EstimateBy(estimate.New(estimate.Config{})); err != nil {
			t.Fatal(err)
		}
		p.AnsweredBy(s.answers)
		if p.Estimate.Input != s.reserved || p.Expected().Input != s.expected {
			t.Errorf("%s: %d are reserved and %d expected, want %d and %d", s.what, p.Estimate.Input, p.Expected().Input, s.reserved, s.expected)
		}
		if got := p.Metered(Completed, 200, dialect.Report{Usage: tokens.Usage{Output: 1}, OutputKnown: true, Complete: true}).Usage.Input; got != s.expected {
			t.Errorf("%s: an answer without usage is charged %d tokens of input, want %d", s.what, got, s.expected)
		}
	}
}

func TestRulesAreOfTheModelTheTeamAndTheTarget(t *testing.T) {
	m := &Model{Rules: estimate.Rules{Encoding: "o200k_base", DefaultMaxOutput: 7, MaxOutput: 9, Learned: true}}
	target := upstream.Target{Provider: &upstream.Provider{Name: "p", Dialect: "openai", Flavor: "groq"}, Model: "x"}
	p := &Plan{Caller: Caller{Team: &tenant.Team{Name: "t"}}, Model: m}
	want := estimate.Rules{Provider: "p", ProviderModel: "x", Dialect: "openai", Flavor: "groq", Encoding: "o200k_base", DefaultMaxOutput: 7, MaxOutput: 9, Learned: true, Team: "t"}
	if got := p.RulesFor(target); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if m.Rules.Team != "" || m.Rules.Provider != "" {
		t.Errorf("the model's own rules have changed: %+v", m.Rules)
	}
	if got := p.Counters(estimate.New(estimate.Config{}))(target)([]byte("hello")); got != 1 {
		t.Errorf("an answer has %d tokens, want 1", got)
	}
}

func TestAModelSaysWhatACallWouldReserve(t *testing.T) {
	claude := upstream.Target{Provider: &upstream.Provider{Name: "c", Dialect: "anthropic"}}
	gpt := upstream.Target{Provider: &upstream.Provider{Name: "o", Dialect: "azure"}, Model: "gpt-4o"}
	got, err := (&Model{Targets: []upstream.Target{claude, gpt}}).Estimate(estimate.New(estimate.Config{}), digitsCall())
	if err != nil || got.Input != 13 {
		t.Errorf("%d, %v: want the 13 of the target that speaks the call's dialect", got.Input, err)
	}
	if _, err := (&Model{Targets: []upstream.Target{claude}}).Estimate(estimate.New(estimate.Config{}), digitsCall()); err == nil {
		t.Error("a model that no target of serves the call was estimated")
	}
	if _, err := (&Model{Targets: []upstream.Target{gpt}, Rules: estimate.Rules{Encoding: "nonesuch"}}).Estimate(estimate.New(estimate.Config{}), digitsCall()); err == nil {
		t.Error("an encoding that does not exist was counted in")
	}
}

// pictureCall is a call for a picture of low quality: 272 tokens of gpt-image-1,
// and of a model without a rule what is reserved by default.
func pictureCall() *dialect.Call {
	c := &dialect.Call{Dialect: "openai", Model: "paint", Choices: 1, Picture: dialect.Picture{Size: "1024x1024", Quality: "low"}}
	c.Body = []byte(`{"prompt":"314159265358979323846264338327950288419","size":"1024x1024","quality":"low"}`)
	c.Endpoint.Operation = dialect.Images
	return c
}

func TestTheMostOutputOfAnyTargetIsReserved(t *testing.T) {
	one := &upstream.Provider{Name: "one", Dialect: "openai"}
	ruled, unruled := upstream.Target{Provider: one, Model: "gpt-image-1"}, upstream.Target{Provider: one, Model: "qwen-image"}
	for _, s := range []struct {
		what    string
		targets []upstream.Target
		answers upstream.Target
		charged tokens.Count
	}{
		{"the one with a rule answers", []upstream.Target{ruled, unruled}, ruled, 272},
		{"the one without answers", []upstream.Target{unruled, ruled}, unruled, 4096},
	} {
		p := &Plan{Caller: Caller{Team: &tenant.Team{Name: "t"}}, Call: pictureCall(), Model: &Model{Name: "paint"}, Targets: s.targets}
		if err := p.EstimateBy(estimate.New(estimate.Config{})); err != nil {
			t.Fatal(err)
		}
		if e := p.Estimate; e.Output != 4096 || e.MaxOutput != 4096 || e.Parts.Output != 4096 {
			t.Errorf("%s: %d tokens of output are reserved (%d for each, %d shown), want 4096", s.what, e.Output, e.MaxOutput, e.Parts.Output)
		}
		p.AnsweredBy(s.answers)
		if got := p.Metered(Completed, 200, dialect.Report{Complete: true}).Usage.Output; got != s.charged {
			t.Errorf("%s: an answer without usage is charged %d tokens of output, want %d", s.what, got, s.charged)
		}
	}
}

func TestTheMostIsOfInputAndOfOutput(t *testing.T) {
	reads := estimate.Estimate{Input: 30, Output: 5, MaxOutput: 5, Parts: estimate.Parts{Text: 30, Output: 5}}
	writes := estimate.Estimate{Input: 10, Output: 50, MaxOutput: 60, Parts: estimate.Parts{Text: 10, Output: 50}}
	want := estimate.Estimate{Input: 30, Output: 50, MaxOutput: 60, Parts: estimate.Parts{Text: 30, Output: 50}}
	for _, each := range [][]estimate.Estimate{{reads, writes}, {writes, reads}} {
		if got := most(each); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}
