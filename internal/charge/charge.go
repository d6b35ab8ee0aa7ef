// Package charge decides what a call draws on and what it costs: from a caller, a
// model and usage to the lines of limits and their amounts. It asks no limiter and
// no provider, and knows nothing of requests on the wire.
//
//	charge.go    the caller, and Plan: lines and amounts
//	model.go     the models, and what usage counts for in each unit
//	expected.go  the estimate of a plan for each of its targets
//	ending.go    the ways a call can end, and what each is charged
package charge

import (
	"llmgw/internal/budget"
	"llmgw/internal/dialect"
	"llmgw/internal/estimate"
	"llmgw/internal/tenant"
	"llmgw/internal/tokens"
	"llmgw/internal/upstream"
)

// Caller is the client of a call, as far as limits are concerned. User is empty
// until the body is read.
type Caller struct {
	tenant.Caller
	Team    *tenant.Team
	Counter string // the address's counter: IPv6 by /64
	Conn    string // the connection's far end: tells the clients of one caller apart
}

// Name distinguishes callers: by key, user and address.
func (c Caller) Name() string { return c.KeyID() + "\x00" + c.User + "\x00" + c.Counter }

// KeyID is the key's id; empty of a caller without a valid key.
func (c Caller) KeyID() string {
	if c.Key == nil {
		return ""
	}
	return c.Key.ID
}

// TeamName is the team's name; empty of a caller without a valid key.
func (c Caller) TeamName() string {
	if c.Team == nil {
		return ""
	}
	return c.Team.Name
}

// anonymous is the user of requests that name none: they share one counter.
const anonymous = "anonymous"

// Plan is one call as it is charged: what it would cost and what it draws on.
// Draws makes its Lines when the rest is known. It is not safe for concurrent use.
type Plan struct {
	Caller   Caller
	Call     *dialect.Call
	Model    *Model
	Targets  []upstream.Target     // those of the model that speak the call's dialect
	Estimate estimate.Estimate     // what is reserved
	At       int                   // index in Targets of the one that has the call
	Learned  *estimate.Estimator   // what calls like it use unseen; nil: nobody knows
	Lines    []budget.Line         // the counters that the call draws on
	Requests int64                 // what the call counts for in limits of requests
	Flat     bool                  // charged flat, whatever it uses
	Asked    map[budget.Unit]int64 // what to take by unit, in place of the estimate; nil: that
	each     []estimate.Estimate   // for each target; nil: Estimate
}

// Reserved is the usage that the estimate stands for: no cache reads, and all
// the output that the request allows.
func (p *Plan) Reserved() tokens.Usage { return reserved(p.Estimate) }

func reserved(e estimate.Estimate) tokens.Usage {
	return tokens.Usage{Input: e.Input, Output: e.Output, Tiers: e.Allows.Tiers}
}

// reserves is what p takes from l: of money at the dearest that the request
// allows. Hidden input, which is a guess, takes at most all that l can have: it
// must not refuse for ever what would fit without it.
func (p *Plan) reserves(l *budget.Limit) int64 {
	if n, ok := p.Asked[l.Unit]; ok && l.Unit != budget.Concurrency {
		return n
	}
	need := p.needs(l.Unit, p.Estimate)
	if p.Estimate.Parts.Hidden > 0 && need > l.Capacity() {
		return max(l.Capacity(), p.needs(l.Unit, p.Estimate.Shown()))
	}
	return need
}

// needs is what a call with an estimate can come to in a limit of unit.
func (p *Plan) needs(unit budget.Unit, e estimate.Estimate) int64 {
	if unit == budget.USD && !p.Flat {
		return p.Model.most(reserved(e), e.Allows)
	}
	return p.Model.Amount(unit, reserved(e), p.Requests)
}

// Amounts is what usage counts for in each line of the plan; nothing where a
// slot was taken, which comes back.
func (p *Plan) Amounts(u tokens.Usage, requests int64) []int64 {
	u = p.ByOperation(u)
	used := make([]int64, len(p.Lines))
	for i, l := range p.Lines {
		if l.Limit.Unit != budget.Concurrency {
			used[i] = p.Model.Amount(l.Limit.Unit, u, requests)
		}
	}
	return used
}

// ByOperation is u with the classes that follow from what was called, where the
// answer tells none and the model has prices for them: a picture's tokens are
// those of pictures, and so on.
func (p *Plan) ByOperation(u tokens.Usage) tokens.Usage {
	set := func(c tokens.Class, part *tokens.Count, n tokens.Count) {
		if *part == 0 && p.Model.Prices.Has(c) {
			*part = n
		}
	}
	switch p.Call.Endpoint.Operation {
	case dialect.Images:
		set(tokens.ImageOutput, &u.ImageOutput, u.Output)
	case dialect.Speech:
		set(tokens.AudioOutput, &u.AudioOutput, u.Output)
	case dialect.Transcribe:
		set(tokens.AudioInput, &u.AudioInput, u.Input)
	}
	return u
}

// LimitedBy is X-LLMGW-Limited-By for a line. A limit that counts each model
// within something else is told by the model.
func (p *Plan) LimitedBy(l budget.Line) string {
	if l.Limit.Scope == budget.Model && l.Value != "" {
		return string(budget.Model) + "/" + l.Value + "/" + l.Limit.Name
	}
	return l.Limit.By()
}

// Draws is what p draws on: every limit of the gateway, the model, the team and
// the key, with the counter and the amount of each.
func (p *Plan) Draws(gateway []*budget.Limit) []budget.Line {
	groups := [...][]*budget.Limit{gateway, p.Model.Limits, p.Caller.Team.Limits, p.Caller.Key.Limits}
	n := 0
	for _, g := range groups {
		n += len(g)
	}
	lines := make([]budget.Line, 0, n)
	for _, g := range groups {
		for _, l := range g {
			if p.Call.RequestsOnly && l.Unit != budget.Requests {
				continue
			}
			if p.Flat && l.Unit == budget.USD {
				continue // a flat charge has no price
			}
			value := p.Counter(l)
			l = l.For(value)
			lines = append(lines, budget.Line{Limit: l, Value: value, Amount: p.reserves(l)})
		}
	}
	return lines
}

// Counter picks the counter of a limit that has several.
func (p *Plan) Counter(l *budget.Limit) string {
	switch l.Scope {
	case budget.User:
		if p.Caller.User == "" {
			return anonymous
		}
		return p.Caller.User
	case budget.IP:
		return p.Caller.Counter
	case budget.Model:
		if l.Single() {
			return ""
		}
		return p.Model.Name
	default:
		return ""
	}
}
