package proxy

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"llmgw/internal/admission"
	"llmgw/internal/budget"
	"llmgw/internal/charge"
	"llmgw/internal/dialect"
	"llmgw/internal/fault"
)

// seeker is a call on its way through its limits. A call that a limit refuses,
// or that finds others in line, waits if all that refuse let it:
//
//	┌─► nobody in line ──ask──► granted, or refused for good
//	│        │ refused, and may wait
//	│        ▼
//	│   in line ──first──► ask ──► granted
//	│        │              └──► time up, or known to be too short: refused
//	└────────┘ the rules, the switch, or the store changed so that this line is
//	           not waited in any more
type seeker struct {
	gateway *Gateway
	plan    *plan
	id      string
	began   time.Time
	mode    Enforcement
	asks    int
	last    reservation      // as last asked for
	place   *admission.Place // nil: it does not wait
	waited  bool
}

// forLimits names the places of those who wait for limits.
type forLimits struct{}

// leave gives up the place, if there is one.
func (s *seeker) leave() {
	if s.place != nil {
		s.place.Leave()
	}
}

// step asks, or waits in one line. done reports whether that is the end.
func (s *seeker) step(ctx context.Context) (res reservation, err error, done bool) {
	s.mode = s.gateway.Enforcement()
	if s.mode == Off || len(s.plan.Lines) == 0 {
		return reservation{mode: s.mode}, nil, true
	}
	at, queued := s.gateway.lineFor(s.plan, s.mode)
	if !queued {
		v := s.ask(ctx)
		if v.Outcome == budget.Granted {
			return s.last, nil, true
		}
		if most, wait := patience(s.plan, v); wait > s.left(most) || s.left(most) <= 0 {
			return s.last, s.gateway.refusal(s.plan, v), true
		}
		at = v.Binding
	}
	if err := s.enter(ctx); err != nil {
		return s.ended(ctx, err)
	}
	line := s.plan.Lines[at]
	s.place.Join(line.Counter(), gain(line.Limit, line.Amount))
	if !queued {
		s.place.Refused(s.last.verdict.Wait)
	}
	return s.stand(ctx, line.Counter(), s.plan.atMost(line.Limit.MaxWait))
}

// lineFor returns the first of p's lines that others wait in and whose limit lets
// requests wait: a newcomer joins that line instead of overtaking it. Without the
// store an Open limit grants and a Closed one refuses, so nobody waits for them.
func (g *Gateway) lineFor(p *plan, mode Enforcement) (int, bool) {
	away := !g.StoreUp()
	closed := func(l budget.Line) bool {
		return l.Limit.WhenStoreDown == budget.Closed && l.Limit.Mode != budget.Shadow
	}
	if mode == Shadow || away && slices.ContainsFunc(p.Lines, closed) {
		return 0, false
	}
	for i, l := range p.Lines {
		if !l.Limit.Wait || l.Limit.Mode == budget.Shadow || away && l.Limit.WhenStoreDown == budget.Open {
			continue
		}
		if g.Room.Busy(l.Counter()) {
			return i, true
		}
	}
	return 0, false
}

// enter takes a place in the room, once.
func (s *seeker) enter(ctx context.Context) (err error) {
	if s.place != nil {
		return nil
	}
	g, p := s.gateway, s.plan
	s.waited = true
	p.body.park(p.Call)
	s.place, err = g.Room.Enter(ctx, forLimits{}, g.Rules().MaxWaiting, admission.Guest{Team: p.Caller.TeamName(), Check: g.checkOf(p), Since: p.since})
	return err
}

// stand waits in the line at until the limits grant the call or its time, most
// from its beginning at first, is up. It is not done if the call need not wait
// in this line any more.
func (s *seeker) stand(ctx context.Context, at budget.CounterID, most time.Duration) (res reservation, err error, done bool) {
	for {
		if s.place.Changed() {
			if err := s.gateway.follow(s.plan); err != nil {
				return s.last, err, true
			}
			if !s.stands(at) {
				s.place.LeaveLine()
				return res, nil, false
			}
		}
		first, ask, wait := s.place.Turn()
		left := s.left(most)
		if left <= 0 || wait > left {
			return s.giveUp(ctx, wait)
		}
		if !first {
			ask = left
		}
		if ask > 0 {
			if err := s.place.Sleep(min(ask, left)); err != nil {
				return s.ended(ctx, err)
			}
			continue
		}
		v := s.ask(ctx)
		if v.Outcome == budget.Granted {
			s.granted(at)
			return s.last, nil, true
		}
		if most, wait = patience(s.plan, v); s.left(most) <= 0 || wait > s.left(most) {
			return s.last, s.gateway.refusal(s.plan, v), true
		}
		s.place.Refused(wait)
	}
}

