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

// surrender closes all leases and tells the store what it does not know.
func (s *Store) surrender(ctx context.Context) {
	leases := s.all()
	for _, l := range leases {
		l.group.mu.Lock()
		l.close()
		l.group.mu.Unlock()
	}
	s.tend(ctx, leases, time.Now())
}

// tend closes what is over of the leases, reports the others and ends those
// without open requests.
func (s *Store) tend(ctx context.Context, leases []*lease, now time.Time) {
	var news []budget.Progress
	var of, over []*lease
	var ends []budget.Settlement
	for _, l := range leases {
		l.group.mu.Lock()
		if !l.closed && (!now.Before(l.expires) || now.Sub(l.last) >= l.idle) {
			l.close()
		}
		switch {
		case l.closed && l.members == 0:
			if !now.Before(l.endFrom) {
				ends, over = append(ends, l.settlement()), append(over, l)
			}
		case l.dirty:
			news, of = append(news, l.progress()), append(of, l)
		}
		l.group.mu.Unlock()
	}
	if len(news) > 0 {
		s.report(ctx, news, of)
	}
	if len(ends) > 0 {
		s.end(ctx, ends, over)
	}
}

// settlement ends the lease with what its requests have used.
func (l *lease) settlement() budget.Settlement {
	return budget.Settlement{ID: l.id, Epoch: l.epoch, Lines: l.lines, Used: slices.Clone(l.ended)}
}

// progress is the lease's report: what is used, and of a closed one what is
// still needed. g.mu is held.
func (l *lease) progress() budget.Progress {
	l.dirty = false
	p := budget.Progress{ID: l.id, Lines: l.lines, Used: slices.Clone(l.ended)}
	if l.crash != budget.ChargeNone {
		for i := range p.Used {
			p.Used[i] = min(p.Used[i]+l.noted[i], budget.MaxExact)
		}
	}
	if l.closed {
		p.Keep = make([]int64, len(l.kept))
		for i := range p.Keep {
			p.Keep[i] = min(l.ended[i]+l.open[i], l.kept[i])
		}
	}
	return p
}

// told takes the store's acknowledgement of p. g.mu is held.
func (l *lease) told(p budget.Progress) {
	for i := range l.kept {
		l.reported[i] = max(l.reported[i], p.Used[i])
		if p.Keep != nil {
			l.kept[i] = min(l.kept[i], max(p.Keep[i], l.reported[i]))
		}
	}
}

// report sends news of leases in one call. It tells whether the store has them;
// else they are sent again.
func (s *Store) report(ctx context.Context, news []budget.Progress, of []*lease) bool {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	sent := time.Now()
	err := s.Store.Report(ctx, news)
	s.cfg.Observer.StoreCall("report", time.Since(sent), err)
	for i, l := range of {
		l.group.mu.Lock()
		if err != nil {
			l.dirty = true
		} else {
			l.told(news[i])
		}
		l.group.mu.Unlock()
	}
	return err == nil
}

// end settles leases in one call, and forgets them if the store did.
func (s *Store) end(ctx context.Context, ends []budget.Settlement, over []*lease) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	sent := time.Now()
	settled, err := s.Store.Settle(ctx, ends)
	s.cfg.Observer.StoreCall("settle", time.Since(sent), err)
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

// giveBack returns to the store what is leased of the counters that refuse r,
// and tells whether there was something.
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
	var news []budget.Progress
	var of []*lease
	now := time.Now()
	for _, l := range s.all() {
		l.group.mu.Lock()
		if spare := l.spare(short); spare {
			l.close()
			l.group.notYet = now.Add(cooling)
			news, of = append(news, l.progress()), append(of, l)
		}
		l.group.mu.Unlock()
	}
	return len(news) > 0 && s.report(ctx, news, of)
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
