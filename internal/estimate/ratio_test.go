package estimate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"llmgw/internal/dialect"
	"llmgw/internal/tokens"
)

// prompts are chats of different lengths and kinds of text.
func prompts(t testing.TB, r *rand.Rand, n int) []*dialect.Call {
	t.Helper()
	var all []*dialect.Call
	for range n {
		text := ""
		for len(text) < 400+r.IntN(6000) {
			switch r.IntN(12) {
			case 0:
				text += fmt.Sprintf("Record %d of %d. ", r.IntN(1e6), r.IntN(1e6))
			default:
				text += []string{"The cost of a request is not known before it ends. ", "func add(a, b int) int { return a + b } ", "Please shorten this paragraph, and keep its tone. "}[r.IntN(3)]
			}
		}
		all = append(all, call(t, dialect.Chat, fmt.Sprintf(`{"messages":[{"role":"user","content":%q}]}`, text)))
	}
	return all
}

func TestRatiosAreLearnedWithinFiftyAnswers(t *testing.T) {
	for _, s := range []struct {
		model string
		truth float64 // tokens of the provider for one of ours
		noise float64
	}{
		{"claude-opus-4-7", 1.35, 0.02}, {"gemini-2.5-pro", 1.02, 0.03}, {"some-new-model", 2.1, 0.01}, {"llama-3.3-70b", 1.03, 0.0}, {"qwen3", 0.8, 0.02},
	} {
		r := rand.New(rand.NewPCG(uint64(len(s.model)), 9))
		e := New(Config{})
		rules := Rules{Provider: "p", Model: s.model, Dialect: "openai", Flavor: "vllm"}
		var errors []float64
		over, asked := 0, 0
		for i, c := range prompts(t, r, 1000) {
			got := estimated(t, e, c, rules)
			used := tokens.Count(math.Round(float64(got.base) * s.truth * (1 + s.noise*r.NormFloat64())))
			if i >= 50 {
				asked++
				expected := float64(got.base) * e.ratios.expect(ratioKey{"p", s.model, got.class, ""})
				errors = append(errors, math.Abs(expected-float64(used))/float64(used))
				if used > got.Input {
					over++
				}
				if float64(got.Input) > float64(used)*(1.03+8*s.noise) {
					t.Fatalf("%s: reserved %d for %d", s.model, got.Input, used)
				}
			}
			e.Observe(Observation{Rules: rules, Estimate: got, Call: c, Used: tokens.Usage{Input: used}, InputKnown: true})
		}
		slices.Sort(errors)
		if median := errors[len(errors)/2]; median >= 0.05 {
			t.Errorf("%s: median error %.1f %%, want < 5 %%", s.model, 100*median)
		}
		if over*50 >= asked {
			t.Errorf("%s: %d of %d used more than was reserved, want < 2 %%", s.model, over, asked)
		}
	}
}

func TestFewAnswersUseMoreThanWasReservedWhateverTheErrorsAreLike(t *testing.T) {
	const first, after = 50, 1000
	for what, s := range map[string]struct {
		seen  func(r *rand.Rand, i int) float64
		least float64 // what surely must be reserved
		most  float64 // on average
	}{
		"small, both ways": {func(r *rand.Rand, _ int) float64 { return 1.3 * (1 + 0.01*r.NormFloat64()) }, 1.3, 1.36},
		"large, both ways": {func(r *rand.Rand, _ int) float64 { return 1.3 * math.Exp(0.1*r.NormFloat64()) }, 1.4, 1.8},
		"none is likelier": {func(r *rand.Rand, _ int) float64 { return 0.8 + 0.4*r.Float64() }, 1.1, 1.5},
		"one of twenty, upward": {func(r *rand.Rand, _ int) float64 {
			if r.IntN(20) == 0 {
				return 1.25
			}
			return 1 + 0.02*r.NormFloat64()
		}, 1.1, 1.5},
		"a long tail":                 {func(r *rand.Rand, _ int) float64 { return 1 + 0.05*r.ExpFloat64() }, 1.1, 1.5},
		"a model that slowly changes": {func(r *rand.Rand, i int) float64 { return 1 + float64(i)/2000 + 0.02*r.NormFloat64() }, 1, 1.6},
	} {
		r := rand.New(rand.NewPCG(4, uint64(len(what))))
		var known ratio
		over, reserved := 0, 0.0
		for i := range first + after {
			seen := s.seen(r, i)
			if i >= first {
				reserved += known.reserve() / after
				if seen > known.reserve() {
					over++
				}
			}
			known = known.next(seen, 1000)
		}
		if over*50 >= after {
			t.Errorf("%s: %d of %d answers used more than was reserved, want < 2 %%", what, over, after)
		}
		if reserved < s.least || reserved > s.most {
			t.Errorf("%s: %.2f times the estimate is reserved on average, want %.2f to %.2f", what, reserved, s.least, s.most)
		}
	}
}

