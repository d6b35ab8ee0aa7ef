package upstream

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// overdrawn is by how much arrivals overdraw a bucket that holds one minute's
// worth and is full at first. 0: never.
func (j *arrivals) overdrawn(perMinute float64) (most float64) {
	level, last := perMinute, time.Duration(0)
	for i, at := range j.at {
		level = min(perMinute, level+perMinute*(at-last).Minutes()) - j.costs[i]
		last = at
		most = max(most, -level)
	}
	return most
}

// sum is the cost of all arrivals.
func (j *arrivals) sum() (n float64) {
	for _, c := range j.costs {
		n += c
	}
	return n
}

// kinds are the limits of one amount, by kind, and of one unit each.
func kinds(kind LimitKind, unit string, amount int64) *paced {
	l := Limits{Kind: kind, RequestsPerMinute: amount}
	if unit == "tokens" {
		l = Limits{Kind: kind, TokensPerMinute: amount}
	}
	return newPaced(&Provider{Name: "p", Limits: l}, "")
}

const kindRun = 5 * time.Minute

func TestABucketIsUsedWholeAndNeverOverdrawn(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	one := func() float64 { return 1 }
	mixed := func() float64 { return float64(100 + random.IntN(19_901)) }
	for _, s := range []struct {
		what, unit string
		amount     int64
		cost       func() float64
		rest       time.Duration
	}{
		{"calls", "calls", 600, one, 0},
		{"one call a minute", "calls", 1, one, 0},
		{"many calls", "calls", 5000, one, 0},
		{"calls with rests", "calls", 600, one, 61 * time.Second},
		{"mixed tokens", "tokens", 800_000, mixed, 0},
		{"mixed tokens with rests", "tokens", 800_000, mixed, 61 * time.Second},
	} {
		j := drive(t, kinds(ByBucket, s.unit, s.amount), kindRun, s.cost, s.rest)
		if got := j.overdrawn(float64(s.amount)); got > 1e-6 {
			t.Errorf("%s: the bucket is overdrawn by %v", s.what, got)
		}
		used := j.sum() / (float64(s.amount) * (kindRun + time.Minute).Minutes())
		t.Logf("%s: %.3f used", s.what, used)
		if s.rest == 0 && s.amount > 1 && used < 0.97 {
			t.Errorf("%s: %.3f of the bucket is used, want 0.97", s.what, used)
		}
	}
}

// The worst that transit does to a bucket: the first burst is late as a whole,
// and all that follows is early.
func TestALateBurstAndEarlyCallsOverdrawNoBucket(t *testing.T) {
	for _, amount := range []int64{1, 2, 600, 1201, 5000} {
		p := kinds(ByBucket, "calls", amount)
		late := p.calls.jitter - time.Millisecond
		p.calls.jitter = time.Millisecond // drive then shows when calls left
		j := drive(t, p, kindRun, func() float64 { return 1 }, 0)
		for i, at := range j.at {
			if at == 0 {
				j.at[i] = late
			}
		}
		if got := j.overdrawn(float64(amount)); got > 1e-6 {
			t.Errorf("%d a minute: the bucket is overdrawn by %v", amount, got)
		}
	}
}

func TestNoCalendarMinuteIsOverrunAndLittleIsWasted(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	small := func() float64 { return float64(100 + random.IntN(5000)) }
	one := func() float64 { return 1 }
	for _, s := range []struct {
		what, unit string
		amount     int64
		cost       func() float64
		rest       time.Duration
	}{
		{"calls", "calls", 600, one, 0},
		{"one call a minute", "calls", 1, one, 0},
		{"calls with rests", "calls", 5000, one, 61 * time.Second},
		{"tokens", "tokens", 800_000, small, 0},
	} {
		j := drive(t, kinds(ByFixed, s.unit, s.amount), kindRun, s.cost, s.rest)
		if got := j.worst(time.Minute); got > float64(s.amount) {
			t.Errorf("%s: %v in a minute of %d", s.what, got, s.amount)
		}
		used := j.sum() / (float64(s.amount) * kindRun.Minutes())
		t.Logf("%s: %.3f used", s.what, used)
		if s.rest == 0 && s.amount > 1 && used < 0.97 {
			t.Errorf("%s: %.3f of the limit is used, want 0.97", s.what, used)
		}
	}
}

// What a gateway remembers of its own intervals is for windows alone.
func TestTwoMinutesWorthMayLeaveOneGatewayWithinABucketsFirstMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := gateway(newMemory(), Limits{Kind: ByBucket, TokensPerMinute: 60_000})
		start := time.Now()
		for i := range 100 {
			if _, err := p.take(t.Context(), request{id: string(rune('a' + i)), team: "t", tokens: 1000, maxWait: time.Hour}); err != nil {
				t.Fatal(err)
			}
		}
		if d := time.Since(start); d > 42*time.Second {
			t.Errorf("100,000 tokens took %s, want the 40 s that a bucket of 60,000 takes", d)
		}
	})
}
