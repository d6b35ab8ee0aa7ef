package proxy

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/dialect"
	"llmgw/internal/estimate"
	"llmgw/internal/fault"
	"llmgw/internal/tenant"
	"llmgw/internal/tokens"
	"llmgw/internal/upstream"
)

// Model is a name that clients may ask for, ready to serve.
type Model struct {
	Name      string // "*": any other name
	Targets   []upstream.Target
	Rules     estimate.Rules // but for what is a target's own
	CapOutput bool           // write the most that it may reserve into a request that set no bound
	Weights   tokens.Rates
	Prices    *tokens.Rates // micro-dollars a token; nil: none
	Limits    []*budget.Limit
	Created   int64 // unix seconds, for listings
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
		if m.Prices == nil {
			return 0
		}
		return int64(m.Prices.Cost(u))
	case budget.Concurrency:
		return 1
	default:
		return 0
	}
}

// caller is who asks, as far as limits are concerned. User is empty until the
// body is read.
type caller struct {
	tenant.Caller
	team *tenant.Team
	ip   string // the address's counter: IPv6 by /64
}

// anonymous is the user of requests that name none: they share one counter.
const anonymous = "anonymous"

// plan is a call that is known to be allowed: what it would cost and what it
// draws on.
type plan struct {
	caller   caller
	call     *dialect.Call
	dialect  dialect.Dialect
	model    *Model
	targets  []upstream.Target   // those of the model that speak the call's dialect
	estimate estimate.Estimate   // what is reserved
	each     []estimate.Estimate // for each target; nil: estimate
	at       int                 // the target that has the call
	lines    []budget.Line
	requests int64         // what it counts for in limits of requests
	flat     bool          // charged flat, whatever it uses
	maxWait  time.Duration // X-LLMGW-Max-Wait; negative: not sent
}

// reserved is the usage that the estimate stands for: no cache reads, and all
// the output that the request allows.
func (p *plan) reserved() tokens.Usage {
	return tokens.Usage{Input: p.estimate.Input, Output: p.estimate.Output}
}

// amounts is what usage counts for in each line of the plan; nothing where a
// slot was taken, which comes back.
func (p *plan) amounts(u tokens.Usage, requests int64) []int64 {
	used := make([]int64, len(p.lines))
	for i, l := range p.lines {
		if l.Limit.Unit != budget.Concurrency {
			used[i] = p.model.amount(l.Limit.Unit, u, requests)
		}
	}
	return used
}

// limitedBy is X-LLMGW-Limited-By for a line. A limit that counts each model
// within something else is told by the model.
func (p *plan) limitedBy(l budget.Line) string {
	if l.Limit.Scope == budget.Model && l.Value != "" {
		return string(budget.Model) + "/" + l.Value + "/" + l.Limit.Name
	}
	return l.Limit.By()
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

// plan resolves a parsed call: the model it may use, the targets that speak its
// dialect, its estimate, and the lines that it draws on.
func (g *Gateway) plan(rules *Rules, who caller, d dialect.Dialect, call *dialect.Call) (*plan, error) {
	model, err := rules.model(who.team, call.Model)
	if err != nil {
		return nil, err
	}
	p := &plan{caller: who, call: call, dialect: d, model: model, requests: 1, maxWait: -1}
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

// model finds the model that name asks for, as team may use it. A configured
// model that the team may not use is ModelNotAllowed; any other is
// ModelNotFound.
func (r *Rules) model(team *tenant.Team, name string) (*Model, error) {
	if m, ok := r.Models[name]; ok && name != wildcard {
		if team.Allows(name) {
			return m, nil
		}
		return nil, &fault.Error{
			Code: fault.ModelNotAllowed, Param: "model", NoRetry: true,
			Message: fmt.Sprintf("Team %q may not use the model %q.", team.Name, name),
		}
	}
	if m, ok := r.Models[wildcard]; ok && name != "" && (team.Allows(name) || team.Allows(wildcard)) {
		return m, nil
	}
	return nil, &fault.Error{
		Code: fault.ModelNotFound, Param: "model", NoRetry: true,
		Message: fmt.Sprintf("The model %q does not exist here. GET /v1/models lists what this key may use.", name),
	}
}

// speaks tells whether a provider's dialect serves calls of a client's dialect.
func speaks(provider, client string) bool {
	return provider == client || (client == "openai" && provider == "azure") || (client == "azure" && provider == "openai")
}

func targetsFor(m *Model, client string) []upstream.Target {
	if i := slices.IndexFunc(m.Targets, func(t upstream.Target) bool { return !speaks(t.Provider.Dialect, client) }); i < 0 {
		return m.Targets
	}
	var able []upstream.Target
	for _, t := range m.Targets {
		if speaks(t.Provider.Dialect, client) {
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
		if !speaks(provider, d.Name()) {
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

// lines is what p draws on: every limit of the gateway, the model, the team
// and the key, with the counter and the amount of each.
func (r *Rules) lines(p *plan) []budget.Line {
	groups := [...][]*budget.Limit{r.Limits, p.model.Limits, p.caller.team.Limits, p.caller.Key.Limits}
	n := 0
	for _, g := range groups {
		n += len(g)
	}
	lines := make([]budget.Line, 0, n)
	use := p.reserved()
	for _, g := range groups {
		for _, l := range g {
			if p.call.RequestsOnly && l.Unit != budget.Requests {
				continue
			}
			lines = append(lines, budget.Line{Limit: l, Value: p.counter(l), Amount: p.model.amount(l.Unit, use, p.requests)})
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