func TestTheMarginGrowsWithEachAnswerAboveItAndShrinksSlowly(t *testing.T) {
	var r ratio
	for _, seen := range []float64{1, 1.1, 1, 1.1} {
		r = r.next(seen, 1000)
	}
	if want := spreadFirst - 2*spreadDown; math.Abs(r.spread-want) > 1e-9 {
		t.Fatalf("after two answers within the reserve the spread is %v, want %v", r.spread, want)
	}
	before := r.spread
	if r = r.next(2, 1000); math.Abs(r.spread-(before+spreadUp-spreadDown)) > 1e-9 {
		t.Errorf("an answer above the reserve brings it from %v to %v, want one more", before, r.spread)
	}
	for range 1000 {
		r = r.next(r.mean, 1000)
	}
	if r.spread != spreadLeast {
		t.Errorf("it shrinks to %v, want %v", r.spread, spreadLeast)
	}
	for i := range 30 {
		r = r.next([]float64{ratioLeast, ratioMost}[i%2], 1000)
		r = r.next(ratioMost, 1000)
	}
	if r.spread > spreadMost {
		t.Errorf("it grows to %v, want %v at most", r.spread, spreadMost)
	}
	if r = (ratio{mean: 1.2, deviation: 3, spread: 3}); r.reserve() != 2.4 {
		t.Errorf("%v is reserved, want twice the mean at most", r.reserve())
	}
}

func TestWhatTeachesNothing(t *testing.T) {
	big := Estimate{Input: 1000, base: 1000, Parts: Parts{Text: 1000, Factor: 1}}
	used := tokens.Usage{Input: 3000}
	with := func(change func(*Observation)) Observation {
		o := Observation{Rules: Rules{Provider: "p", Model: "some-model", Flavor: "vllm"}, Estimate: big, Used: used, InputKnown: true}
		change(&o)
		return o
	}
	for what, o := range map[string]Observation{
		"a model that is counted exactly": with(func(o *Observation) { o.Rules.Model = "gpt-4o" }),
		"usage that is not known":         with(func(o *Observation) { o.InputKnown = false }),
		"an image":                        with(func(o *Observation) { o.Estimate.Parts.Images = 85 }),
		"sound":                           with(func(o *Observation) { o.Estimate.Parts.Media = 10 }),
		"a tiny prompt":                   with(func(o *Observation) { o.Estimate.base = tinyPrompt - 1 }),
		"no usage":                        with(func(o *Observation) { o.Used.Input = 0 }),
		"a sample":                        with(func(o *Observation) { o.Estimate.Sampled = true }),
		"context that nobody saw":         with(func(o *Observation) { o.Estimate.hidden = true }),
	} {
		e := New(Config{})
		e.Observe(o)
		if len(e.ratios.all) != 0 {
			t.Errorf("%s: learned %v", what, e.ratios.all)
		}
	}
	e := New(Config{})
	e.Observe(with(func(*Observation) {}))
	if got := e.ratios.expect(ratioKey{"p", "some-model", "", ""}); got != 3 {
		t.Errorf("an ordinary answer teaches %v, want 3", got)
	}
}

