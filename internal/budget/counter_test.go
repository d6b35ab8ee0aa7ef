package budget

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestABucketStoryIsToldToTheMillisecond(t *testing.T) {
	l := minuteBucket(600) // one every 100 ms
	r := RulesOf(l)
	now := int64(1_000_000)
	c := New(r, Bounds{}, now)
	for _, s := range []struct {
		what  string
		after int64 // ms since the step before
		n     int64
		out   Outcome
		wait  int64
	}{
		{"a new bucket is full", 0, 600, Granted, 0},
		{"then it is empty", 0, 1, Exceeded, 100},
		{"a unit is not yet there", 99, 1, Exceeded, 1},
		{"and now it is", 1, 1, Granted, 0},
		{"several take as long as they need", 50, 3, Exceeded, 250},
		{"more than the capacity never fits", 0, 601, NeverFits, 0},
		{"nothing always does", 0, 0, Granted, 0},
		{"an hour fills it, and no more", 3_600_000, 600, Granted, 0},
		{"it was no more", 0, 1, Exceeded, 100},
	} {
		now += s.after
		c.Advance(r, Bounds{}, now)
		out, wait := c.Judge(s.n, now)
		if out != s.out || wait != s.wait {
			t.Fatalf("%s: got %v after %d ms, want %v after %d", s.what, out, wait, s.out, s.wait)
		}
		if out == Granted {
			c.Settle(c.Take(s.n, now, now), s.n, now)
		}
	}
}

// In any stretch of time a pace grants no more than its capacity, what the rate
// gives, and one cost: so a provider's window is not overrun.
func TestAPaceBoundsEveryWindow(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 5))
	l := minuteBucket(60_000) // one a millisecond
	l.Algorithm, l.Burst, l.Bank, l.MaxDebt = Pacing, 500, 0, 1<<30
	r := RulesOf(l)
	now, largest := int64(0), int64(0)
	c := New(r, Bounds{}, now)
	type grant struct{ at, n int64 }
	var grants []grant
	for range 3000 {
		now += random.Int64N(3)
		c.Advance(r, Bounds{}, now)
		n := []int64{1, 10, 499, 500, 501, 4000}[random.IntN(6)]
		if out, wait := c.Judge(n, now); out != Granted {
			now += wait // a lone caller comes back when it is told
			c.Advance(r, Bounds{}, now)
			if out, _ := c.Judge(n, now); out != Granted {
				t.Fatalf("%d was refused on the wait of %d ms", n, wait)
			}
		}
		c.Take(n, now, now)
		largest = max(largest, n)
		grants = append(grants, grant{now, n})
	}
	for i := range grants {
		sum := int64(0)
		for j := i; j < len(grants) && j < i+200; j++ {
			sum += grants[j].n
			if most := l.Burst + (grants[j].at - grants[i].at) + largest; sum > most {
				t.Fatalf("%d granted from %d to %d ms, at most %d may be", sum, grants[i].at, grants[j].at, most)
			}
		}
	}
}

func TestS25_ACounterLivesUntilANewOneWouldBeTheSame(t *testing.T) {
	now := int64(1_800_000_000_000)
	month := &Limit{Algorithm: CalendarUsage, Unit: USD, Period: Month, Location: time.UTC, Amount: 100, UnboundedDebt: true}
	window := minuteBucket(100)
	window.Algorithm = SlidingWindow
	log := minuteBucket(10)
	log.Algorithm = SlidingLog
	empty := minuteBucket(100)
	empty.StartEmpty = true
	for _, c := range []struct {
		what string
		l    *Limit
		used int64
		life int64
	}{
		{"a full bucket", minuteBucket(60), 0, 0},
		{"a bucket in debt", minuteBucket(60), 120, 120_000},
		{"a bucket that begins empty", empty, 1, forever},
		{"a month, and the next, from which a clock may step back", month, 10, BoundsOf(month, now).Next - now},
		{"a window", window, 10, now - now%60_000 + 120_000 - now},
		{"a log", log, 1, 60_000},
	} {
		r := RulesOf(c.l)
		k := New(r, BoundsOf(c.l, now), now)
		if c.used > 0 {
			h := k.Take(1, now+7*86_400_000, now)
			if got := k.Life(now); got < 7*86_400_000 {
				t.Errorf("%s, open: got %d ms, want a week at least", c.what, got)
			}
			k.Settle(h, c.used, now)
		}
		if got := k.Life(now); got != c.life {
			t.Errorf("%s: got %d ms, want %d", c.what, got, c.life)
		}
	}
}

func TestAJobThatOutlivesItsPeriodIsSettledInTheCurrentOne(t *testing.T) {
	l := &Limit{Algorithm: CalendarUsage, Unit: USD, Period: Day, Location: time.UTC, Amount: 100, UnboundedDebt: true}
	now := time.Date(2027, 1, 15, 23, 0, 0, 0, time.UTC).UnixMilli()
	r := RulesOf(l)
	c := New(r, BoundsOf(l, now), now)
	h := c.Take(50, now, now)
	now += 3 * 3_600_000 // nobody has asked for anything since
	c.Advance(Rules{}, Bounds{}, now)
	if unbooked := c.Settle(h, 80, now); unbooked != 0 || c.Remaining(now) != 70 || c.Open != 0 {
		t.Errorf("got %d left, %d open, %d not charged, want 70, none, none", c.Remaining(now), c.Open, unbooked)
	}
	if _, wait := c.Judge(90, now); wait != 22*3_600_000 {
		t.Errorf("the period ends in %d ms, want 22 hours", wait)
	}
}
