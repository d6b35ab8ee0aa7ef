package budget

// A token bucket of capacity B that refills by Num/Den units a millisecond.
// Level is in units × Den, so that a refill multiplies and never rounds.
//
//	−D·Den ──────── 0 ──────── Level ──────── B·Den
//	  debt               grants a cost ≤ Level

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

func (c *Counter) judgeBucket(cost, now int64) (Outcome, int64) {
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

// credit gives n back: refill, then add, then cap (S6).
func (c *Counter) credit(n int64) {
	full := c.Capacity * c.Den
	if n >= c.Capacity+c.Debt || n*c.Den >= full-c.Level {
		c.Level = max(c.Level, full)
		return
	}
	c.Level += n * c.Den
}

// rescale converts the level to newer rules: used units stay used, the debt is
// clamped to the new bound, and a fraction of a unit is kept rounded down. A
// claim of the old amounts ends.
func (c *Counter) rescale(r Rules) {
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
