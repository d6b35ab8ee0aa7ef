package proxy

import (
	"fmt"
	"net/http"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/dialect"
	"llmgw/internal/estimate"
	"llmgw/internal/fault"
	"llmgw/internal/tenant"
	"llmgw/internal/tokens"
	"llmgw/internal/upstream"
)

// caller is who asks, as far as limits are concerned. User is empty until the
// body is read.
type caller struct {
	tenant.Caller
	team *tenant.Team
	ip   string // the address's counter: IPv6 by /64
	conn string // the connection's far end: tells the clients of one caller apart
}

// name tells callers apart: by key, user and address.
func (c caller) name() string { return c.keyID() + "\x00" + c.User + "\x00" + c.ip }

// keyID is the key's id; empty of a caller without a valid key.
func (c caller) keyID() string {
	if c.Key == nil {
		return ""
	}
	return c.Key.ID
}

// anonymous is the user of requests that name none: they share one counter.
const anonymous = "anonymous"

// plan is a call that is known to be allowed: what it would cost and what it
// draws on.
type plan struct {
	caller   caller
	call     *dialect.Call
	body     *body // of the call; nil: it is not a request's
	dialect  dialect.Dialect
	model    *Model
	targets  []upstream.Target   // those of the model that speak the call's dialect
	estimate estimate.Estimate   // what is reserved
	each     []estimate.Estimate // for each target; nil: estimate
	at       int                 // the target that has the call
	learned  *estimate.Estimator // what calls like it use unseen; nil: nobody knows
	lines    []budget.Line
	requests int64         // what it counts for in limits of requests
	flat     bool          // charged flat, whatever it uses
	maxWait  time.Duration // X-LLMGW-Max-Wait; negative: not sent
	// still decides anew who the client is and which model it asks for, while the
	// call waits; nil: that stays.
	still func(*Rules) (caller, *Model, error)
	asked amounts       // what to take by unit, in place of the estimate; nil: that
	life  time.Duration // of a reservation that its caller settles; 0: it is a call's own
	since uint64        // Room.Wakes before the client was identified
}

// reserved is the usage that the estimate stands for: no cache reads, and all
// the output that the request allows.
func (p *plan) reserved() tokens.Usage { return reserved(p.estimate) }

func reserved(e estimate.Estimate) tokens.Usage {
	return tokens.Usage{Input: e.Input, Output: e.Output, Tiers: e.Allows.Tiers}
}

// reserves is what p takes from l: of money at the dearest that the request
// allows. Hidden input, which is a guess, takes at most all that l can have: it
// must not refuse for ever what would fit without it.
func (p *plan) reserves(l *budget.Limit) int64 {
	if n, ok := p.asked[l.Unit]; ok && l.Unit != budget.Concurrency {
		return n
	}
	need := p.needs(l.Unit, p.estimate)
	if p.estimate.Parts.Hidden > 0 && need > l.Capacity() {
		return max(l.Capacity(), p.needs(l.Unit, p.estimate.Shown()))
	}
	return need
}

// needs is what a call with an estimate can come to in a limit of unit.
func (p *plan) needs(unit budget.Unit, e estimate.Estimate) int64 {
	if unit == budget.USD && !p.flat {
		return p.model.most(reserved(e), e.Allows)
	}
	return p.model.amount(unit, reserved(e), p.requests)
}

// amounts is what usage counts for in each line of the plan; nothing where a
// slot was taken, which comes back.
func (p *plan) amounts(u tokens.Usage, requests int64) []int64 {
	u = p.byOperation(u)
	used := make([]int64, len(p.lines))
	for i, l := range p.lines {
		if l.Limit.Unit != budget.Concurrency {
			used[i] = p.model.amount(l.Limit.Unit, u, requests)
		}
	}
	return used
}

// byOperation is u with the classes that follow from what was called, where the
// answer tells none and the model has prices for them: a picture's tokens are
// those of pictures, and so on.
func (p *plan) byOperation(u tokens.Usage) tokens.Usage {
	set := func(c tokens.Class, part *tokens.Count, n tokens.Count) {
		if *part == 0 && p.model.Prices.Has(c) {
			*part = n
		}
	}
	switch p.call.Endpoint.Operation {
	case dialect.Images:
		set(tokens.ImageOutput, &u.ImageOutput, u.Output)
	case dialect.Speech:
		set(tokens.AudioOutput, &u.AudioOutput, u.Output)
	case dialect.Transcribe:
		set(tokens.AudioInput, &u.AudioInput, u.Input)
	}
	return u
}

// limitedBy is X-LLMGW-Limited-By for a line. A limit that counts each model
// within something else is told by the model.
func (p *plan) limitedBy(l budget.Line) string {
	if l.Limit.Scope == budget.Model && l.Value != "" {
		return string(budget.Model) + "/" + l.Value + "/" + l.Limit.Name
	}
	return l.Limit.By()
}

// plan resolves a parsed call: the model it may use, the targets that speak its
// dialect, its estimate, and the lines that it draws on.
func (g *Gateway) plan(rules *Rules, who caller, d dialect.Dialect, call *dialect.Call) (*plan, error) {
	model, err := rules.model(who.Key, call.Model)
	if err != nil {
		return nil, err
	}
	p := &plan{caller: who, call: call, dialect: d, model: model, requests: 1, maxWait: -1, learned: g.Estimator}
	p.targets = targetsFor(model, call.Dialect)
	if len(p.targets) == 0 {
		return nil, g.wrongDialect(call.Model, model)
	}
	began := time.Now()
	err = p.estimateBy(g.Estimator)
	g.Metrics.EstimateSeconds(p.label(), time.Since(began))
	if err != nil {
		return nil, err
	}
	p.lines = rules.lines(p)
	return p, nil
}

// lines is what p draws on: every limit of the gateway, the model, the team
// and the key, with the counter and the amount of each.
func (r *Rules) lines(p *plan) []budget.Line {
	groups := [...][]*budget.Limit{r.Limits, p.model.Limits, p.caller.team.Limits, p.caller.Key.Limits}
	n := 0
	for _, g := range groups {
		n += len(g)
	}
	lines := make([]budget.Line, 0, n)
	for _, g := range groups {
		for _, l := range g {
			if p.call.RequestsOnly && l.Unit != budget.Requests {
				continue
			}
			if p.flat && l.Unit == budget.USD {
				continue // a flat charge has no price
			}
			value := p.counter(l)
			l = l.For(value)
			lines = append(lines, budget.Line{Limit: l, Value: value, Amount: p.reserves(l)})
		}
	}
	return lines
}

// counter picks the counter of a limit that has several.
func (p *plan) counter(l *budget.Limit) string {
	switch l.Scope {
	case budget.User:
		if p.caller.User == "" {
			return anonymous
		}
		return p.caller.User
	case budget.IP:
		return p.caller.ip
	case budget.Model:
		if l.Single() {
			return ""
		}
		return p.model.Name
	default:
		return ""
	}
}

// maxWaitOf reads X-LLMGW-Max-Wait: a duration that is not negative. Negative:
// not sent.
func maxWaitOf(h http.Header) (time.Duration, error) {
	v := h.Get("X-Llmgw-Max-Wait")
	if v == "" {
		return -1, nil
	}
	d, err := time.ParseDuration(v)
	if err != nil || d < 0 {
		return 0, fault.Invalid("X-LLMGW-Max-Wait", fmt.Sprintf("X-LLMGW-Max-Wait must be a duration such as 5s or 250ms, not %q.", v))
	}
	return d, nil
}
