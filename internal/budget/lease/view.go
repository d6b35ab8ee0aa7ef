package lease

import (
	"context"
	"time"

	"llmgw/internal/budget"
)

// verdict is the answer to a request that l has just granted. g.mu is held.
func (l *lease) verdict(now time.Time) budget.Verdict {
	past := now.Sub(l.got)
	v := budget.Verdict{Binding: -1, At: l.at.Add(past), Leased: true, Lines: make([]budget.LineState, len(l.states))}
	for i := range v.Lines {
		v.Lines[i] = l.view(i, past)
	}
	return v
}

// view is how the counter of line i stands: as the store told it with the lease,
// refilled since, and with what is left of the lease. It is exact unless other
// leases or gateways draw on the counter, too.
func (l *lease) view(i int, past time.Duration) budget.LineState {
	limit, s, left := l.lines[i].Limit, l.states[i], l.left(i)
	s.Outcome, s.Wait = budget.Granted, 0
	s.Open = max(0, s.Open-left)
	s.Remaining += left
	switch limit.Algorithm {
	case budget.TokenBucket:
		period, amount := float64(limit.Period.Length()), float64(limit.Amount)
		s.Remaining += int64(amount * float64(past) / period)
		s.Reset -= past + time.Duration(float64(left)*period/amount)
	case budget.CalendarUsage:
		s.Reset -= past
	}
	s.Remaining = min(s.Remaining, s.Capacity)
	s.Reset = max(0, s.Reset)
	return s
}

// Read implements budget.Store. What this gateway has leased and not spent is
// shown as free, since its requests find it so.
func (s *Store) Read(ctx context.Context, lines []budget.Line) ([]budget.LineState, time.Time, error) {
	states, at, err := s.Store.Read(ctx, lines)
	if err != nil || s.held.Load() == 0 {
		return states, at, err
	}
	leases := s.all()
	for i := range lines {
		key := keyOf(lines[i])
		for _, l := range leases {
			l.lend(key, &states[i])
		}
		st := &states[i]
		st.Remaining = min(st.Remaining, st.Capacity)
		if (st.Outcome == budget.Exceeded || st.Outcome == budget.NoSlot || st.Outcome == budget.HeldBack) && st.Remaining >= lines[i].Amount {
			st.Outcome, st.Wait = budget.Granted, 0
		}
	}
	return states, at, nil
}

// lend adds what l has to spare of the counter key to its state.
func (l *lease) lend(key counterKey, st *budget.LineState) {
	l.group.mu.Lock()
	defer l.group.mu.Unlock()
	for i, k := range l.group.keys {
		if k != key {
			continue
		}
		st.Remaining += l.left(i)
		st.Open += l.open[i] - min(l.noted[i], l.open[i]) - max(0, l.kept[i]-l.reported[i])
		st.Open = max(0, st.Open)
	}
}