func TestContextOfTheProvidersOwnIsNoticed(t *testing.T) {
	for body, want := range map[string]bool{
		`{"input":"x"}`: false, `{"input":"x","previous_response_id":null}`: false, `{"input":"x","previous_response_id":"resp_1"}`: true,
		`{"input":"x","conversation":"conv_1"}`: true, `{"prompt":{"id":"pmpt_1"}}`: true, `{"contents":[],"cachedContent":"cachedContents/1"}`: true,
		`{"generateContentRequest":{"cachedContent":"cachedContents/1"}}`: true,
	} {
		if got := estimated(t, New(Config{}), call(t, dialect.Responses, body), Rules{Model: "some-model"}); got.hidden != want {
			t.Errorf("%s: %v, want %v", body, got.hidden, want)
		}
	}
}

func TestOneAbsurdAnswerIsHeldWithinBounds(t *testing.T) {
	r := ratio{}
	for range 20 {
		r = r.next(1, 1000)
	}
	for _, seen := range []float64{1e9, 0, math.Inf(1)} {
		if got := r.next(seen, 1000); got.mean < 0.9 || got.mean > 1.3 {
			t.Errorf("after %v: %v", seen, got.mean)
		}
	}
}

func TestARatioFollowsAModelThatChanges(t *testing.T) {
	r := ratio{}
	for range 200 {
		r = r.next(1, 1000)
	}
	for range 60 {
		r = r.next(1.4, 1000)
	}
	if r.mean < 1.39 {
		t.Errorf("after 60 answers at 1.4: %v", r.mean)
	}
}

func TestShortPromptsTeachLess(t *testing.T) {
	short, full := ratio{}, ratio{}
	for range 20 {
		short, full = short.next(1, 1000), full.next(1, 1000)
	}
	if short, full = short.next(2, 60), full.next(2, 1000); short.mean >= full.mean {
		t.Errorf("a short prompt teaches %v, a long one %v", short.mean, full.mean)
	}
}

func TestClassesOfTextAreLearnedApart(t *testing.T) {
	e := New(Config{})
	rules := Rules{Provider: "p", Model: "some-model", Flavor: "vllm"}
	english := call(t, dialect.Chat, `{"messages":[{"role":"user","content":"`+long+`"}]}`)
	chinese := call(t, dialect.Chat, `{"messages":[{"role":"user","content":"`+strings.Repeat("預算是一個承諾，必須有人遵守。", 30)+`"}]}`)
	truth := map[*dialect.Call]float64{english: 1.2, chinese: 0.7}
	for range 40 {
		for c, ratio := range truth {
			got := estimated(t, e, c, rules)
			e.Observe(Observation{Rules: rules, Estimate: got, Used: tokens.Usage{Input: tokens.Count(float64(got.base) * ratio)}, InputKnown: true})
		}
	}
	for c, ratio := range truth {
		got := estimated(t, e, c, rules)
		used := float64(got.base) * ratio
		if float64(got.Input) < used-1 || float64(got.Input) > used*1.02+1 {
			t.Errorf("%s: %d reserved, %.0f are used", got.class, got.Input, used)
		}
	}
}

func TestAClassThatIsNewIsSpokenForByAll(t *testing.T) {
	r := newRatios(10)
	for range 5 {
		r.observe(ratioKey{"p", "m", "latin", ""}, 1000, 1500)
	}
	r.observe(ratioKey{"p", "m", "cjk", ""}, 1000, 1500)
	for _, class := range []string{"cjk", "wide", ""} {
		if got := r.expect(ratioKey{"p", "m", class, ""}); got != 1.5 {
			t.Errorf("%q: %v, want 1.5", class, got)
		}
	}
}

