package upstream

import (
	"testing"
	"time"
)

func TestABreakerOpensAfterFailuresInARowAndForLongerEachTime(t *testing.T) {
	var h health
	now := morning
	for i := range tripAfter - 1 {
		if h.bad(now); h.open(now) {
			t.Fatalf("open after %d failures", i+1)
		}
	}
	h.good()
	for range tripAfter - 1 {
		h.bad(now)
	}
	if h.open(now) {
		t.Errorf("a success between them did not count")
	}
	want := coolFirst
	for range 8 {
		h.bad(now)
		if !h.open(now.Add(want-1)) || h.open(now.Add(want)) {
			t.Errorf("the pause is %s, want %s", h.until.Sub(now), want)
		}
		now = now.Add(want)
		want = min(2*want, coolMost)
	}
	for range 1000 { // the doubling must not overflow
		h.bad(now)
	}
	if !h.open(now.Add(coolMost - 1)) {
		t.Errorf("after a thousand failures the pause is %s", h.until.Sub(now))
	}
	if h.good(); h.open(now) {
		t.Errorf("open after a success")
	}
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
