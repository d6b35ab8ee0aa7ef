package estimate

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"llmgw/internal/dialect"
	"llmgw/internal/tokens"
)

var learnedRules = Rules{Model: "gpt-4o", Team: "search", Learned: true, DefaultMaxOutput: 4096, MaxOutput: 8192}

func answer(e *Estimator, n, choices tokens.Count) {
	e.Observe(Observation{
		Rules: learnedRules, Call: &dialect.Call{Choices: choices}, Used: tokens.Usage{Output: n},
		OutputKnown: true, Complete: true,
	})
}

func TestOutputIsLearnedForATeamAndAModel(t *testing.T) {
	e := New(Config{})
	body := call(t, dialect.Chat, `{"messages":[]}`)
	body.HasMaxOutput, body.MaxOutput = true, 4096
	reserve := func(rules Rules) tokens.Count { return estimated(t, e, body, rules).Output }
	for i := range outputEnough {
		if got := reserve(learnedRules); got != 4096 {
			t.Fatalf("after %d answers %d are reserved, want the most", i, got)
		}
		answer(e, 100, 1)
	}
	if got := reserve(learnedRules); got < 100 || got > 110 {
		t.Errorf("%d are reserved for answers of 100", got)
	}
	body.Choices = 3
	if got := reserve(learnedRules); got < 300 || got > 330 {
		t.Errorf("%d are reserved for three answers of 100", got)
	}
	body.Choices, body.MaxOutput = 1, 50
	if got := reserve(learnedRules); got != 50 {
		t.Errorf("%d are reserved where the request allows 50", got)
	}
	body.MaxOutput = 4096
	for what, change := range map[string]func(*Rules){
		"another team":         func(r *Rules) { r.Team = "other" },
		"another model":        func(r *Rules) { r.Model = "gpt-4" },
		"reserve_output: most": func(r *Rules) { r.Learned = false },
	} {
		rules := learnedRules
		change(&rules)
		if got := reserve(rules); got != 4096 {
			t.Errorf("%s: %d are reserved, want the most", what, got)
		}
	}
}

func TestOutputOfSeveralChoicesIsSharedAmongThem(t *testing.T) {
	e := New(Config{})
	for range 50 {
		answer(e, 300, 3)
	}
	if got, ok := e.outputs.likely(outputKey{"search", "gpt-4o", 0}, outputEnough); !ok || got < 100 || got > 110 {
		t.Errorf("%d, want about 100", got)
	}
}

func TestWhatWasCutShortSaysNothingOfOutput(t *testing.T) {
	e := New(Config{})
	for range 100 {
		e.Observe(Observation{Rules: learnedRules, Used: tokens.Usage{Output: 1}, OutputKnown: true})
	}
	if _, ok := e.outputs.likely(outputKey{"search", "gpt-4o", 0}, outputEnough); ok {
		t.Error("learned from answers that were not complete")
	}
}

func TestTheReserveCoversAllButOneAnswerOfAHundred(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	e := New(Config{})
	more, asked := 0, 0
	for i := range 5000 {
		n := tokens.Count(50 + r.ExpFloat64()*200)
		if reserve, ok := e.outputs.likely(outputKey{"search", "gpt-4o", 0}, outputEnough); ok && i > 500 {
			asked++
			if n > reserve {
				more++
			}
		}
		answer(e, n, 1)
	}
	if more*100 > asked*3/2 {
		t.Errorf("%d of %d answers are longer than was reserved, want 1 %%", more, asked)
	}
}

// With answers of 100 tokens where 4,096 are allowed, a budget of 100,000 for
// what is in flight at once holds 24 requests, or nearly a thousand.
func TestALearnedReserveUsesABudgetNearlyWhole(t *testing.T) {
	e := New(Config{})
	for range 200 {
		answer(e, 100, 1)
	}
	body := call(t, dialect.Chat, `{"messages":[]}`)
	body.HasMaxOutput, body.MaxOutput = true, 4096
	got := estimated(t, e, body, learnedRules)
	if utilisation := float64(100) / float64(got.Output); utilisation < 0.9 {
		t.Errorf("%.0f %% of what is reserved is used, want > 90 %%", 100*utilisation)
	}
}

func TestOldAnswersFade(t *testing.T) {
	s := new(sizes)
	for range 3000 {
		s.add(4000)
	}
	for range 8 * outputWindow {
		s.add(100)
	}
	if got := s.quantile(outputQuantile); got > 110 {
		t.Errorf("%d, want about 100", got)
	}
}

func TestSlotsAreInOrderAndNarrow(t *testing.T) {
	last := -1
	for n := tokens.Count(0); n < 1<<22; n += 1 + n/50 {
		slot := slotOf(n)
		end := slotEnd(slot)
		if slot < last || end < n || float64(end) > float64(n)*1.125+1 {
			t.Fatalf("%d is in slot %d, which ends at %d", n, slot, end)
		}
		last = slot
	}
	if got := slotOf(tokens.MaxCount); got != outputSlots-1 {
		t.Errorf("the largest count is in slot %d, want the last", got)
	}
	if got := slotOf(-1); got != 0 {
		t.Errorf("a negative count is in slot %d, want 0", got)
	}
}

func TestOutputsAreBounded(t *testing.T) {
	o := newOutputs(10)
	for range 3 {
		o.observe(outputKey{"t", "kept", 0}, 1)
	}
	for i := range 100 {
		o.observe(outputKey{"t", fmt.Sprint(i), 0}, 1)
	}
	if len(o.all) != 10 || o.all[outputKey{"t", "kept", 0}] == nil {
		t.Errorf("%d, want 10 with the one of most answers", len(o.all))
	}
}

func TestNothingIsLikelyBeforeThirtyAnswers(t *testing.T) {
	o, k := newOutputs(10), outputKey{"t", "m", 0}
	for i := range 30 {
		if n, ok := o.likely(k, outputEnough); ok || n != 0 {
			t.Fatalf("after %d answers: %d %v", i, n, ok)
		}
		o.observe(k, 5)
	}
	if n, ok := o.likely(k, outputEnough); !ok || n != 5 {
		t.Errorf("after 30: %d %v, want 5", n, ok)
	}
}

func TestAWindowOfAnswersFadesByHalf(t *testing.T) {
	var s sizes
	for range outputWindow - 1 {
		s.add(5)
	}
	if s.total != outputWindow-1 || s.slots[5] != outputWindow-1 {
		t.Fatalf("%d answers, %d of 5 tokens", s.total, s.slots[5])
	}
	s.add(7)
	if want := uint32(outputWindow/2 - 1); s.total != want || s.slots[5] != outputWindow/2-1 || s.slots[7] != 0 {
		t.Errorf("%d answers, %d of 5 tokens and %d of 7, want half of each, rounded down", s.total, s.slots[5], s.slots[7])
	}
}

func TestTheLargestSizesShareASlot(t *testing.T) {
	if last := slotEnd(outputSlots - 1); last != 1<<26-1 {
		t.Errorf("the last slot ends at %d, want 2^26 - 1", last)
	}
	for _, n := range []tokens.Count{1 << 26, 1 << 40, tokens.MaxCount} {
		if got := slotOf(n); got != outputSlots-1 {
			t.Errorf("%d is in slot %d, want the last", n, got)
		}
	}
	if got := slotOf(-1); got != 0 {
		t.Errorf("a negative size is in slot %d", got)
	}
}
