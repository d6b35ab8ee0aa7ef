package proxy

import (
	"context"
	"strconv"
	"time"

	"llmgw/internal/budget"
)

// reservation is what a plan holds in its limits until it is settled.
type reservation struct {
	*budget.Reservation             // nil: nothing is held
	mode                Enforcement // in which it was asked for
	verdict             budget.Verdict
	waited              time.Duration
}

// reserve takes all of p's lines or none. It returns a *fault.Error if a limit
// refuses, after waiting for as long as the limits and the client allow; what
// else ended the wait, such as a block or the gateway's end; and ctx's error if
// the client left meanwhile. The reservation has the last verdict in any case.
// After a wait p stands under the rules that are in force by then.
func (g *Gateway) reserve(ctx context.Context, p *plan, id string) (reservation, error) {
	s := seeker{gateway: g, plan: p, id: id, began: time.Now()}
	g.values.bound(p.Lines)
	defer s.leave()
	for {
		res, err, done := s.step(ctx)
		if done {
			if s.waited {
				res.waited = time.Since(s.began)
			}
			return res, err
		}
	}
}

// ask asks the limiter once. Each ask has an id of its own.
func (s *seeker) ask(ctx context.Context) budget.Verdict {
	p := s.plan
	r := budget.Request{ID: s.id, Lines: p.Lines, Shadow: s.mode == Shadow, CrashCharge: s.gateway.Rules().CrashCharge}
	if p.life > 0 {
		r.Epoch, r.Lifetime = budget.Outside, p.life
	}
	if s.asks > 0 {
		r.ID += "." + strconv.Itoa(s.asks)
	}
	s.asks++
	r.ID = budget.Tagged(r.ID, tagOf(p.Caller.TeamName(), p.Label(), p.Caller.KeyID()))
	held, v := s.gateway.Limiter.Reserve(ctx, r)
	if s.asks == 1 {
		s.gateway.countWouldRefuse(p, s.mode, v)
	}
	s.last = reservation{Reservation: held, mode: s.mode, verdict: v}
	return v
}

// countWouldRefuse counts what limits in shadow, and candidate amounts, would
// have refused.
func (g *Gateway) countWouldRefuse(p *plan, mode Enforcement, v budget.Verdict) {
	for i, s := range v.Lines {
		l := p.Lines[i].Limit
		if (mode == Shadow || l.Mode == budget.Shadow) && s.Outcome != budget.Granted {
			g.Metrics.Rejection(string(l.Scope), l.Name, string(codeOf(s.Outcome)), p.Caller.TeamName(), "shadow")
		}
		if l.Candidate > 0 && s.Candidate != budget.Granted {
			g.Metrics.Rejection(string(l.Scope), l.Name, string(codeOf(s.Candidate)), p.Caller.TeamName(), "candidate")
		}
	}
}
