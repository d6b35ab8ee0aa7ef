package proxy

import (
	"encoding/json"
	"net/http"
	"slices"

	"llmgw/internal/budget"
	"llmgw/internal/charge"
	"llmgw/internal/dialect"
	"llmgw/internal/fault"
	"llmgw/internal/ledger"
	"llmgw/internal/tokens"
)

// used is what a reservation has come to.
type used struct {
	outcome  charge.Outcome
	usage    tokens.Usage
	microUSD int64
	used     []int64 // of each line
}

// useOf reads a usage object in any dialect's own form, or amounts by unit. One of
// the two must be there.
func (c *outsideCall) useOf(p *plan, usage json.RawMessage, given amounts) (used, error) {
	if string(usage) == "null" {
		usage = nil
	}
	switch {
	case usage == nil && given == nil:
		return used{}, fault.Invalid("usage", "Say what was used: usage, as the provider reported it, or amounts.")
	case usage != nil && given != nil:
		return used{}, fault.Invalid("amounts", "Give usage or amounts, not both.")
	}
	if usage != nil {
		if u, ok := c.usageOf(p, usage); ok {
			u = p.ByOperation(u)
			return used{usage: u, microUSD: p.Model.Cost(u), used: p.Amounts(u, p.Requests)}, nil
		}
		if json.Unmarshal(usage, &given) != nil || len(given) == 0 {
			return used{}, fault.Invalid("usage", "usage has no counts in the form of any API, such as {\"input_tokens\": 10, \"output_tokens\": 20}.")
		}
	}
	if err := given.check("amounts"); err != nil {
		return used{}, err
	}
	u := used{usage: tokens.Usage{Input: tokens.Count(given[budget.InputTokens]), Output: tokens.Count(given[budget.OutputTokens])}}
	if u.usage == (tokens.Usage{}) {
		u.usage.Input = tokens.Count(given[budget.Tokens])
	}
	money, ok := given[budget.USD]
	if u.microUSD = money; !ok {
		u.microUSD = p.Model.Cost(u.usage)
	}
	u.used = p.Amounts(u.usage, p.Requests)
	for i, l := range p.Lines {
		if n, ok := given[l.Limit.Unit]; ok && l.Limit.Unit != budget.Concurrency {
			u.used[i] = n
		}
	}
	return u, nil
}

// usageOf reads a usage object as the meters of answers do.
func (c *outsideCall) usageOf(p *plan, usage json.RawMessage) (tokens.Usage, bool) {
	var object map[string]json.RawMessage
	if json.Unmarshal(usage, &object) != nil {
		return tokens.Usage{}, false
	}
	d := c.reporter(object, p.dialect)
	document := map[string]json.RawMessage{}
	if d.Profile().UsageInAnswer {
		document = object
	}
	document["usage"], document["usageMetadata"] = usage, usage
	data, err := json.Marshal(document)
	if err != nil {
		return tokens.Usage{}, false
	}
	for _, e := range d.Endpoints() {
		if e.Operation != dialect.Chat && e.Operation != dialect.Responses {
			continue
		}
		call := &dialect.Call{Dialect: d.Name(), Request: dialect.Request{Endpoint: e}}
		m := d.Meter(call, dialect.Answer{Status: http.StatusOK, Header: dialect.Header{"Content-Type": {"application/json"}}},
			dialect.MeterOptions{Count: func([]byte) tokens.Count { return 0 }})
		m.Feed(data)
		m.End()
		if r := m.Report(); r.InputKnown || r.OutputKnown {
			return r.Usage, true
		}
	}
	return tokens.Usage{}, false
}

// reporter is the dialect whose report of usage has fields of object's names, or
// otherwise if that is not sure.
func (g *Gateway) reporter(object map[string]json.RawMessage, otherwise dialect.Dialect) dialect.Dialect {
	for _, d := range g.Dialects {
		if slices.ContainsFunc(d.Profile().UsageFields, func(name string) bool { return object[name] != nil }) {
			return d
		}
	}
	return otherwise
}

// drawnBy is what was drawn from each limit, and given back.
func (p *plan) drawnBy(used []int64) []ledger.Drawn {
	drawn := make([]ledger.Drawn, len(p.Lines))
	for i, l := range p.Lines {
		unit := l.Limit.Unit
		drawn[i] = ledger.Drawn{
			Limit: p.LimitedBy(l), Unit: string(unit), Reserved: unit.Number(l.Amount), Used: unit.Number(used[i]), Returned: unit.Number(max(0, l.Amount-used[i])),
		}
	}
	return drawn
}