// stands reports whether the call still waits in the line at, under the rules,
// the switch and the state of the store as they are now.
func (s *seeker) stands(at budget.CounterID) bool {
	i, queued := s.gateway.lineFor(s.plan, s.mode)
	return s.mode == s.gateway.Enforcement() && queued && s.plan.Lines[i].Counter() == at
}

// giveUp asks a last time for a call that cannot wait until its turn, which is
// known to be wait away: what came back meanwhile may be enough.
func (s *seeker) giveUp(ctx context.Context, wait time.Duration) (reservation, error, bool) {
	v := s.ask(ctx)
	if v.Outcome == budget.Granted {
		return s.last, nil, true
	}
	if v.Wait > 0 {
		v.Wait = max(v.Wait, wait)
	}
	return s.last, s.gateway.refusal(s.plan, v), true
}

// ended is what comes of a call whose wait ended with err.
func (s *seeker) ended(ctx context.Context, err error) (reservation, error, bool) {
	if _, refused := errors.AsType[*fault.Error](err); refused {
		return s.last, err, true
	}
	if ctx.Err() != nil {
		return s.last, ctx.Err(), true
	}
	return s.giveUp(ctx, 0) // admission.ErrCrowded
}

// granted lets the next in the line at know what the call has left in its counter.
func (s *seeker) granted(at budget.CounterID) {
	for i, l := range s.plan.Lines {
		if l.Counter() == at {
			left := s.last.verdict.Lines[i].Remaining
			s.place.Granted(l.Limit.Gain(left), l.Limit.Algorithm == budget.TokenBucket)
			return
		}
	}
}

// left is how much of a wait of most the call has left.
func (s *seeker) left(most time.Duration) time.Duration { return most - time.Since(s.began) }

// gain is how long l takes to gain n; 0 if it gains nothing steadily.
func gain(l *budget.Limit, n int64) time.Duration {
	if l.Algorithm != budget.TokenBucket {
		return 0
	}
	return l.Gain(n)
}

// freed lets those who wait for lines know that a call has ended which used so
// much of what it had reserved.
func (g *Gateway) freed(lines []budget.Line, used []int64) {
	for i, l := range lines {
		switch {
		case !l.Limit.Wait:
		case l.Limit.Algorithm == budget.TokenBucket:
			g.Room.Gained(l.Counter(), l.Limit.Gain(l.Amount-used[i]))
		case l.Limit.Unit == budget.Concurrency || used[i] < l.Amount:
			g.Room.Freed(l.Counter())
		}
	}
}

// checkOf returns what refuses p by now, if anything does: it is called while p
// waits, by others.
func (g *Gateway) checkOf(p *plan) func() error {
	still := p.still
	if still == nil {
		return nil
	}
	return func() error {
		_, _, err := still(g.Rules())
		return err
	}
}

// follow puts a waiting call under the rules in force: who its client is, the
// model and the limits are as they are there. Its estimate and its targets stay.
func (g *Gateway) follow(p *plan) error {
	if p.still == nil {
		return nil
	}
	rules := g.Rules()
	who, model, err := p.still(rules)
	if err != nil {
		return err
	}
	p.Caller = who
	if model != nil {
		p.Model = model
	}
	p.Lines = p.Draws(rules.Limits)
	g.values.bound(p.Lines)
	return nil
}

// stillOf returns what decides anew who a call's client is under some rules, and
// which model it asks for; nil if it names none. It is safe for concurrent use.
func (g *Gateway) stillOf(r *http.Request, rt route, user string, call *dialect.Call) func(*Rules) (charge.Caller, *charge.Model, error) {
	named := rt.flat == nil && call.Endpoint.Operation != dialect.Stored
	name := call.Model
	return func(rules *Rules) (charge.Caller, *charge.Model, error) {
		who, err := g.identify(rules, r)
		if err != nil {
			return who, nil, err
		}
		who.User = user
		if err := g.blocked(who); err != nil || !named {
			return who, nil, err
		}
		model, err := rules.model(who.Key, name)
		return who, model, err
	}
}

// patience is how long p may wait for its limits after verdict v, or 0: every
// line that refuses must let requests wait. known is when it would fit, 0 if
// nobody can tell.
func patience(p *plan, v budget.Verdict) (limit, known time.Duration) {
	limit = -1
	for i, s := range v.Lines {
		l := p.Lines[i].Limit
		if s.Outcome == budget.Granted || l.Mode == budget.Shadow {
			continue
		}
		if !l.Wait || s.Outcome == budget.NeverFits || s.Outcome == budget.Unavailable {
			return 0, 0
		}
		if limit < 0 || l.MaxWait < limit {
			limit = l.MaxWait
		}
	}
	return p.atMost(max(limit, 0)), v.Wait
}

// atMost shortens a wait to what the client allows.
func (p *plan) atMost(d time.Duration) time.Duration {
	if p.maxWait >= 0 {
		return min(d, p.maxWait)
	}
	return d
}
