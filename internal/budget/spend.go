package budget

import "slices"

// Hold is what one reservation has on one counter.
type Hold struct {
	Taken    int64 // -1: nothing was charged, nor will be: a shadow line's refusal
	Reported int64 // reported as used so far
	Crash    int64 // reported as what a crash should be charged
	Mark     int64 // the period or moment that it was taken from
}

// Take takes cost for a reservation that must have ended at deadline. Of a cost
// that Judge refuses it takes what the debt allows.
func (c *Counter) Take(cost, deadline, now int64) Hold {
	var h Hold
	h.Taken, h.Mark = c.charge(cost, now)
	if cost >= c.Claimed {
		c.unclaim()
	}
	c.Open += h.Taken
	c.Holds++
	c.Until = max(c.Until, deadline)
	return h
}

// Note records that h has used so much so far; Open falls by it.
func (c *Counter) Note(h Hold, used int64) Hold {
	if h.Taken < 0 || used <= h.Reported {
		return h
	}
	alg, noted := c.kind.algorithm(), h
	noted.Reported = used
	c.Open -= alg.held(c, h) - alg.held(c, noted)
	return noted
}

// Shrink gives back what h took beyond keep, but for what was noted.
func (c *Counter) Shrink(h Hold, keep int64) Hold {
	keep = max(keep, h.Reported)
	n := h.Taken - keep
	if n <= 0 {
		return h
	}
	alg, shrunk := c.kind.algorithm(), h
	shrunk.Taken = keep
	c.Open = max(0, c.Open-(alg.held(c, h)-alg.held(c, shrunk)))
	alg.refund(c, h.Mark, n)
	return shrunk
}

// Of is what h costs if its gateway died.
func (c CrashCharge) Of(h Hold) int64 {
	switch c {
	case ChargeFull:
		return max(h.Taken, h.Reported)
	case ChargeNone:
		return 0
	default:
		return max(h.Reported, min(h.Crash, h.Taken))
	}
}

// WithMargin is what a crash is charged of a reservation that is known to have
// used so much of each line: that, and as much again as came since before, which
// is what the store was told of last; nil: of nothing.
func WithMargin(used, before []int64) []int64 {
	crash := slices.Clone(used)
	for i := range min(len(used), len(before)) {
		crash[i] = min(used[i]+max(0, used[i]-before[i]), MaxExact)
	}
	return crash
}

// Settle ends h: what was used replaces what was taken. It returns what
// exceeded the debt and was not charged.
func (c *Counter) Settle(h Hold, used, now int64) (unbooked int64) {
	if h.Taken < 0 {
		return 0
	}
	alg := c.kind.algorithm()
	c.Holds = max(0, c.Holds-1)
	c.Open = max(0, c.Open-alg.held(c, h))
	if used > h.Taken {
		return c.Overrun(used-h.Taken, now)
	}
	alg.refund(c, h.Mark, h.Taken-used)
	return 0
}

// Overrun charges n more, as a debt if need be. It returns what was not charged.
func (c *Counter) Overrun(n, now int64) (unbooked int64) {
	charged, _ := c.charge(n, now)
	return n - charged
}

// Correct lowers what is left to atMost, unless that is negative, and grants
// nothing for pause milliseconds.
func (c *Counter) Correct(atMost, pause, now int64) {
	if left := c.Remaining(now); atMost >= 0 && atMost < left {
		c.Overrun(left-atMost, now)
	}
	if pause > 0 {
		c.Paused = max(c.Paused, now+pause)
	}
}

// Return gives back n of what was used: of a period the present one's.
func (c *Counter) Return(n, now int64) {
	if c.kind == kindLog || c.kind == kindSlots {
		return
	}
	alg := c.kind.algorithm()
	alg.refund(c, alg.use(c, 0, now), n)
}

// Restart makes the counter, under r, as if nobody had used it but for what is open:
// that stays reserved, and can be settled. It has all that it can have, also if a
// new counter has nothing. b bounds r's period.
func (c *Counter) Restart(r Rules, b Bounds, now int64) {
	full := r
	full.Empty = false
	fresh := New(full, b, now)
	fresh.Empty, fresh.Holds, fresh.Open, fresh.Until = r.Empty, c.Holds, c.Open, c.Until
	r.kind.algorithm().use(&fresh, c.Open, now)
	*c = fresh
}

// charge takes n or what there is room for. It returns what it took, and the
// period or moment that it was taken from.
func (c *Counter) charge(n, now int64) (taken, mark int64) {
	alg := c.kind.algorithm()
	taken = min(n, max(0, alg.room(c)))
	return taken, alg.use(c, taken, now)
}
