package failover

import (
	"time"

	"llmgw/internal/budget"
)

// A client that is refused and asks again and again would cost a call each time.
// So a refusal is remembered, and given again as long as the store is sure to give
// it. What a counter can grant at a time t after it refused is at most
//
//	what was left  +  refill(t)  +  what others had open, and may give back
//
// What this gateway has open may come back, too: when it does, the refusal is
// forgotten. A refusal is remembered for a second at most, for what nobody here can
// know: newer rules from another gateway, a store that lost its counters, a clock
// that was set.
const rememberedFor = time.Second

// Where another gateway may give something back at any time, a refusal is sure for
// no time at all. It is given again only to callers that hammer: when refusals have
// followed each other within hammering, hammered times, for unsureFor. Requests
// that wait here for the limit always ask.
const (
	unsureFor = 20 * time.Millisecond
	hammering = 2 * unsureFor
	hammered  = 4
)

// refusal is what is remembered of one.
type refusal struct {
	limit  *budget.Limit // newer rules have another
	cost   int64
	state  budget.LineState
	others int64     // what may come back of it, besides what is held here
	row    int       // refusals before it that followed each other closely
	sent   time.Time // when the store was asked
	got    time.Time // when it had answered
}

// remember keeps the refusal of a line, unless this process was granted something
// of the counter meanwhile: then it is not known what others have open.
func (t *counters) remember(line budget.Line, state budget.LineState, sent time.Time) {
	switch line.Limit.Algorithm {
	case budget.TokenBucket, budget.CalendarUsage, budget.Slots:
	default:
		return
	}
	k := line.Counter()
	s := t.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.get(k)
	if !c.granted.Before(sent) {
		return
	}
	f := &refusal{limit: line.Limit, cost: line.Amount, state: state, others: max(0, state.Open-c.held), sent: sent, got: time.Now()}
	if before := c.refused; before != nil && sent.Sub(before.sent) < hammering {
		f.row = before.row + 1
	}
	c.refused = f
	t.refused.Store(sent.UnixNano())
}

// refusal returns the line's counter as it is predicted, with the wait if it
// refuses; false if it was never seen; and how long the line is sure to be refused,
// 0 if it is not.
func (t *counters) refusal(line budget.Line, now time.Time) (state budget.LineState, seen bool, sure time.Duration) {
	k := line.Counter()
	s := t.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.m[k]
	if c == nil || c.at.IsZero() {
		return state, false, 0
	}
	state = c.now(line.Limit, now)
	state.Wait = line.Limit.InForce(state).Gain(max(1, line.Amount-state.Remaining))
	if f := c.refused; f != nil && f.limit == line.Limit {
		if sure = f.until(line.Amount).Sub(now); line.Amount == f.cost {
			state.Wait = f.state.Wait - now.Sub(f.got)
		}
	}
	return state, true, max(0, sure)
}

// until is up to when a request for cost is sure to be refused.
func (f *refusal) until(cost int64) time.Time {
	never := time.Time{}
	switch {
	case cost == 0:
		return never // nothing is always granted
	case cost > f.state.Capacity:
		return f.sent.Add(rememberedFor)
	}
	if cost > f.cost && f.limit.Claims(cost) {
		return never // the store keeps a claim for it, so that smaller ones do not starve it
	}
	short := cost - f.state.Remaining - f.others
	if short <= 0 && cost >= f.cost && f.row >= hammered && !f.limit.Wait {
		return f.sent.Add(unsureFor)
	}
	least := rememberedFor
	switch f.limit.Algorithm {
	case budget.TokenBucket:
		// Remaining is rounded down, so up to a unit more may be there. The wait is
		// exact, if it is not that of a claim or a pause, which may end sooner.
		limit := f.limit.InForce(f.state)
		least = limit.Gain(short - 1)
		if f.others == 0 && cost >= f.cost && f.state.Wait <= limit.Gain(f.cost-f.state.Remaining)+time.Millisecond {
			least = max(least, f.state.Wait)
		}
	case budget.CalendarUsage:
		least = f.state.Reset
	}
	if short <= 0 || least <= 0 {
		return never
	}
	return f.sent.Add(min(least, rememberedFor))
}

// refusedAgain is the verdict on r if it is sure to be refused, and whether it is.
func (l *Limiter) refusedAgain(r *budget.Request) (v budget.Verdict, again bool) {
	now := time.Now()
	if r.Shadow || r.Force || now.UnixNano()-l.counters.refused.Load() > int64(rememberedFor) {
		return v, false
	}
	v.Lines = make([]budget.LineState, len(r.Lines))
	for i, line := range r.Lines {
		if line.Limit.Mode == budget.Shadow || line.Limit.Candidate > 0 {
			return v, false // the store counts what it would have said
		}
		state, seen, sure := l.counters.refusal(line, now)
		if !seen {
			return v, false
		}
		again = again || sure > 0
		v.Lines[i] = judged(line, state, sure)
	}
	if !again {
		return v, false
	}
	v.At = l.now()
	v.Outcome, v.Binding, v.Wait = budget.Decide(r, v.Lines)
	return v, true
}

// judged is what a counter that stands at s says to line, which it is sure to
// refuse for a while.
func judged(line budget.Line, s budget.LineState, sure time.Duration) budget.LineState {
	if line.Amount == 0 || sure == 0 && s.Remaining >= line.Amount {
		s.Outcome, s.Wait = budget.Granted, 0
		return s
	}
	switch a := line.Limit.Algorithm; {
	case sure > 0 && line.Amount > s.Capacity:
		s.Outcome, s.Wait = budget.NeverFits, 0
	case a == budget.Slots:
		s.Outcome, s.Wait = budget.NoSlot, 0
	case a == budget.CalendarUsage:
		s.Outcome, s.Wait = budget.Spent, s.Reset
	default:
		s.Outcome, s.Wait = budget.Exceeded, max(sure, s.Wait, time.Millisecond)
	}
	return s
}
