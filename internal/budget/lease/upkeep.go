package lease

import (
	"context"
	"slices"
	"time"

	"llmgw/internal/budget"
)

// upkeep tells the store what leases have spent and ends them, as long as there
// are any.
func (s *Store) upkeep() {
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
				s.tend(s.ctx, s.all(), now)
			}
		}
		tick.Stop()
	}
}

// surrender closes all leases, those that are asked for too, and tells the store
// what it does not know. It tells whether only open requests keep leases.
func (s *Store) surrender(ctx context.Context) bool {
	leases := s.all()
	for _, l := range leases {
		l.group.mu.Lock()
		l.close()
		l.group.mu.Unlock()
	}
	for _, l := range leases {
		l.await(ctx)
	}
	// What nobody has answered is ended now, though it may yet come: too late.
	s.tend(ctx, leases, time.Now().Add(s.cfg.Timeout+2*slack))
	return !slices.ContainsFunc(s.all(), func(l *lease) bool {
		l.group.mu.Lock()
		defer l.group.mu.Unlock()
		return l.members == 0 || l.dirty
	})
}

// tend closes what is over of the leases, reports the others, ends those without
// open requests, and charges what was used beyond a lease.
func (s *Store) tend(ctx context.Context, leases []*lease, now time.Time) {
	var list []news
	var overruns, over []*lease
	for _, l := range leases {
		l.group.mu.Lock()
		if l.answered() && !l.closed && (!now.Before(l.expires) || now.Sub(l.last) >= l.idle) {
			l.close()
		}
		switch {
		case !l.answered():
		case l.of != nil:
			overruns = append(overruns, l)
		case l.closed && l.members == 0:
			if !now.Before(l.endFrom) {
				over = append(over, l)
			}
		default:
			if o := s.overrun(l); o != nil {
				overruns = append(overruns, o)
			}
			if l.dirty {
				list = append(list, l.progress())
			}
		}
		l.group.mu.Unlock()
	}
	if len(overruns) > 0 {
		over = append(over, s.post(ctx, overruns)...)
	}
	if len(list) > 0 {
		s.report(ctx, list)
	}
	if len(over) > 0 {
		s.end(ctx, over)
	}
}

// settlement ends the lease with what its requests have used.
func (l *lease) settlement() budget.Settlement {
	return budget.Settlement{ID: l.id, Epoch: l.epoch, Lines: l.lines, Used: l.ended}
}

// progress is the lease's report: what is used, what a crash charges, and of a
// closed one what is still needed. A crash charges what the open requests say, and
// for what has ended since as much again as between the last two reports; it
// returns what has ended, too. g.mu is held.
func (l *lease) progress() news {
	l.dirty = false
	ended := slices.Clone(l.ended)
	p := budget.Progress{ID: l.id, Lines: l.lines, Used: slices.Clone(ended), Crash: budget.WithMargin(ended, l.before)}
	for i := range ended {
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
	return news{l, p, ended}
}

// told takes the store's acknowledgement of n. g.mu is held.
func (l *lease) told(n news) {
	p := n.progress
	l.before = n.ended
	for i := range l.kept {
		l.reported[i] = max(l.reported[i], p.Used[i])
		if p.Keep != nil {
			l.kept[i] = min(l.kept[i], max(p.Keep[i], l.reported[i]))
		}
	}
}

// news are what the store is to be told of a lease.
type news struct {
	lease    *lease
	progress budget.Progress
	ended    []int64 // the part of it that has ended
}

// report sends news of leases in one call. It tells whether the store has them;
// else they are sent again.
func (s *Store) report(ctx context.Context, list []news) bool {
	defer s.calls.begin()()
	progress := make([]budget.Progress, len(list))
	for i := range list {
		progress[i] = list[i].progress
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	err := s.observe("report", func() error { return s.Store.Report(ctx, progress) })
	for _, n := range list {
		l := n.lease
		l.group.mu.Lock()
		if err != nil {
			l.dirty = true
		} else {
			l.told(n)
		}
		l.group.mu.Unlock()
	}
	return err == nil
}

// end settles leases in one call, and forgets them if the store did.
func (s *Store) end(ctx context.Context, over []*lease) {
	defer s.calls.begin()()
	ends := make([]budget.Settlement, len(over))
	for i, l := range over {
		ends[i] = l.settlement()
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	var settled []budget.Settled
	err := s.observe("settle", func() (err error) {
		settled, err = s.Store.Settle(ctx, ends)
		return err
	})
	if err != nil {
		return
	}
	for i, l := range over {
		s.remove(l)
		if i < len(settled) && settled[i].Unbooked > 0 {
			s.cfg.Logger.Warn("requests used more than their limits' largest debt; the rest is not booked",
				"lease", l.id, "unbooked", settled[i].Unbooked)
		}
	}
}

// giveBack returns to the store what is leased of the counters that refuse r, or
// just being leased, and tells whether there was something.
func (s *Store) giveBack(ctx context.Context, r *budget.Request, v *budget.Verdict) bool {
	if s.held.Load() == 0 {
		return false
	}
	short := make(map[counterKey]bool, 1)
	for i := range v.Lines {
		if o := v.Lines[i].Outcome; o != budget.Granted && o != budget.NeverFits && r.Lines[i].Enforced(r) {
			short[keyOf(r.Lines[i])] = true
		}
	}
	var list []news
	now := time.Now()
	for _, l := range s.all() {
		if !l.draws(short) {
			continue
		}
		l.await(ctx)
		l.group.mu.Lock()
		if l.spare(short) {
			l.close()
			l.group.notYet = now.Add(cooling)
			list = append(list, l.progress())
		}
		l.group.mu.Unlock()
	}
	return len(list) > 0 && s.report(ctx, list)
}

// draws tells whether l is of one of the counters.
func (l *lease) draws(on map[counterKey]bool) bool {
	return slices.ContainsFunc(l.group.keys, func(k counterKey) bool { return on[k] })
}

// spare tells whether l has something left of one of the counters.
func (l *lease) spare(of map[counterKey]bool) bool {
	for i, k := range l.group.keys {
		if of[k] && l.left(i) > 0 {
			return true
		}
	}
	return false
}
