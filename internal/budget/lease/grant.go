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
	s.clock.see(v.At)
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
// are over.
func (l *lease) nearlySpent(now time.Time) bool {
	if l.expires.Sub(now) < lifetime/2 {
		return true
	}
	for i := range l.kept {
		if 4*l.left(i) < l.kept[i] {
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

// acquire asks the store for a lease, in the background.
func (s *Store) acquire(g *group, r *budget.Request, amounts []int64) {
	l := newLease(s.nextID(), g, r.Epoch, r.CrashCharge, g.lines)
	l.size = amounts
	for i := range l.lines {
		l.lines[i].Amount = amounts[i]
	}
	ask := budget.Request{
		ID: l.id, Epoch: l.epoch, CrashCharge: crashCharge(l.crash), Lifetime: r.Lifetime,
		Lines: l.lines, NotAfter: s.clock.in(s.cfg.Timeout + slack),
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
