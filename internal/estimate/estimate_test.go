package estimate

import (
	"encoding/json"
	"runtime"
	"testing"
	"time"

	"llmgw/internal/dialect"
	"llmgw/internal/tokens"
)

func TestWhatIsNotConfiguredHasItsDefault(t *testing.T) {
	want := Config{
		ExactBytes: 8 << 20, LargeBytes: 256 << 10, LargeAtOnce: max(1, runtime.GOMAXPROCS(0)/2), LargeWait: time.Second,
		CacheEntries: 16 << 10, LearnedModels: 4096,
	}
	if got := (Config{}).withDefaults(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := (Config{ExactBytes: -1, LargeBytes: -1, LargeAtOnce: -1, LargeWait: -1, CacheEntries: -1, LearnedModels: -1}).withDefaults(); got != want {
		t.Errorf("of negative ones: got %+v, want %+v", got, want)
	}
	own := Config{1, 2, 3, 4, 5, 6}
	if got := own.withDefaults(); got != own {
		t.Errorf("of its own: got %+v, want %+v", got, own)
	}
}

func TestTheMostOutputOfACall(t *testing.T) {
	for _, s := range []struct {
		what  string
		rules Rules
		call  dialect.Call
		want  tokens.Count
	}{
		{"nothing is said", Rules{}, dialect.Call{}, 4096},
		{"the rules have a default", Rules{DefaultMaxOutput: 10}, dialect.Call{}, 10},
		{"a default that is none", Rules{DefaultMaxOutput: -1}, dialect.Call{}, 4096},
		{"the request has a bound", Rules{DefaultMaxOutput: 10}, dialect.Call{HasMaxOutput: true, MaxOutput: 20}, 20},
		{"the request's bound is zero", Rules{DefaultMaxOutput: 10}, dialect.Call{HasMaxOutput: true}, 0},
		{"the request's bound is negative", Rules{DefaultMaxOutput: 10}, dialect.Call{HasMaxOutput: true, MaxOutput: -5}, 0},
		{"the model has less", Rules{MaxOutput: 15}, dialect.Call{HasMaxOutput: true, MaxOutput: 20}, 15},
		{"the model has more", Rules{MaxOutput: 25}, dialect.Call{HasMaxOutput: true, MaxOutput: 20}, 20},
		{"the model has less than the default", Rules{MaxOutput: 5, DefaultMaxOutput: 10}, dialect.Call{}, 5},
		{"there is no output", Rules{}, dialect.Call{NoOutput: true, HasMaxOutput: true, MaxOutput: 20}, 0},
		{"only requests count", Rules{}, dialect.Call{RequestsOnly: true, HasMaxOutput: true, MaxOutput: 20}, 0},
	} {
		for _, choices := range []tokens.Count{0, 1, 3} {
			c := s.call
			c.Choices = choices
			got := estimated(t, New(Config{}), &c, s.rules)
			if got.MaxOutput != s.want || got.Parts.Output != s.want || got.Output != s.want*max(1, choices) {
				t.Errorf("%s, %d choices: %d for one and %d for all, want %d for one", s.what, choices, got.MaxOutput, got.Output, s.want)
			}
		}
	}
}

func TestAnEstimateIsShownByItsParts(t *testing.T) {
	e := Estimate{Input: 5, Output: 6, MaxOutput: 9, Parts: Parts{Text: 1, Messages: 2, Tools: 3, Images: 4, Media: 5, Factor: 1.5, Output: 6}}
	for sampled, want := range map[bool]string{
		false: `{"input_tokens":5,"output_tokens":6,"total_tokens":11,"parts":{"text":1,"messages":2,"tools":3,"images":4,"media":5,"factor":1.5,"output":6}}`,
		true:  `{"input_tokens":5,"output_tokens":6,"total_tokens":11,"parts":{"text":1,"messages":2,"tools":3,"images":4,"media":5,"factor":1.5,"output":6},"sampled":true}`,
	} {
		e.Sampled = sampled
		if got, err := json.Marshal(e); err != nil || string(got) != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
	e.Input, e.Output = tokens.MaxCount, 1
	if got := e.Total(); got != tokens.MaxCount {
		t.Errorf("the sum of too much is %d, want the most", got)
	}
}

func TestWhatTeaches(t *testing.T) {
	for _, s := range []struct {
		what  string
		e     Estimate
		known bool
		want  bool // learned
	}{
		{"text", Estimate{base: 1000, class: "latin"}, true, true},
		{"an answer without usage", Estimate{base: 1000, class: "latin"}, false, false},
		{"samples", Estimate{base: 1000, Sampled: true}, true, false},
		{"what the body does not show", Estimate{base: 1000, hidden: true}, true, false},
		{"images", Estimate{base: 1000, Parts: Parts{Images: 1}}, true, false},
		{"sound", Estimate{base: 1000, Parts: Parts{Media: 1}}, true, false},
		{"a prompt of 49 tokens", Estimate{base: 49}, true, false},
		{"a prompt of 50 tokens", Estimate{base: 50}, true, true},
	} {
		e, rules := New(Config{}), Rules{Provider: "p", Model: "claude-x"}
		e.Observe(Observation{Rules: rules, Estimate: s.e, Used: tokens.Usage{Input: 2 * s.e.base}, InputKnown: s.known})
		if got := e.ratios.expect(ratioKey{"p", "claude-x", s.e.class, ""}) != 1; got != s.want {
			t.Errorf("%s: learned %v, want %v", s.what, got, s.want)
		}
	}
	e, exact := New(Config{}), Rules{Provider: "p", Model: "gpt-4o"}
	e.Observe(Observation{Rules: exact, Estimate: Estimate{base: 1000}, Used: tokens.Usage{Input: 2000}, InputKnown: true})
	if len(e.ratios.all) != 0 {
		t.Error("a model that is counted exactly was learned about")
	}
}

func TestWhatTeachesHowLongAnswersAre(t *testing.T) {
	rules := Rules{Team: "t", Model: "m"}
	three := &dialect.Call{Choices: 3}
	for _, s := range []struct {
		what string
		o    Observation
		want tokens.Count // what is then likely; 0: nothing was learned
	}{
		{"an answer", Observation{OutputKnown: true, Complete: true, Used: tokens.Usage{Output: 7}}, 7},
		{"three of them", Observation{Call: three, OutputKnown: true, Complete: true, Used: tokens.Usage{Output: 16}}, 6},
		{"three that are even", Observation{Call: three, OutputKnown: true, Complete: true, Used: tokens.Usage{Output: 15}}, 5},
		{"one that was cut", Observation{OutputKnown: true, Used: tokens.Usage{Output: 7}}, 0},
		{"one that told nothing", Observation{Complete: true, Used: tokens.Usage{Output: 7}}, 0},
	} {
		e := New(Config{})
		s.o.Rules = rules
		for range outputEnough {
			e.Observe(s.o)
		}
		if got, ok := e.outputs.likely(outputKey{"t", "m", 0}, outputEnough); got != s.want || ok != (s.want > 0) {
			t.Errorf("%s: %d %v, want %d", s.what, got, ok, s.want)
		}
	}
}
