package budget

// claimGrace is how long after the moment that it was told a refused request's
// claim stands, in milliseconds: clients round their waits up, and travel.
const claimGrace = 5000

// longestClaim bounds the wait that a claim stands for, in milliseconds.
const longestClaim = 3600 * 1000

// A claim keeps a large request from being starved by small ones, which take
// what comes back before it is enough for the large one (S33). Refused, a
// request for more than a quarter of a bucket claims half of the refill from
// then on, until its amount is set aside. Smaller ones share the rest:
//
//	Level ───────────────────────────────►
//	        set aside   │     free
//	 0 → Claimed, at r/2│ for smaller costs
//
// So whatever fit before the refusal fits after it, small requests keep half of
// the rate, and the large one is granted after twice Claimed/r at most, if no
// debt comes between. The claim is of the amount, not of an id: a client's next
// try has a new one. One as large is not bound by it and ends it when granted;
// a larger one takes it over. One that nobody comes back for ends by itself.

// Claim notes that cost was refused as Exceeded and told to wait that long. It
// reports whether the counter changed.
func (c *Counter) Claim(cost, wait, now int64) bool {
	if c.kind != kindBucket || !claims(cost, c.Capacity) || cost < c.Claimed {
		return false
	}
	if c.Claimed == 0 {
		c.ClaimedAt = c.At
	}
	c.Claimed, c.ClaimEnds = cost, now+min(wait, longestClaim)+claimGrace
	return true
}

// claims reports whether cost is large for a bucket of that capacity.
func claims(cost, capacity int64) bool { return 4*cost > capacity }

// unclaim ends the claim.
func (c *Counter) unclaim() { c.Claimed, c.ClaimedAt, c.ClaimEnds = 0, 0, 0 }

// aside is what a request for cost may not take, in units × Den: nothing, or
// what was set aside for a larger one. There is never more than there is.
func (c *Counter) aside(cost int64) int64 {
	if cost >= c.Claimed || c.Level <= 0 {
		return 0
	}
	half, all := (c.At-c.ClaimedAt)/2, c.Claimed*c.Den
	if half < ceilDiv(all, c.Num) {
		all = half * c.Num
	}
	return min(all, c.Level)
}

// untilFree is the time until a cost that a claim binds would be there: at half
// the rate, or when the claim has ended.
func (c *Counter) untilFree(cost, now int64) int64 {
	missing := cost*c.Den - (c.Level - c.aside(cost))
	halves := ceilDiv(missing, c.Num)
	half := 2*halves - 1 + (c.At-c.ClaimedAt)%2 + max(0, c.At-now)
	return min(half, max(c.ClaimEnds-now, c.untilLevel(cost*c.Den, now)))
}