func TestTextsBelongToTheRarestClassThatMakesUpAThird(t *testing.T) {
	for text, want := range map[string]string{
		"": "latin", "plain words": "latin", "12345 abc": "digit", "слово word": "wide", "漢字 and words": "cjk", "one 漢 among many words": "latin",
	} {
		var n tally
		n.classify([]byte(text))
		if got := dominant(n.bytes); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestRatiosAreBounded(t *testing.T) {
	r := newRatios(10)
	for range 3 {
		r.observe(ratioKey{"p", "kept", "", ""}, 100, 200)
	}
	for i := range 100 {
		r.observe(ratioKey{"p", fmt.Sprint(i), "", ""}, 100, 200)
	}
	if len(r.all) != 10 || r.expect(ratioKey{"p", "kept", "", ""}) != 2 {
		t.Errorf("%d models, want 10 with the one of most answers", len(r.all))
	}
}

func TestTheCounterUsesWhatWasLearned(t *testing.T) {
	e := New(Config{})
	rules := Rules{Provider: "p", Model: "some-model", Flavor: "vllm"}
	before := e.Counter(rules)([]byte(long))
	e.Observe(Observation{Rules: rules, Estimate: Estimate{base: 1000}, Used: tokens.Usage{Input: 2000}, InputKnown: true})
	if after := e.Counter(rules)([]byte(long)); after != 2*before && after != 2*before-1 {
		t.Errorf("%d tokens, want twice %d", after, before)
	}
	if got := e.Counter(Rules{Model: "gpt-4o"})([]byte("hello world")); got != 2 {
		t.Errorf("%d tokens, want 2", got)
	}
	if got := e.Counter(rules)(nil); got != 0 {
		t.Errorf("nothing has %d tokens", got)
	}
	if got := e.Counter(Rules{Encoding: "none"})([]byte("12345678")); got != 2 {
		t.Errorf("%d tokens in an unknown encoding, want a quarter of the bytes", got)
	}
}

func TestAClassSpeaksForItselfAfterTenAnswers(t *testing.T) {
	r := newRatios(100)
	k := ratioKey{"p", "m", "cjk", ""}
	for range 50 {
		r.observe(ratioKey{"p", "m", "latin", ""}, 1000, 1000)
	}
	for range 9 {
		r.observe(k, 1000, 2000)
	}
	if got := r.expect(k); got > 1.9 || got < 1.01 {
		t.Errorf("after nine answers: %v, want that of all texts", got)
	}
	r.observe(k, 1000, 2000)
	if got := r.expect(k); got != 2 {
		t.Errorf("after ten: %v, want its own 2", got)
	}
}

func TestTheClassThatDominatesIsTheRarestWithAThird(t *testing.T) {
	for _, s := range []struct {
		bytes [classes]int
		want  string
	}{
		{[classes]int{latin: 100}, "latin"}, {[classes]int{}, "latin"},
		{[classes]int{latin: 60, digit: 30}, "latin"}, {[classes]int{latin: 59, digit: 30}, "digit"},
		{[classes]int{latin: 60, wide: 30}, "latin"}, {[classes]int{latin: 59, wide: 30}, "wide"},
		{[classes]int{latin: 60, cjk: 30}, "latin"}, {[classes]int{latin: 59, cjk: 30}, "cjk"},
		{[classes]int{digit: 40, wide: 40, cjk: 20}, "wide"}, {[classes]int{digit: 40, wide: 40, cjk: 41}, "cjk"},
	} {
		if got := dominant(s.bytes); got != s.want {
			t.Errorf("%v: %s, want %s", s.bytes, got, s.want)
		}
	}
}

func TestARatioIsThePlainMeanAtFirstAndThenMovesSlowly(t *testing.T) {
	var r ratio
	for i, seen := range []float64{1, 2, 3} {
		r = r.next(seen, 1000)
		if want := float64(i+2) / 2; r.mean != want {
			t.Errorf("after %v: the mean is %v, want %v", seen, r.mean, want)
		}
	}
	// The errors were none, 1 and 1.5: the first prediction had nothing to go by.
	if want := (1.0/2)*(2.0/3) + 1.5/3; math.Abs(r.deviation-want) > 1e-9 {
		t.Errorf("the mean error is %v, want %v", r.deviation, want)
	}
	for range 200 {
		r = r.next(2, 1000)
	}
	before := r
	r = r.next(3, 1000)
	if got, want := r.mean-before.mean, ratioRate*(3-before.mean); math.Abs(got-want) > 1e-9 {
		t.Errorf("the mean moved by %v, want %v", got, want)
	}
	if got, want := r.deviation, before.deviation+spreadRate*(3-before.mean-before.deviation); math.Abs(got-want) > 1e-9 {
		t.Errorf("the mean error is %v, want %v", got, want)
	}
	half := before.next(3, fullPrompt/2)
	if got, want := half.mean-before.mean, ratioRate/2*(3-before.mean); math.Abs(got-want) > 1e-9 {
		t.Errorf("a small prompt moved the mean by %v, want %v", got, want)
	}
	if got := (ratio{}).next(100, 1000).mean; got != ratioMost {
		t.Errorf("an absurd answer counts as %v, want %v", got, ratioMost)
	}
	if got := (ratio{}).next(0.001, 1000).mean; got != ratioLeast {
		t.Errorf("a tiny one as %v, want %v", got, ratioLeast)
	}
}

func TestTheFewestAnswersMakeRoom(t *testing.T) {
	all := map[string]int64{"a": 3, "b": 1, "c": 2}
	forgetFewest(all, func(n int64) int64 { return n })
	if _, left := all["b"]; left || len(all) != 2 {
		t.Errorf("left are %v, want a and c", all)
	}
}

func TestOneTeamMovesAnotherOnlyWithinBounds(t *testing.T) {
	const answers = 500
	for _, s := range []struct {
		what        string
		seen        tokens.Count // by the other team, for 1000
		least, most float64
	}{
		{"far more than was estimated", 1_000_000, 1, 1.5},
		{"far less", 1, 0.75, 1},
		{"a little more", 1300, 1.1, 1.2},
	} {
		r := newRatios(100)
		mine, theirs := ratioKey{"p", "m", "latin", "mine"}, ratioKey{"p", "m", "latin", "theirs"}
		for range answers {
			r.observe(theirs, 1000, s.seen)
		}
		if got := r.reserve(mine); got < s.least || got > s.most {
			t.Errorf("%s: a new team reserves %.2f times the estimate, want %.2f to %.2f", s.what, got, s.least, s.most)
		}
		for range teamKnown {
			r.observe(mine, 1000, 1200)
		}
		for range answers {
			r.observe(theirs, 1000, s.seen)
		}
		if got := r.expect(mine); math.Abs(got-1.2) > 1e-9 {
			t.Errorf("%s: a team with answers of its own expects %.3f, want 1.2", s.what, got)
		}
	}
}

func TestANewTeamLearnsFromMany(t *testing.T) {
	r := newRatios(100)
	for i := range 10 {
		for range 20 {
			r.observe(ratioKey{"p", "m", "latin", fmt.Sprint(i)}, 1000, 1350)
		}
	}
	if got := r.expect(ratioKey{"p", "m", "latin", "new"}); got < 1.3 || got > 1.35 {
		t.Errorf("got %.3f, want nearly what all others have, 1.35", got)
	}
	for range 50 { // a team that lies
		r.observe(ratioKey{"p", "m", "latin", "liar"}, 1000, 100_000)
	}
	if got := r.expect(ratioKey{"p", "m", "latin", "new"}); got > 1.4 {
		t.Errorf("one of eleven teams brings it to %.3f", got)
	}
}

func TestWhatTeamsShareIsTheSumOfWhatEachHasLearned(t *testing.T) {
	r := newRatios(8)
	random := rand.New(rand.NewPCG(7, 7))
	for range 2000 { // more keys than there is room for
		k := ratioKey{"p", fmt.Sprint(random.IntN(2)), []string{"latin", "cjk"}[random.IntN(2)], fmt.Sprint(random.IntN(5))}
		r.observe(k, 1000, tokens.Count(300+random.IntN(4000)))
	}
	want := map[ratioKey]shared{}
	for k, v := range r.all {
		k.team = ""
		want[k] = shared{want[k].sum + v.pull(), want[k].teams + 1}
	}
	if len(r.all) != 8 || len(r.shared) != len(want) {
		t.Fatalf("%d keys, %d shared, want 8 and %d", len(r.all), len(r.shared), len(want))
	}
	for k, w := range want {
		if got := r.shared[k]; got.teams != w.teams || math.Abs(got.sum-w.sum) > 1e-6 {
			t.Errorf("%v: got %v, want %v", k, got, w)
		}
	}
}
