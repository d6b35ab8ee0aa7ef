package upstream

import (
	"fmt"
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
		for range 2 { // another of the same moment: one cut
			p.slow("m", sent)
			p.hold(3 * time.Second)
		}
		if got := p.throttles.factor("m", time.Now()); got != 0.7 {
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
		if got := p.throttles.factor("m", time.Now()); math.Abs(got-0.76) > 0.001 {
			t.Errorf("the factor is %v three seconds later, want 0.76", got)
		}
		time.Sleep(time.Minute)
		if got := p.throttles.factor("m", time.Now()); got != 1 {
			t.Errorf("the factor is %v a minute later", got)
		}
	})
}

func TestAThrottledProviderIsAskedLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := gateway(newMemory(), Limits{RequestsPerMinute: 60})
		p.slow("", time.Now())
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

func TestAThrottleIsCutOncePerRefusalAndNeverToNothing(t *testing.T) {
	var th throttle
	now := morning
	if f := th.factor(now); f != 1 {
		t.Errorf("the zero throttle leaves %v of the rate", f)
	}
	th.cut(now, now.Add(-time.Second))
	th.cut(now.Add(time.Millisecond), now.Add(-time.Second))
	if f := th.factor(now); f != 0.7 {
		t.Errorf("two refusals of what was on its way leave %v", f)
	}
	for range 30 {
		now = now.Add(time.Second)
		th.cut(now, now)
	}
	if f := th.factor(now); f != leastFactor {
		t.Errorf("thirty refusals leave %v, want %v", f, leastFactor)
	}
	if f := th.factor(now.Add(45 * time.Second)); f < 0.999 || f > 1 {
		t.Errorf("45 s later %v of the rate is back", f)
	}
}

func TestOneModelsThrottleIsItsOwn(t *testing.T) {
	var all throttles
	all.cut("image", morning, morning)
	if image, chat := all.factor("image", morning), all.factor("chat", morning); image != cutTo || chat != 1 {
		t.Errorf("after a refusal of one model the factors are %v and %v, want %v and 1", image, chat, cutTo)
	}
	for i := range 2 * maxConditions {
		all.cut(fmt.Sprint(i), morning, morning)
	}
	if len(all) > maxConditions {
		t.Errorf("%d models are remembered", len(all))
	}
}
