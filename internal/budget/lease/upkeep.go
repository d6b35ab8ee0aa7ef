package lease

import (
	"context"
	"slices"
	"time"

	"llmgw/internal/budget"
)

// upkeep ends leases and lets what they have spent be reported, as long as there
// are any.
func (s *Limiter) upkeep() {
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.wake:
		}
		tick := time.NewTicker(beat)
		for s.held.Load() > 0 && s.ctx.Err() == nil {
			select {
			case <-s.ctx.Done():
			case now := <-tick.C:
				s.maintain(s.ctx, now)
			}
		}
		tick.Stop()
	}
}

// maintain closes the leases that are over, charges what was used beyond one,
// ends those without open requests, and reports the others. It returns whether
// only open requests keep leases, and the store knows all of them.
func (s *Limiter) maintain(ctx context.Context, now time.Time) bool {
	done := true
	up := s.Up()
	for _, l := range s.all() {
		g := l.group
		g.mu.Lock()
		if l.bulk == nil {
			done = false // it is asked for
			g.mu.Unlock()
			continue
		}
		if !up || !now.Before(l.expires) || now.Sub(l.last) >= l.idle || l.bulk.Epoch() != s.Epoch() {
			l.close()
		}
		over := l.overrun()
		end := l.closed && l.members == 0 && !l.settled
		if end {
			l.settled = true
			l.ending = s.changes.begin()
		}
		if len(over) > 0 {
			end := s.changes.begin()
			s.Charge(over)
			end()
		}
		g.mu.Unlock()
		if end {
			l.bulk.Settle(l.ended)
		}
	}
	if s.held.Load() > 0 {
		done = s.SendReports(ctx) && done
	}
	return done && !slices.ContainsFunc(s.all(), (*lease).unfinished)
}

// unfinished reports whether l is over and the store has not acknowledged it.
func (l *lease) unfinished() bool {
	l.group.mu.Lock()
	defer l.group.mu.Unlock()
	return l.members == 0 || l.dirty || l.reporting != nil
}

// overrun takes out of l what its requests used beyond what was leased: l cannot
// be charged more than it has reserved while others are open in it. g.mu is held.
func (l *lease) overrun() (over []budget.Line) {
	for i := range l.kept {
		if n := -l.left(i); n > 0 {
			l.ended[i] -= n
			line := l.lines[i]
			line.Amount = n
			over = append(over, line)
		}
	}
	return over
}

// Progress implements failover.Owner: what is used, what a crash charges, and of
// a closed lease what is still needed. A crash charges what the open requests
// say, and for what has ended since as much again as between the last two reports.
func (l *lease) Progress() (budget.Progress, bool) {
	l.group.mu.Lock()
	defer l.group.mu.Unlock()
	if l.settled || !l.dirty && l.reporting == nil {
		return budget.Progress{}, false
	}
	l.dirty = false
	l.telling = slices.Clone(l.ended)
	p := budget.Progress{Used: slices.Clone(l.ended), Crash: budget.WithMargin(l.ended, l.before)}
	for i := range l.ended {
		p.Used[i] += min(0, l.left(i)) // an overrun is not yet the lease's
		if l.crash != budget.ChargeNone {
			p.Used[i] = min(p.Used[i]+l.noted[i], budget.MaxExact)
			p.Crash[i] = min(p.Crash[i]+l.lost[i], budget.MaxExact)
		}
	}
	if l.closed {
		p.Keep = make([]int64, len(l.kept))
		for i := range p.Keep {
			p.Keep[i] = min(l.ended[i]+l.open[i], l.kept[i])
		}
	}
	if l.reporting == nil {
		l.reporting = l.s.changes.begin()
	}
	return p, true
}

// Told implements failover.Owner.
func (l *lease) Told(p budget.Progress) {
	l.group.mu.Lock()
	defer l.group.mu.Unlock()
	l.before = l.telling
	for i := range l.kept {
		l.reported[i] = max(l.reported[i], p.Used[i])
		if p.Keep != nil {
			l.kept[i] = min(l.kept[i], max(p.Keep[i], l.reported[i]))
		}
	}
	if l.reporting != nil { // nil: the lease was over before this was acknowledged
		l.reporting()
		l.reporting = nil
	}
}

// Over implements failover.Owner.
func (l *lease) Over() {
	l.s.remove(l)
	l.group.mu.Lock()
	defer l.group.mu.Unlock()
	l.ending()
	if l.reporting != nil { // it was not acknowledged, and need not be
		l.reporting()
		l.reporting = nil
	}
}

// giveBack returns to the store what is leased of the counters that refuse r, or
// just being leased, and reports whether there was something.
func (s *Limiter) giveBack(ctx context.Context, r *budget.Request, v *budget.Verdict, deadline time.Time) bool {
	if s.held.Load() == 0 {
		return false
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()
	short := make(map[budget.CounterID]bool, 1)
	for i := range v.Lines {
		if o := v.Lines[i].Outcome; o != budget.Granted && o != budget.NeverFits && r.Lines[i].Enforced(r) {
			short[r.Lines[i].Counter()] = true
		}
	}
	found, now := false, time.Now()
	for _, l := range s.all() {
		if !l.draws(short) {
			continue
		}
		l.await(ctx)
		l.group.mu.Lock()
		if l.spare(short) {
			l.close()
			l.group.notYet = now.Add(cooling)
			found = true
		}
		l.group.mu.Unlock()
	}
	return found && s.SendReports(ctx)
}

// draws reports whether l is of one of the counters.
func (l *lease) draws(on map[budget.CounterID]bool) bool {
	return slices.ContainsFunc(l.group.keys, func(k budget.CounterID) bool { return on[k] })
}

// spare reports whether l has something left of one of the counters.
func (l *lease) spare(of map[budget.CounterID]bool) bool {
	for i, k := range l.group.keys {
		if of[k] && l.left(i) > 0 {
			return true
		}
	}
	return false
}
