package lease

import (
	"context"
	"slices"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/budget/failover"
)

// lease is what one reservation is divided into. Of each line
//
//	kept = ended + open + left
//
// and the group's mu guards all of it.
type lease struct {
	id    string
	s     *Limiter
	group *group
	crash budget.CrashCharge
	lines []budget.Line // as reserved
	bulk  *failover.Bulk

	kept     []int64 // what the store has reserved, as far as it has said
	ended    []int64 // used by requests that have ended; of slots nothing
	open     []int64 // reserved by requests that have not
	noted    []int64 // used by those so far
	lost     []int64 // what a crash charges of those, noted included
	reported []int64 // the store knows as used
	before   []int64 // what had ended when the store was last told; nil: it was not
	telling  []int64 // what had ended by the report that is on its way

	asked   chan struct{} // closed when the store has answered
	members int
	states  []budget.LineState // as the store last said; what is open, without the lease
	at      time.Time          // when that was, in the store's time
	got     time.Time          // and in ours
	expires time.Time
	period  time.Time     // the end of its first budget's; zero: it has none
	idle    time.Duration // without a grant for so long, it goes back
	last    time.Time     // a grant
	closed  bool          // grants no more
	settled bool          // its end is on its way to the store
	dirty   bool          // there is something to report

	reporting, ending func() // end what changes counts: the calls on their way
}

