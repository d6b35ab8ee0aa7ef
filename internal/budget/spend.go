package budget

import "slices"

// Hold is what one reservation has on one counter.
type Hold struct {
	Taken int64 // -1: nothing was charged, nor will be: a shadow line's refusal
	Noted int64 // reported as used so far
	Crash int64 // reported as what a crash should be charged
	Mark  int64 // the period or moment that it was taken from
}

// Take takes cost for a reservation that must have ended at deadline. Of a cost
// that Judge refuses it takes what the debt allows.
func (c *Counter) Take(cost, deadline, now int64) Hold {
	h := Hold{Taken: cost}
	switch c.kind {
	case kindBucket, kindPacing:
		h.Taken = c.charge(cost)
		if cost >= c.Claimed {
			c.unclaim()
		}
	case kindCalendar:
		h.Taken, h.Mark = c.charge(cost), c.Mark
	case kindWindow:
		h.Taken, h.Mark = c.charge(cost), c.Start
	case kindLog:
		h.Taken = min(cost, c.room())
		h.Mark = c.append(h.Taken, now)
	}
	c.Open += h.Taken
	c.Holds++
	c.Until = max(c.Until, deadline)
	return h
}

// Note records that h has used so much so far; Open falls by it.
func (c *Counter) Note(h Hold, used int64) Hold {
	if h.Taken < 0 || used <= h.Noted {
		return h
	}
	if c.kind != kindSlots && c.holds(h) {
		c.Open -= min(used, h.Taken) - min(h.Noted, h.Taken)
	}
	h.Noted = used
	return h
}

// Shrink gives back what h took beyond keep, but for what was noted.
func (c *Counter) Shrink(h Hold, keep int64) Hold {
	keep = max(keep, h.Noted)
	n := h.Taken - keep
	if n <= 0 {
		return h
	}
	if c.holds(h) {
		c.Open = max(0, c.Open-n)
	}
	c.refund(h, n)
	h.Taken = keep
	return h
}

// Of is what h costs if its gateway died.
func (c CrashCharge) Of(h Hold) int64 {
	switch c {
	case ChargeFull:
		return max(h.Taken, h.Noted)
	case ChargeNone:
		return 0
	default:
		return max(h.Noted, min(h.Crash, h.Taken))
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
	c.Holds = max(0, c.Holds-1)
	if c.kind == kindSlots {
		c.Open = max(0, c.Open-h.Taken)
		return 0
	}
	if c.holds(h) {
		c.Open = max(0, c.Open-(h.Taken-min(h.Noted, h.Taken)))
	}
	if used > h.Taken {
		return c.Overrun(used-h.Taken, now)
	}
	c.refund(h, h.Taken-used)
	return 0
}

// Overrun charges n more, as a debt if need be. It returns what was not charged.
func (c *Counter) Overrun(n, now int64) (unbooked int64) {
	switch c.kind {
	case kindSlots:
		return 0
	case kindLog:
		booked := min(n, c.room())
		c.append(booked, now)
		return n - booked
	default:
		return n - c.charge(n)
	}
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

// holds tells whether what h took is still part of the counter.
func (c *Counter) holds(h Hold) bool { return c.kind != kindCalendar || h.Mark == c.Mark }

func (c *Counter) refund(h Hold, n int64) {
	switch c.kind {
	case kindBucket, kindPacing:
		c.credit(n)
	case kindCalendar:
		if h.Mark == c.Mark {
			c.Used = max(0, c.Used-n)
		}
	case kindWindow:
		c.giveBack(h.Mark, n)
	case kindLog:
		c.strike(h.Mark, n)
	}
}

// room is how much can still be charged before the debt is at its bound.
func (c *Counter) room() int64 {
	if c.kind == kindBucket || c.kind == kindPacing {
		return (c.Level + c.Debt*c.Den) / c.Den
	}
	return max(0, c.Capacity+c.Debt-c.Used)
}

// charge takes n or what there is room for, and returns what it took.
func (c *Counter) charge(n int64) int64 {
	n = min(n, max(0, c.room()))
	if c.kind == kindBucket || c.kind == kindPacing {
		c.Level -= n * c.Den
	} else {
		c.Used += n
	}
	return n
}
