package charge

import (
	"slices"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/dialect/registry"
	"llmgw/internal/estimate"
	"llmgw/internal/tokens"
	"llmgw/internal/upstream"
)

// Model is a name that clients may ask for, ready to serve.
type Model struct {
	Name    string // "*": any other name
	Targets []upstream.Target
	// SpillAfter is how long a call waits for the targets of one order before it
	// goes to those of the next.
	SpillAfter time.Duration
	Rules      estimate.Rules // but for what is a target's own
	CapOutput  bool           // write the most that it may reserve into a request that set no bound
	Weights    tokens.Rates
	Prices     *tokens.Prices // nil: none
	Limits     []*budget.Limit
	Created    int64 // unix seconds, for listings
}

// Amount is what usage counts for in a limit of unit. requests is what the call
// counts for in a limit of requests.
func (m *Model) Amount(unit budget.Unit, u tokens.Usage, requests int64) int64 {
	switch unit {
	case budget.Tokens:
		return int64(m.Weights.Cost(u))
	case budget.InputTokens:
		return int64(u.Input)
	case budget.OutputTokens:
		return int64(u.Output)
	case budget.Requests:
		return requests
	case budget.USD:
		return m.Cost(u)
	case budget.Concurrency:
		return 1
	default:
		return 0
	}
}

// Cost is what usage costs in micro-dollars; 0 if the model has no prices.
func (m *Model) Cost(u tokens.Usage) int64 {
	if m.Prices == nil {
		return 0
	}
	return int64(m.Prices.Cost(u))
}

// most is the most that a request can cost, in micro-dollars.
func (m *Model) most(u tokens.Usage, a tokens.Allows) int64 {
	if m.Prices == nil {
		return 0
	}
	return int64(m.Prices.Most(u, a))
}

// Label is the model's name for metrics: names that only "*" covers share one.
func (p *Plan) Label() string {
	if p.Model.Name == Wildcard {
		return "other"
	}
	return p.Model.Name
}

// Wildcard is the model that stands for every other name.
const Wildcard = "*"

// TargetsFor returns the targets of m that serve calls of the dialect client.
func TargetsFor(m *Model, client string) []upstream.Target {
	if i := slices.IndexFunc(m.Targets, func(t upstream.Target) bool { return !registry.Serves(t.Provider.Dialect, client) }); i < 0 {
		return m.Targets
	}
	var able []upstream.Target
	for _, t := range m.Targets {
		if registry.Serves(t.Provider.Dialect, client) {
			able = append(able, t)
		}
	}
	return able
}
