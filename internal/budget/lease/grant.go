package lease

import (
	"context"
	"fmt"
	"slices"
	"time"

	"llmgw/internal/budget"
)

// lease is what one reservation of the store is divided into. Of each line
//
//	kept = ended + open + left
//
// and the group's mu guards all of it.
type lease struct {
	id    string
	group *group
	epoch budget.Epoch
	crash budget.CrashCharge
	lines []budget.Line // as reserved

	size     []int64 // what was leased
	kept     []int64 // what the store has reserved, as far as it has told
	ended    []int64 // used by requests that have ended; of slots nothing
	open     []int64 // reserved by requests that have not
	noted    []int64 // used by those so far
	lost     []int64 // what a crash charges of those, noted included
	reported []int64 // told to the store as used
	before   []int64 // what had ended when the store was last told; nil: it was not

	asked   chan struct{} // closed when the store has answered; nil: it was not asked for
	members int
	states  []budget.LineState // as the store last told; what is open, without the lease
	at      time.Time          // when that was, in the store's time
	got     time.Time          // and in ours
	expires time.Time
	period  time.Time     // the end of its first budget's; zero: it has none
	idle    time.Duration // without a grant for so long, it goes back
	last    time.Time     // a grant
	endFrom time.Time     // not to be ended in the store before
	closed  bool          // grants no more
	dirty   bool          // the store does not know all of it
	fenced  bool          // the store takes no reservation of its epoch
	of      *lease        // of an overrun that is not reserved yet: whose it is
}

// newLease is a lease of lines, whose amounts may be changed yet.
func newLease(id string, g *group, epoch budget.Epoch, crash budget.CrashCharge, lines []budget.Line) *lease {
	n := len(lines)
	l := &lease{id: id, group: g, epoch: epoch, crash: crash, lines: slices.Clone(lines)}
	numbers := make([]int64, 6*n)
	for i, list := range []*[]int64{&l.kept, &l.ended, &l.open, &l.noted, &l.lost, &l.reported} {
		*list = numbers[i*n : (i+1)*n : (i+1)*n]
	}
	return l
}

// left is what line i has for further requests, or to give back; negative if
// requests used more than they had reserved.
func (l *lease) left(i int) int64 { return l.kept[i] - l.ended[i] - l.open[i] }

// close ends the granting.
func (l *lease) close() {
	if l.closed {
		return
	}
	l.closed, l.dirty = true, true
	if l.group.lease != l {
		return
	}
	l.group.lease = nil
	for i, n := range l.size {
		l.group.held[i].Add(-n)
	}
}

// Reserve implements budget.Store. A verdict that took no call says Leased.
//
// An ID that is open in a lease is granted again as a repeat. One that has ended
// there, or that the store has granted, is not known here: callers use an ID for
// one attempt.
func (s *Store) Reserve(ctx context.Context, r budget.Request) (budget.Verdict, error) {
	if err := ctx.Err(); err != nil {
		return budget.Verdict{}, fmt.Errorf("reserve %s: %w", r.ID, err)
	}
	if m := s.members.get(r.ID); m != nil {
		return m.again(&r)
	}
	g := s.group(&r)
	if g == nil {
		return s.pass(ctx, &r)
	}
	if v, ok := s.grant(g, &r); ok {
		return v, nil
	}
	v, err := s.pass(ctx, &r)
	if err == nil && v.Outcome == budget.Granted {
		s.consider(g, &r, &v)
	}
	return v, err
}

// pass lets the store decide. Before it refuses, what is leased here of the
// limits in question goes back.
func (s *Store) pass(ctx context.Context, r *budget.Request) (budget.Verdict, error) {
	v, err := s.Store.Reserve(ctx, *r)
	if err != nil {
		return v, err
	}
	if v.Outcome == budget.Granted || !s.giveBack(ctx, r, &v) {
		return v, nil
	}
	return s.Store.Reserve(ctx, *r)
}

// grant decides r from its group's lease, if that has enough.
func (s *Store) grant(g *group, r *budget.Request) (budget.Verdict, bool) {
	now := time.Now()
	g.mu.Lock()
	g.demand.see(r.Lines, now, s.cfg.Busy)
	l := g.lease
	if l == nil || !l.fits(r, now) {
		g.mu.Unlock()
		return budget.Verdict{}, false
	}
	m := newMember(l, r)
	if !s.members.put(r.ID, m) {
		g.mu.Unlock()
		return budget.Verdict{}, false // two calls with one id at a time: the store tells
	}
	for i := range r.Lines {
		l.open[i] += r.Lines[i].Amount
	}
	l.members++
	l.last = now
	v := l.verdict(now)
	var next []int64
	if !g.asking && l.nearlySpent(now) {
		next = s.plan(g, v.Lines, now)
	}
	g.mu.Unlock()
	s.granted.Add(1)
	if next != nil {
		s.acquire(g, r, next)
	}
	return v, true
}

func (l *lease) fits(r *budget.Request, now time.Time) bool {
	if l.closed || l.epoch != r.Epoch || !now.Before(l.expires) {
		return false
	}
	for i := range r.Lines {
		if r.Lines[i].Amount < 0 || r.Lines[i].Amount > l.left(i) {
			return false
		}
	}
	return true
}

// nearlySpent tells whether three quarters of the lease, or half of its time,
// are over. Slots that are in flight come back.
func (l *lease) nearlySpent(now time.Time) bool {
	if l.expires.Sub(now) < lifetime/2 {
		return true
	}
	for i := range l.kept {
		if !recycles(l.lines[i].Limit) && 4*l.left(i) < l.kept[i] {
			return true
		}
	}
	return false
}

// consider asks for a lease if g is busy, whose counters stand as v says. If it
// has one, what is left of that is put into v.
func (s *Store) consider(g *group, r *budget.Request, v *budget.Verdict) {
	now := time.Now()
	g.mu.Lock()
	var amounts []int64
	switch l := g.lease; {
	case l == nil && !g.asking:
		amounts = s.plan(g, v.Lines, now)
	case l != nil && now.Before(l.expires) && !v.At.Before(l.at):
		l.know(v, now)
		for i := range v.Lines {
			v.Lines[i] = l.view(i, 0)
		}
	}
	g.mu.Unlock()
	if amounts != nil {
		s.acquire(g, r, amounts)
	}
}

// plan is what to ask for, or nil; it marks g as asking. g.mu is held.
func (s *Store) plan(g *group, states []budget.LineState, now time.Time) []int64 {
	if g.demand.steady < s.cfg.Steady || now.Before(g.notYet) || s.ctx.Err() != nil {
		return nil
	}
	amounts := g.amounts(states, s.fleet.Load())
	if amounts == nil {
		g.notYet = now.Add(cooling)
		return nil
	}
	g.asking = true
	return amounts
}
