package budget

import (
	"cmp"
	"time"
)

// forever is how long, in milliseconds, a counter is kept that would be wrong
// if it were made anew: one that starts empty.
const forever = 400 * 24 * 3600 * 1000

// Remaining is what is left in whole units, negative in debt; of slots never.
func (c *Counter) Remaining(now int64) int64 { return c.kind.algorithm().remaining(c, now) }

// Reset is the time until the counter is full or its period ends, in ms.
func (c *Counter) Reset(now int64) int64 { return c.kind.algorithm().reset(c, now) }

// Life is how long the counter must be kept, in ms: until a new one would be
// the same, and while a reservation is open on it (S25).
func (c *Counter) Life(now int64) int64 {
	life := max(c.Reset(now), c.Paused-now, c.ClaimEnds-now, c.Next-now)
	if c.Empty {
		life = forever
	}
	if c.Holds > 0 {
		life = max(life, c.Until-now)
	}
	return life
}

// State describes the counter to one who asked it by a limit of period p for cost
// and was told out and wait.
func (c *Counter) State(p Period, out Outcome, wait, now int64) LineState {
	return LineState{
		Outcome:   out,
		Remaining: c.Remaining(now),
		Capacity:  c.Capacity,
		Open:      c.Open,
		Wait:      Millis(wait),
		Reset:     Millis(c.Reset(now)),
		Amount:    c.Amount(p),
		Burst:     c.Capacity,
	}
}

// After predicts a counter of l once d has gone by since s, if meanwhile nobody
// spends or settles: the one predictor of what the store would say.
func (s LineState) After(l *Limit, d time.Duration) LineState {
	if l.Algorithm == Slots {
		return s
	}
	if l.Algorithm == TokenBucket || l.Algorithm == Pacing {
		gained := float64(cmp.Or(s.Amount, l.Amount)) * float64(d) / float64(l.Period.Length())
		s.Remaining = min(s.Remaining+int64(min(gained, MaxExact)), s.Capacity)
	}
	if s.Reset -= d; s.Reset <= 0 {
		s.Remaining, s.Reset = s.Capacity, 0
	}
	s.Wait = max(0, s.Wait-d)
	return s
}
