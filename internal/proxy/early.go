package proxy

import (
	"context"
	"hash/maphash"
	"net/http"
	"sync/atomic"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/charge"
	"llmgw/internal/dialect"
	"llmgw/internal/tokens"
)

// spent notes which counters of requests have refused, and until when: a caller
// of one of them is asked for its requests before its body is kept. The others
// are not, so the limits are asked once per request.
type spent struct {
	seed  maphash.Seed
	last  atomic.Int64       // the latest of until, or more
	until [1024]atomic.Int64 // by hash of the counter, Unix nanoseconds: a collision costs a question
}

// notedFor is the longest that a refusal is noted: a caller that is asked early
// draws on its limits twice, for a moment.
const notedFor = time.Second

func newSpent() *spent { return &spent{seed: maphash.MakeSeed()} }

func (s *spent) of(l budget.Line) *atomic.Int64 {
	return &s.until[maphash.Comparable(s.seed, l.Counter())%uint64(len(s.until))]
}

// note notes the counters of requests among lines that refused, as v says.
func (s *spent) note(lines []budget.Line, v budget.Verdict) {
	for i, state := range v.Lines {
		if o := state.Outcome; decidesAlone(lines[i].Limit) && (o == budget.Exceeded || o == budget.Spent) {
			now := time.Now()
			s.last.Store(now.Add(notedFor).UnixNano())
			s.of(lines[i]).Store(now.Add(min(state.Wait, notedFor)).UnixNano())
		}
	}
}

// recently reports whether any counter may still refuse: mostly none does.
func (s *spent) recently() bool { return s.last.Load() > time.Now().UnixNano() }

// any reports whether one of lines refused a moment ago and may still refuse.
func (s *spent) any(lines []budget.Line) bool {
	now := time.Now().UnixNano()
	for _, l := range lines {
		if s.of(l).Load() > now {
			return true
		}
	}
	return false
}

// decidesAlone reports whether l can refuse a request for good without a look at its body.
func decidesAlone(l *budget.Limit) bool {
	return l.Unit == budget.Requests && l.Scope != budget.Model && !l.Wait && l.Mode != budget.Shadow
}

// early refuses a call that its limits of requests are sure to refuse, before its
// body costs anything. It returns a *fault.Error, or nil; nothing stays reserved.
func (g *Gateway) early(w http.ResponseWriter, r *http.Request, rules *Rules, rt route, rec *record) error {
	if rt.flat != nil || rt.endpoint.Operation == dialect.Stored || g.Enforcement() != Enforce || !g.spent.recently() {
		return nil
	}
	p := requestPlan(rec.caller, rules.Limits, rec.caller.Team.Limits, rec.caller.Key.Limits)
	if !g.spent.any(p.Lines) {
		return nil
	}
	p.dialect = rt.dialect
	held, err := g.tryRequest(r.Context(), p, rec.id+".early")
	if err != nil {
		rec.reserved(w, p, held)
	}
	return err
}

// requestPlan is a plan that draws one request from those of some limits that can
// be asked before a body is read.
func requestPlan(who charge.Caller, limits ...[]*budget.Limit) *plan {
	p := &plan{Plan: charge.Plan{Caller: who, Call: &dialect.Call{RequestsOnly: true}, Model: &charge.Model{Name: charge.Wildcard, Weights: tokens.Even}, Requests: 1}}
	for _, group := range limits {
		for _, l := range group {
			if decidesAlone(l) && (l.Scope != budget.User || who.User != "") {
				value := p.Counter(l)
				p.Lines = append(p.Lines, budget.Line{Limit: l.For(value), Value: value, Amount: 1})
			}
		}
	}
	return p
}

// tryRequest reserves p's lines and gives them back at once. It returns a
// *fault.Error if one of them refuses.
func (g *Gateway) tryRequest(ctx context.Context, p *plan, id string) (reservation, error) {
	held, err := g.reserve(ctx, p, id)
	if held.Reservation != nil {
		held.Settle(p.Amounts(tokens.Usage{}, 0))
	}
	return held, err
}
