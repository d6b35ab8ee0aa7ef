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
// refuses, after waiting for as long as the limits and the client allow, and
// ctx's error if the client left meanwhile. The reservation tells the verdict
// in either case.
func (g *Gateway) reserve(ctx context.Context, rules *Rules, p *plan, id string) (reservation, error) {
	mode := g.Enforcement()
	if mode == Off || len(p.lines) == 0 {
		return reservation{mode: mode}, nil
	}
	g.values.bound(p.lines)
	began := time.Now()
	res := reservation{mode: mode}
	ask := func(attempt int) budget.Verdict {
		r := budget.Request{ID: id, Lines: p.lines, Shadow: mode == Shadow, CrashCharge: rules.CrashCharge}
		if attempt > 0 {
			r.ID += "." + strconv.Itoa(attempt)
		}
		res.Reservation, res.verdict = g.Limiter.Reserve(ctx, r)
		return res.verdict
	}
	c, queued := g.waiting.ahead(p.lines)
	if !queued {
		v := ask(0)
		g.countWouldRefuse(p, mode, v)
		if v.Outcome == budget.Granted {
			return res, nil
		}
		limit, known := patience(p, v)
		if limit <= 0 || known > limit {
			return res, g.refusal(p, v)
		}
		c = counterOf(p.lines[v.Binding])
	}
	var err error
	res.verdict, err = g.wait(ctx, rules, p, c, ask)
	res.waited = time.Since(began)
	return res, err
}

// wait stands in c's line until the limits grant p, its patience ends, or the
// client leaves.
func (g *Gateway) wait(ctx context.Context, rules *Rules, p *plan, c counter, ask func(attempt int) budget.Verdict) (budget.Verdict, error) {
	t := g.waiting.join(c, rules.MaxWaiting)
	began := time.Now()
	attempt := 1
	if t == nil { // the room is full: no waiting, but an answer
		v := ask(attempt)
		if v.Outcome == budget.Granted {
			return v, nil
		}
		return v, g.refusal(p, v)
	}
	defer g.waiting.leave(c, t)
	longest := time.NewTimer(p.longestWait())
	defer longest.Stop()
	select {
	case <-t.first:
	case <-longest.C:
	case <-ctx.Done():
		return budget.Verdict{}, ctx.Err()
	}
	for {
		v := ask(attempt)
		if v.Outcome == budget.Granted {
			return v, nil
		}
		limit, known := patience(p, v)
		left := limit - time.Since(began)
		if left <= 0 || known > left {
			return v, g.refusal(p, v)
		}
		if known == 0 {
			known = pollSlots
		}
		if err := t.sleep(ctx, min(known, left)); err != nil {
			return v, err
		}
		attempt++
	}
}

// longestWait is the longest that any of p's lines lets it wait.
func (p *plan) longestWait() time.Duration {
	var longest time.Duration
	for _, l := range p.lines {
		if l.Limit.Wait {
			longest = max(longest, l.Limit.MaxWait)
		}
	}
	return p.atMost(longest)
}

// countWouldRefuse counts what limits in shadow, and candidate amounts, would
// have refused.
func (g *Gateway) countWouldRefuse(p *plan, mode Enforcement, v budget.Verdict) {
	for i, s := range v.Lines {
		l := p.lines[i].Limit
		if (mode == Shadow || l.Mode == budget.Shadow) && s.Outcome != budget.Granted {
			g.Metrics.Rejection(string(l.Scope), l.Name, string(codeOf(s.Outcome)), p.caller.team.Name, "shadow")
		}
		if l.Candidate > 0 && s.Candidate != budget.Granted {
			g.Metrics.Rejection(string(l.Scope), l.Name, string(codeOf(s.Candidate)), p.caller.team.Name, "candidate")
		}
	}
}
