package lease

import (
	"context"
	"errors"
	"sync"

	"llmgw/internal/budget"
)

// overrun takes out of l what its requests used beyond what was leased, or
// returns nil if there is no such thing. While others are open in it, l cannot be
// charged more than it has reserved: the overrun becomes a reservation of its own,
// which ends at once. l waits for it as for a request. g.mu is held.
func (s *Store) overrun(l *lease) *lease {
	over := false
	for i := range l.kept {
		over = over || l.left(i) < 0
	}
	if !over || l.fenced {
		return nil
	}
	o := newLease(s.nextID(), l.group, l.epoch, l.crash, l.lines)
	o.of, o.closed = l, true
	for i := range l.kept {
		n := -min(0, l.left(i))
		o.ended[i], o.lines[i].Amount = n, n
		l.ended[i] -= n
	}
	l.members++
	s.add(o)
	return o
}

// post reserves overruns, whatever the limits' levels, and returns those that can
// be ended. The others are tried again.
func (s *Store) post(ctx context.Context, list []*lease) []*lease {
	posted := make([]bool, len(list))
	var calls sync.WaitGroup
	for i, o := range list {
		calls.Go(func() { posted[i] = s.postOne(ctx, o) })
	}
	calls.Wait()
	var over []*lease
	for i, o := range list {
		if posted[i] {
			over = append(over, o)
		}
	}
	return over
}

func (s *Store) postOne(ctx context.Context, o *lease) bool {
	defer s.calls.begin()()
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	err := s.observe("post", func() error {
		_, err := s.Store.Reserve(ctx, budget.Request{
			ID: o.id, Epoch: o.epoch, Lines: o.lines, Force: true, CrashCharge: budget.ChargeFull,
		})
		return err
	})
	g := o.group
	g.mu.Lock()
	defer g.mu.Unlock()
	l := o.of
	switch {
	case l == nil: // another call was faster
		return true
	case errors.Is(err, budget.ErrFenced):
		// l was reclaimed: settled with this in it, it is charged the difference.
		for i, n := range o.ended {
			l.ended[i] += n
			o.ended[i] = 0
		}
		l.fenced = true
	case err == nil || errors.Is(err, budget.ErrTooLate) || errors.Is(err, budget.ErrConflict):
		for i := range o.kept { // an earlier try may have come through
			o.kept[i] = o.lines[i].Amount
		}
	default:
		return false // tried again
	}
	o.of = nil
	l.members--
	return true
}
