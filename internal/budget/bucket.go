package budget

import "fmt"

// A token bucket of capacity B that refills by Num/Den units a millisecond.
// Level is in units × Den, so that a refill multiplies and never rounds.
//
//	−D·Den ──────── 0 ──────── Level ──────── B·Den
//	  debt               grants a cost ≤ Level
type bucket struct{}

func (bucket) compile(l *Limit, r *Rules) {
	per := l.Period.Length().Milliseconds()
	g := gcd(l.Amount, per)
	r.Num, r.Den, r.Bank = l.Amount/g, per/g, l.Bank
}

// bound: (B + D)·den + num + den < 2^53: a whole refill, and the sum under a
// rounded-up division.
func (bucket) bound(r *Rules) int64 { return (MaxExact - r.Num - r.Den) / r.Den }

func (bucket) validate(l *Limit) error {
	if l.Period.Length() == 0 {
		return fmt.Errorf("algorithm %s: the period is %q, not a second, minute, hour or a length", l.Algorithm, l.Period)
	}
	if err := between("burst", l.Burst, 1, MaxExact); err != nil {
		return err
	}
	return between("bank", l.Bank, 0, MaxExact/l.Burst)
}

func (bucket) fresh(c *Counter, _ Bounds, now int64) { c.At, c.Level = now, c.Capacity*c.Den }

func (bucket) advance(c *Counter, _ Bounds, now int64) {
	c.refill(now)
	if c.Claimed > 0 && now >= c.ClaimEnds {
		c.unclaim()
	}
}

// refill adds what has accrued since the last refill, up to the cap.
func (c *Counter) refill(now int64) {
	elapsed := now - c.At
	if elapsed < 0 {
		if elapsed < -clockSlack { // follow the clock, grant nothing for it
			c.At = now
			c.unclaim()
		}
		return
	}
	c.At = now
	full := c.Capacity
	if c.Bank > 0 {
		full = min(full, c.Bank*c.Capacity-c.Open) // T5
	}
	if full < 0 || c.Level >= full*c.Den {
		return
	}
	missing := full*c.Den - c.Level
	// The product below stays under missing + Num.
	if elapsed >= ceilDiv(missing, c.Num) {
		c.Level = full * c.Den
		return
	}
	c.Level += elapsed * c.Num
}

func (bucket) judge(c *Counter, cost, now int64) (Outcome, int64) {
	switch {
	case cost > c.Capacity:
		return NeverFits, 0
	case cost == 0 || c.Level-c.aside(cost) >= cost*c.Den:
		return Granted, 0
	}
	wait := c.untilLevel(cost*c.Den, now)
	if cost < c.Claimed {
		wait = c.untilFree(cost, now)
	}
	// The refill will stop before cost is there.
	if c.Bank > 0 && c.Bank*c.Capacity-c.Open < cost {
		return HeldBack, wait
	}
	return Exceeded, wait
}

// untilLevel is the time until the level is there, exact to the millisecond. A
// clock that stepped back must first come to the last refill again.
func (c *Counter) untilLevel(level, now int64) int64 {
	if c.Level >= level {
		return 0
	}
	return ceilDiv(level-c.Level, c.Num) + max(0, c.At-now)
}

func (bucket) room(c *Counter) int64 { return (c.Level + c.Debt*c.Den) / c.Den }

func (bucket) use(c *Counter, n, _ int64) int64 {
	c.Level -= n * c.Den
	return 0
}

// refund: refill, then add, then cap (S6).
func (bucket) refund(c *Counter, _, n int64) {
	full := c.Capacity * c.Den
	if n >= c.Capacity+c.Debt || n*c.Den >= full-c.Level {
		c.Level = max(c.Level, full)
		return
	}
	c.Level += n * c.Den
}

func (bucket) held(c *Counter, h Hold) int64 { return counted{}.held(c, h) }

func (bucket) remaining(c *Counter, _ int64) int64 { return floorDiv(c.Level, c.Den) }

func (bucket) reset(c *Counter, now int64) int64 { return c.untilLevel(c.Capacity*c.Den, now) }

// adopt converts the level: used units stay used, the debt is clamped to the new
// bound, and a fraction of a unit is kept rounded down. A claim of the old
// amounts ends.
func (bucket) adopt(c *Counter, r Rules) {
	c.unclaim()
	units := floorDiv(c.Level, c.Den)
	rest := c.Level - units*c.Den
	units += r.Capacity - c.Capacity
	switch {
	case units >= r.Capacity:
		c.Level = r.Capacity * r.Den
	case units < -r.Debt:
		c.Level = -r.Debt * r.Den
	default:
		c.Level = units*r.Den + rest*r.Den/c.Den
	}
}
