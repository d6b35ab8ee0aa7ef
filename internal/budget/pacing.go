package budget

// pacing smooths calls to a provider. It is a bucket with a small capacity that
// grants a cost as soon as it is full or holds the cost, whichever comes first:
// a cost above the capacity takes it below zero, and the next one waits until
// that is repaid. In any stretch of time t it grants at most capacity + rate·t,
// and one cost more. It has no bank cap: its open reservations are the
// provider's business, and outlive its capacity by far.
type pacing struct{ bucket }

func (p pacing) compile(l *Limit, r *Rules) {
	p.bucket.compile(l, r)
	r.Bank = 0
}

func (pacing) judge(c *Counter, cost, now int64) (Outcome, int64) {
	need := min(cost, c.Capacity) * c.Den
	if cost == 0 || c.Level >= need {
		return Granted, 0
	}
	return Exceeded, c.untilLevel(need, now)
}