// newLease is a lease of lines that is to be asked for.
func (s *Limiter) newLease(g *group, crash budget.CrashCharge, amounts []int64) *lease {
	n := len(amounts)
	l := &lease{
		id: budget.Tagged(s.nextID(), g.tag), s: s, group: g, crash: crash, lines: slices.Clone(g.lines), asked: make(chan struct{}),
	}
	numbers := make([]int64, 6*n)
	for i, list := range []*[]int64{&l.kept, &l.ended, &l.open, &l.noted, &l.lost, &l.reported} {
		*list = numbers[i*n : (i+1)*n : (i+1)*n]
	}
	for i := range l.lines {
		l.lines[i].Amount = amounts[i]
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
	l.closed = true
	l.changed()
	l.keepSlots()
	if l.group.lease != l {
		return
	}
	l.group.lease = nil
	for i := range l.lines {
		l.group.held[i].Add(-l.lines[i].Amount)
	}
}

// changed lets the next report tell of the lease.
func (l *lease) changed() {
	l.dirty = true
	if l.bulk != nil {
		l.bulk.Changed()
	}
}

// keepSlots lets go of a closed lease's slots that no request has: while the store
// is away this gateway's share of them depends on it.
func (l *lease) keepSlots() {
	for i := range l.lines {
		if l.closed && l.bulk != nil && recycles(l.lines[i].Limit) {
			l.bulk.Keep(i, l.open[i])
		}
	}
}

// Reserve implements budget.Limiter.
func (s *Limiter) Reserve(ctx context.Context, r budget.Request) (*budget.Reservation, budget.Verdict) {
	if r.CrashCharge == "" {
		r.CrashCharge = s.CrashCharge()
	}
	g := s.group(&r)
	if g != nil && s.Up() {
		if held, v := s.grant(g, &r); held != nil {
			return held, v
		}
	}
	held, v := s.pass(ctx, &r)
	if held != nil {
		held.ExtendBy(s)
		if g != nil && !v.Degraded {
			s.consider(g, &r, &v)
		}
	}
	return held, v
}

// pass lets the Limiter beneath decide. Before it refuses, what is leased here
// of the limits in question goes back.
func (s *Limiter) pass(ctx context.Context, r *budget.Request) (*budget.Reservation, budget.Verdict) {
	deadline := s.Deadline()
	held, v := s.ReserveBy(ctx, *r, deadline)
	if held != nil || v.Degraded || v.Outcome == budget.Unavailable || !s.giveBack(ctx, r, &v, deadline) {
		return held, v
	}
	return s.ReserveBy(ctx, *r, deadline)
}

// grant decides r from its group's lease, if that has enough.
func (s *Limiter) grant(g *group, r *budget.Request) (*budget.Reservation, budget.Verdict) {
	now := time.Now()
	g.mu.Lock()
	g.demand.record(r.Lines, now, &s.cfg)
	l := g.lease
	if l == nil || !l.fits(r, now) || !s.Enter() {
		g.mu.Unlock()
		return nil, budget.Verdict{}
	}
	m := newMember(l, r)
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
	return &m.held, v
}

func (l *lease) fits(r *budget.Request, now time.Time) bool {
	if l.closed || l.bulk.Epoch() != l.s.Epoch() || !now.Before(l.expires) {
		return false
	}
	for i := range r.Lines {
		if r.Lines[i].Amount < 0 || r.Lines[i].Amount > l.left(i) {
			return false
		}
	}
	return true
}

// nearlySpent reports whether three quarters of the lease, or half of its time,
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
func (s *Limiter) consider(g *group, r *budget.Request, v *budget.Verdict) {
	now := time.Now()
	g.mu.Lock()
	var amounts []int64
	switch l := g.lease; {
	case l == nil && !g.asking:
		amounts = s.plan(g, v.Lines, now)
	case l != nil && now.Before(l.expires) && !v.At.Before(l.at):
		l.refresh(v, now)
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
func (s *Limiter) plan(g *group, states []budget.LineState, now time.Time) []int64 {
	if g.demand.steady < s.cfg.Steady || now.Before(g.notYet) || s.ctx.Err() != nil {
		return nil
	}
	amounts := g.amounts(states, int64(s.Live()))
	if amounts == nil {
		g.notYet = now.Add(cooling)
		return nil
	}
	g.asking = true
	return amounts
}

// acquire asks for a lease, in the background.
func (s *Limiter) acquire(g *group, r *budget.Request, amounts []int64) {
	l := s.newLease(g, r.CrashCharge, amounts)
	s.add(l)
	s.asking.Go(func() {
		defer s.changes.begin()()
		ask := budget.Request{ID: l.id, Lines: l.lines, CrashCharge: l.crash, Lifetime: r.Lifetime}
		sent := time.Now()
		bulk, v := s.ReserveBulk(context.Background(), ask, l)
		g.mu.Lock()
		defer g.mu.Unlock()
		g.asking = false
		close(l.asked)
		if bulk == nil {
			l.closed = true
			g.notYet = time.Now().Add(cooling)
			s.remove(l)
			return
		}
		if l.bulk = bulk; l.closed { // meanwhile
			l.kept = amounts
			l.changed()
			l.keepSlots()
			return
		}
		l.begin(&v, sent)
		g.use(l)
	})
}

// use lets l be granted from. What its predecessor has left, the store has not
// got back when it says how the counters stand. g.mu is held.
func (g *group) use(l *lease) {
	if before := g.lease; before != nil {
		before.close()
		for i := range l.states {
			before.addUnspent(i, &l.states[i], l.got)
		}
	}
	g.lease = l
	for i := range l.lines {
		g.held[i].Add(l.lines[i].Amount)
	}
}

// await waits for the store's answer, or for ctx.
func (l *lease) await(ctx context.Context) {
	select {
	case <-l.asked:
	case <-ctx.Done():
	}
}

// begin makes l what the store has granted. Its time counts from when it was
// asked for, and ends with the periods of its budgets.
func (l *lease) begin(v *budget.Verdict, sent time.Time) {
	l.last, l.expires = sent, sent.Add(lifetime)
	l.idle = idleMost
	if rate := l.group.demand.rate; rate > 0 {
		l.idle = min(max(beat, time.Duration(pauses/rate*float64(time.Second))), idleMost)
	}
	for i := range l.lines {
		l.kept[i] = l.lines[i].Amount
		if l.lines[i].Limit.Algorithm != budget.CalendarUsage {
			continue
		}
		if end := sent.Add(v.Lines[i].Reset); l.period.IsZero() || end.Before(l.period) {
			l.period = end
		}
	}
	if !l.period.IsZero() && l.period.Before(l.expires) {
		l.expires = l.period
	}
	l.refresh(v, time.Now())
}

// refresh takes how the store says, since it granted l, that l's counters stand.
// g.mu is held.
func (l *lease) refresh(v *budget.Verdict, now time.Time) {
	l.states, l.at, l.got = slices.Clone(v.Lines), v.At, now
	for i := range l.states {
		l.states[i].Open = max(0, l.states[i].Open-l.reserved(i))
	}
}
