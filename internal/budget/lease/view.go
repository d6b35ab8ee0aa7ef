package lease

import (
	"context"
	"sync/atomic"
	"time"

	"llmgw/internal/budget"
)

// verdict is the answer to a request that l has just granted. g.mu is held.
func (l *lease) verdict(now time.Time) budget.Verdict {
	past := now.Sub(l.got)
	v := budget.Verdict{Binding: -1, At: l.at.Add(past), Lines: make([]budget.LineState, len(l.states))}
	for i := range v.Lines {
		v.Lines[i] = l.view(i, past)
	}
	return v
}

// view is how the counter of line i stands: as the store last told it, refilled
// since, and with what is left of the lease. It is exact unless other leases or
// gateways draw on the counter, too.
func (l *lease) view(i int, past time.Duration) budget.LineState {
	limit, left := l.lines[i].Limit, l.left(i)
	s := l.states[i].After(limit, past)
	s.Outcome, s.Wait = budget.Granted, 0
	s.Open += l.inFlight(i)
	s.Remaining += left
	s.Remaining = min(s.Remaining, s.Capacity)
	s.Reset = max(0, s.Reset-refill(limit.InForce(s), left))
	return s
}

// inFlight is what requests have open of line i, less what they are known to have
// used. g.mu is held.
func (l *lease) inFlight(i int) int64 { return l.open[i] - min(l.noted[i], l.open[i]) }

// reserved is what the store counts as open of line i for l. g.mu is held.
func (l *lease) reserved(i int) int64 { return max(0, l.kept[i]-l.reported[i]) }

// refill is how much sooner a counter of l is full for n that go back to it.
// Only a bucket refills.
func refill(l *budget.Limit, n int64) time.Duration {
	if l.Algorithm != budget.TokenBucket {
		return 0
	}
	return l.Gain(n)
}

// reads is how often Read asks at most for a state of the store and of the leases
// at one moment: unless both stand still, what a lease gives back at that moment
// is seen twice or not at all.
const reads = 5

// Read implements budget.Store. What this gateway has leased and not spent is
// shown as free, since its requests find it so.
func (s *Limiter) Read(ctx context.Context, lines []budget.Line) (states []budget.LineState, at time.Time, err error) {
	for range reads {
		before := s.changes.over.Load()
		states, at, err = s.Limiter.Read(ctx, lines)
		if err != nil {
			return states, at, err
		}
		s.addAllUnspent(lines, states)
		if s.changes.begun.Load() == before {
			break
		}
	}
	return states, at, nil
}

// changes counts the calls that change what the store has of leases. The second
// is never more than the first.
type changes struct{ begun, over atomic.Int64 }

// begin counts a call, and returns what ends it once its lease knows of it.
func (c *changes) begin() (end func()) {
	c.begun.Add(1)
	return func() { c.over.Add(1) }
}

// addAllUnspent puts what all leases have left into the states of lines.
func (s *Limiter) addAllUnspent(lines []budget.Line, states []budget.LineState) {
	leases, now := s.all(), time.Now()
	if len(leases) == 0 {
		return
	}
	for i := range lines {
		st, key := &states[i], lines[i].Counter()
		short := st.Remaining < lines[i].Amount
		reset := st.Reset
		for _, l := range leases {
			l.group.mu.Lock()
			for j, k := range l.group.keys {
				if k == key {
					l.addUnspent(j, st, now)
				}
			}
			l.group.mu.Unlock()
		}
		if short {
			reevaluate(st, lines[i].Amount, reset-st.Reset)
		}
	}
}

// addUnspent puts what l has left of line i into the counter's state, and for what l
// has open what its requests have. Of a period that is over nothing is left. g.mu
// is held.
func (l *lease) addUnspent(i int, st *budget.LineState, now time.Time) {
	if l.lines[i].Limit.Algorithm == budget.CalendarUsage && !now.Before(l.period) {
		return
	}
	left := l.left(i)
	st.Open = max(0, st.Open-l.reserved(i)) + l.inFlight(i)
	st.Remaining = min(st.Remaining+left, st.Capacity)
	st.Reset = max(0, st.Reset-refill(l.lines[i].Limit.InForce(*st), left))
}

// creditFrom adds to what l knows of line i what a request of from, an earlier
// lease, gives back with its end: so much unused, of so much open. g.mu is held.
func (l *lease) creditFrom(from *lease, i int, unused, open int64) {
	limit, st := l.lines[i].Limit, &l.states[i]
	if limit.Algorithm == budget.CalendarUsage && from.period.Before(l.period) {
		return
	}
	st.Open = max(0, st.Open-open)
	st.Remaining += unused
	st.Reset -= refill(limit.InForce(*st), unused)
}

// reevaluate changes the refusal of a request for which too little was left before
// what leases have unspent was added: the counter is full sooner by gained.
func reevaluate(st *budget.LineState, amount int64, gained time.Duration) {
	switch st.Outcome {
	case budget.Exceeded, budget.NoSlot, budget.HeldBack, budget.Spent:
	default:
		return
	}
	if st.Remaining < amount {
		st.Wait = max(0, st.Wait-gained)
		return
	}
	st.Outcome, st.Wait = budget.Granted, 0
}
