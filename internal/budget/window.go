package budget

import (
	"fmt"
	"time"
)

// A slidingWindow counter keeps what was used in the window that now is in and
// in the one before, which counts by the part of it that the last Window
// milliseconds still cover, in whole units as such counters have it:
//
//	used = ⌊Prev·(W − e)/W⌋ + Used,  e = now − Start
type slidingWindow struct{ counted }

func (slidingWindow) compile(l *Limit, r *Rules) { r.Window = rolling(l.Period).Milliseconds() }

// bound: both windows' use, each times the length, is exact.
func (slidingWindow) bound(r *Rules) int64 { return MaxExact / (2 * r.Window) }

func (slidingWindow) validate(l *Limit) error { return validateRolling(l) }

func (slidingWindow) fresh(c *Counter, _ Bounds, now int64) { c.Start = now - now%c.Window }

// advance moves the windows to now.
func (slidingWindow) advance(c *Counter, _ Bounds, now int64) {
	start := now - now%c.Window
	switch {
	case now < c.Start-clockSlack:
		c.Start = start
	case now < c.Start, start == c.Start:
		// The clock stepped back a little, or nothing has ended.
	case start == c.Start+c.Window:
		c.Start, c.Prev, c.Used = start, c.Used, 0
	default:
		c.Start, c.Prev, c.Used = start, 0, 0
	}
}

// counted is what was used in the last Window milliseconds.
func (c *Counter) counted(now int64) int64 {
	return c.Prev*(c.Window-max(0, now-c.Start))/c.Window + c.Used
}

func (slidingWindow) adopt(c *Counter, r Rules) {
	c.Used = min(c.Used, r.Capacity+r.Debt)
	c.Prev = min(c.Prev, r.Capacity+r.Debt)
}

func (slidingWindow) judge(c *Counter, cost, now int64) (Outcome, int64) {
	switch {
	case cost > c.Capacity:
		return NeverFits, 0
	case cost == 0 || cost <= c.Capacity-c.counted(now):
		return Granted, 0
	}
	return Exceeded, c.fits(cost) - now
}

// fits is the first moment at which cost fits. In this window the part of Prev
// that still counts may be at most what Used and cost leave; else in the next
// one, where Used is what fades.
func (c *Counter) fits(cost int64) int64 {
	if left := c.Capacity - c.Used - cost; left >= 0 {
		return c.Start + c.faded(c.Prev, left)
	}
	return c.Start + c.Window + c.faded(c.Used, c.Capacity-cost)
}

// faded is how long after its window's start n counts for no more than left:
// ⌊n·(W − e)/W⌋ ≤ left, where n·(W − e) < (left + 1)·W.
func (c *Counter) faded(n, left int64) int64 {
	if n <= left {
		return 0
	}
	return c.Window - ((left+1)*c.Window-1)/n
}

func (slidingWindow) use(c *Counter, n, _ int64) int64 {
	c.Used += n
	return c.Start
}

// refund gives n back to the window that it was taken in, or nowhere.
func (slidingWindow) refund(c *Counter, start, n int64) {
	switch start {
	case c.Start:
		c.Used = max(0, c.Used-n)
	case c.Start - c.Window:
		c.Prev = max(0, c.Prev-n)
	}
}

func (slidingWindow) remaining(c *Counter, now int64) int64 { return c.Capacity - c.counted(now) }

// reset is the time until nothing counts any more.
func (slidingWindow) reset(c *Counter, now int64) int64 {
	switch {
	case c.Used > 0:
		return max(0, c.Start+2*c.Window-now)
	case c.Prev > 0:
		return max(0, c.Start+c.Window-now)
	default:
		return 0
	}
}

// validateRolling returns why no window or log can be as long as l's period.
func validateRolling(l *Limit) error {
	if rolling(l.Period) == 0 {
		return fmt.Errorf("algorithm %s: there is no period %q", l.Algorithm, l.Period)
	}
	return nil
}

// rolling is the length of a sliding window or log: of calendar periods their
// usual one.
func rolling(p Period) time.Duration {
	const day = 24 * time.Hour
	switch p {
	case Day:
		return day
	case Week:
		return 7 * day
	case Month:
		return 30 * day
	case Quarter:
		return 91 * day
	case Year:
		return 365 * day
	default:
		return p.Length()
	}
}
