package upstream

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"llmgw/internal/budget"
)

func TestARefusalOfTheProviderPausesAndSlowsEveryCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		p, other := gateway(m, Limits{RequestsPerMinute: 6000}), gateway(m, Limits{RequestsPerMinute: 6000})
		sent := time.Now()
		time.Sleep(100 * time.Millisecond)
		p.hold(3*time.Second, sent)
		p.hold(3*time.Second, sent) // another of the same moment: one cut
		if got := p.throttle.factor(time.Now()); got != 0.7 {
			t.Errorf("the factor is %v after one refusal", got)
		}
		for name, g := range map[string]*pacer{"here": p, "there": other} {
			_, err := g.take(t.Context(), request{id: name, team: "t", maxWait: time.Second})
			if f := capacity(t, err); f.Wait < 2900*time.Millisecond || f.Wait > 3*time.Second {
				t.Errorf("%s a call during the pause is told to wait %s", name, f.Wait)
			}
		}
		start := time.Now()
		if _, err := p.take(t.Context(), request{id: "later", team: "t", maxWait: 5 * time.Second}); err != nil {
			t.Error(err)
		}
		if d := time.Since(start); d != 3*time.Second {
			t.Errorf("the pause of 3 s held a call for %s", d)
		}
		if got := p.throttle.factor(time.Now()); math.Abs(got-0.76) > 0.001 {
			t.Errorf("the factor is %v three seconds later, want 0.76", got)
		}
		time.Sleep(time.Minute)
		if got := p.throttle.factor(time.Now()); got != 1 {
			t.Errorf("the factor is %v a minute later", got)
		}
	})
}

func TestAThrottledProviderIsAskedLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := gateway(newMemory(), Limits{RequestsPerMinute: 60})
		p.hold(0, time.Now())
		mustTake(t, p, "a")
		start := time.Now()
		if _, err := p.take(t.Context(), request{id: "b", team: "t", maxWait: time.Minute}); err != nil {
			t.Fatal(err)
		}
		// A second and the jitter, at seven tenths of the rate.
		if d := time.Since(start); d < 1450*time.Millisecond || d > 1460*time.Millisecond {
			t.Errorf("the next call went after %s, want 1.457 s", d)
		}
	})
}

func TestWhatTheProviderSaysIsLeftLowersTheLevelAndNeverRaisesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		p := gateway(m, Limits{RequestsPerMinute: 6000, TokensPerMinute: 600_000})
		level := func(unit budget.Unit) int64 {
			states, _, err := m.store.Read(t.Context(), []budget.Line{{Limit: p.paced.lines[p.paced.index(unit)]}})
			if err != nil {
				t.Fatal(err)
			}
			return states[0].Remaining
		}
		full := level(budget.Tokens)
		p.correct(budget.Tokens, 1_000_000)
		if got := level(budget.Tokens); got != full {
			t.Errorf("more left than the bucket holds: level %d, want %d", got, full)
		}
		if len(m.atMost) != 0 {
			t.Errorf("the store was asked to correct what needed none")
		}
		p.correct(budget.Tokens, 17)
		if got := level(budget.Tokens); got != 17 {
			t.Errorf("17 left: level %d", got)
		}
		p.correct(budget.Requests, 2)
		if got := level(budget.Requests); got != 2*milli {
			t.Errorf("2 calls left: level %d thousandths", got)
		}
		p.correct(budget.Requests, 4)
		if got := level(budget.Requests); got != 2*milli {
			t.Errorf("4 calls left after 2: level %d thousandths", got)
		}
	})
}
