package lease

import (
	"context"
	"slices"
	"time"

	"llmgw/internal/budget"
)

// acquire asks the store for a lease, in the background.
func (s *Store) acquire(g *group, r *budget.Request, amounts []int64) {
	l := newLease(s.nextID(), g, r.Epoch, r.CrashCharge, g.lines)
	l.size = amounts
	for i := range l.lines {
		l.lines[i].Amount = amounts[i]
	}
	ask := budget.Request{
		ID: l.id, Epoch: l.epoch, CrashCharge: crashCharge(l.crash), Lifetime: r.Lifetime,
		Lines: l.lines,
	}
	if !r.NotAfter.IsZero() { // which is soon, in the store's time
		ask.NotAfter = r.NotAfter.Add(s.cfg.Timeout)
	}
	l.asked = make(chan struct{})
	s.add(l)
	s.asking.Go(func() { s.ask(l, ask) })
}

// crashCharge is the lease's own. What ended in it is charged whatever the policy.
func crashCharge(c budget.CrashCharge) budget.CrashCharge {
	if c == budget.ChargeNone {
		return budget.ChargeProgress
	}
	return c
}

// ask makes the call, and what came of it the group's lease.
func (s *Store) ask(l *lease, r budget.Request) {
	defer s.calls.begin()()
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.Timeout)
	defer cancel()
	sent := time.Now()
	var v budget.Verdict
	err := s.observe("lease", func() (err error) {
		v, err = s.Store.Reserve(ctx, r)
		return err
	})
	g := l.group
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asking = false
	close(l.asked)
	if err == nil && v.Outcome == budget.Granted {
		l.begin(r.Lines, &v, sent)
		if !l.closed {
			g.use(l)
		}
		return
	}
	g.notYet = time.Now().Add(cooling)
	if err == nil {
		s.remove(l)
		return
	}
	// It may have been applied, or yet be: when it no more can, it is ended.
	l.closed, l.endFrom = true, time.Now().Add(s.cfg.Timeout+2*slack)
}

// use lets l be granted from. What its predecessor has left, the store has not
// got back when it tells how the counters stand. g.mu is held.
func (g *group) use(l *lease) {
	if before := g.lease; before != nil {
		before.close()
		for i := range l.states {
			before.lend(i, &l.states[i], l.got)
		}
	}
	g.lease = l
	for i, n := range l.size {
		g.held[i].Add(n)
	}
}

// answered tells whether the store has, g.mu being held.
func (l *lease) answered() bool {
	select {
	case <-l.asked:
		return true
	default:
		return l.asked == nil
	}
}

// await waits for the store's answer, or for ctx.
func (l *lease) await(ctx context.Context) {
	if l.asked == nil {
		return
	}
	select {
	case <-l.asked:
	case <-ctx.Done():
	}
}

// begin makes l what the store has granted. Its time counts from when it was
// asked for, and ends with the periods of its budgets.
func (l *lease) begin(lines []budget.Line, v *budget.Verdict, sent time.Time) {
	l.last, l.expires = sent, sent.Add(lifetime)
	l.idle = idleMost
	if rate := l.group.demand.rate; rate > 0 {
		l.idle = min(max(beat, time.Duration(pauses/rate*float64(time.Second))), idleMost)
	}
	for i := range lines {
		l.kept[i] = lines[i].Amount
		if lines[i].Limit.Algorithm != budget.CalendarUsage {
			continue
		}
		if end := sent.Add(v.Lines[i].Reset); l.period.IsZero() || end.Before(l.period) {
			l.period = end
		}
	}
	if !l.period.IsZero() && l.period.Before(l.expires) {
		l.expires = l.period
	}
	l.know(v, time.Now())
}

// know takes what the store has told of l's counters since it granted l. g.mu is
// held.
func (l *lease) know(v *budget.Verdict, now time.Time) {
	l.states, l.at, l.got = slices.Clone(v.Lines), v.At, now
	for i := range l.states {
		l.states[i].Open = max(0, l.states[i].Open-l.reserved(i))
	}
}
