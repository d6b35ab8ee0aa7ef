package charge

import (
	"cmp"
	"fmt"
	"slices"

	"llmgw/internal/dialect"
	"llmgw/internal/estimate"
	"llmgw/internal/fault"
	"llmgw/internal/tenant"
	"llmgw/internal/upstream"
)

// What a call costs depends on the target that answers it, which is known only
// then: each target counts in its own tokens. So the most that any of them needs is
// reserved, and what is learned, or charged where no usage is reported, is that of
// the target that answered.

// Estimate returns what a call for m would reserve if nothing was learned of m.
func (m *Model) Estimate(e *estimate.Estimator, call *dialect.Call) (estimate.Estimate, error) {
	p := Plan{Caller: Caller{Team: &tenant.Team{}}, Call: call, Model: m, Targets: TargetsFor(m, call.Dialect)}
	if len(p.Targets) == 0 {
		return estimate.Estimate{}, fault.Invalid("model", fmt.Sprintf("The model %q is not served by this API.", call.Model))
	}
	err := p.EstimateBy(e)
	return p.Estimate, err
}

// EstimateBy estimates p for its targets.
func (p *Plan) EstimateBy(e *estimate.Estimator) error {
	if len(p.Targets) == 1 {
		var err error
		p.Estimate, err = e.Estimate(p.Call, p.RulesFor(p.Targets[0]))
		return err
	}
	rules := make([]estimate.Rules, len(p.Targets))
	for i, t := range p.Targets {
		rules[i] = p.RulesFor(t)
	}
	each, err := e.EstimateEach(p.Call, rules)
	if err != nil {
		return err
	}
	p.each, p.Estimate = each, most(each)
	return nil
}

// most is the most input and the most output of several estimates.
func most(each []estimate.Estimate) estimate.Estimate {
	m := slices.MaxFunc(each, func(a, b estimate.Estimate) int { return cmp.Compare(a.Input, b.Input) })
	for _, e := range each {
		if e.Output > m.Output {
			m.Output, m.Parts.Output = e.Output, e.Parts.Output
		}
		m.MaxOutput = max(m.MaxOutput, e.MaxOutput)
		m.Allows = m.Allows.Or(e.Allows)
	}
	return m
}

// RulesFor are those by which p is estimated for a target.
func (p *Plan) RulesFor(t upstream.Target) estimate.Rules {
	r := p.Model.Rules
	r.Team = p.Caller.Team.Name
	r.Provider, r.Dialect, r.Flavor, r.ProviderModel = t.Provider.Name, t.Provider.Dialect, t.Provider.Flavor, t.Model
	return r
}

// AnsweredBy notes which target has p.
func (p *Plan) AnsweredBy(t upstream.Target) { p.At = max(0, slices.Index(p.Targets, t)) }

// Expected is the estimate for the target that has p, or will have it first.
func (p *Plan) Expected() estimate.Estimate { return p.expectedOf(p.At) }

// expectedOf is the estimate for the i-th target.
func (p *Plan) expectedOf(i int) estimate.Estimate {
	if p.each == nil {
		return p.Estimate
	}
	return p.each[i]
}

// unseenBy is what calls like p use unseen at the i-th target.
func (p *Plan) unseenBy(i int) estimate.Unseen {
	if p.Learned == nil {
		return estimate.Unseen{}
	}
	return p.Learned.Unseen(p.Call, p.RulesFor(p.Targets[i]), p.expectedOf(i))
}

// Counters returns how the output of a target is counted.
func (p *Plan) Counters(e *estimate.Estimator) func(upstream.Target) dialect.Counter {
	return func(t upstream.Target) dialect.Counter { return e.Counter(p.RulesFor(t)) }
}
