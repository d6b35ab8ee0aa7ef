package proxy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/dialect"
	"llmgw/internal/dialect/registry"
	"llmgw/internal/estimate"
	"llmgw/internal/fault"
	"llmgw/internal/tenant"
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

// amount is what usage counts for in a limit of unit. requests is what the call
// counts for in a limit of requests.
func (m *Model) amount(unit budget.Unit, u tokens.Usage, requests int64) int64 {
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
		return m.cost(u)
	case budget.Concurrency:
		return 1
	default:
		return 0
	}
}

// cost is what usage costs in micro-dollars; 0 if the model has no prices.
func (m *Model) cost(u tokens.Usage) int64 {
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

// label is the model's name for metrics: names that only "*" covers share one.
func (p *plan) label() string {
	if p.model.Name == wildcard {
		return "other"
	}
	return p.model.Name
}

// label is the label of the model that a client names, which may be nothing.
func (r *Rules) label(name string) string {
	if _, configured := r.Models[name]; configured && name != wildcard {
		return name
	}
	return "other"
}

// wildcard is the model that stands for every other name.
const wildcard = "*"

// model finds the model that name asks for, as key may use it. A configured
// model that the key or its team may not use is ModelNotAllowed; any other is
// ModelNotFound.
func (r *Rules) model(key *tenant.Key, name string) (*Model, error) {
	if m, ok := r.Models[name]; ok && name != wildcard {
		if key.Allows(name) {
			return m, nil
		}
		whose := fmt.Sprintf("Team %q", key.Team.Name)
		if key.Team.Allows(name) {
			whose = fmt.Sprintf("The key %q", key.ID)
		}
		return nil, &fault.Error{
			Code: fault.ModelNotAllowed, Param: "model", NoRetry: true,
			Message: fmt.Sprintf("%s may not use the model %q.", whose, name),
		}
	}
	if m, ok := r.Models[wildcard]; ok && name != "" && (key.Allows(name) || key.Allows(wildcard)) {
		return m, nil
	}
	return nil, &fault.Error{
		Code: fault.ModelNotFound, Param: "model", NoRetry: true,
		Message: fmt.Sprintf("The model %q does not exist here. GET /v1/models lists what this key may use.", name),
	}
}

func targetsFor(m *Model, client string) []upstream.Target {
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

// wrongDialect refuses a call for a model that is served in other dialects, and
// names where.
func (g *Gateway) wrongDialect(name string, m *Model) error {
	var use []string
	for _, t := range m.Targets {
		if e := g.endpointOf(t.Provider.Dialect); !slices.Contains(use, e) {
			use = append(use, e)
		}
	}
	return fault.Invalid("model", fmt.Sprintf("The model %q is not served by this API. Call it at %s.", name, strings.Join(use, " or ")))
}

// endpointOf is where a client has calls sent to a provider of some dialect.
func (g *Gateway) endpointOf(provider string) string {
	for _, d := range g.Dialects {
		if !registry.Serves(provider, d.Name()) {
			continue
		}
		for _, e := range d.Endpoints() {
			if e.Operation == dialect.Chat {
				return e.Method + " " + braced(e.Pattern)
			}
		}
	}
	return "no path" // a dialect that nobody serves: the configuration has none
}
