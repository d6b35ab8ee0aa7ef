package proxy

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
// then: targets count in tokens of their own. So the most that any of them would
// need is reserved, and what is learned, or charged where no usage is told, is
// of the one that answered.

// Estimate says what a call for m would reserve if nothing was learned of m.
func (m *Model) Estimate(e *estimate.Estimator, call *dialect.Call) (estimate.Estimate, error) {
	p := plan{caller: caller{team: &tenant.Team{}}, call: call, model: m, targets: targetsFor(m, call.Dialect)}
	if len(p.targets) == 0 {
		return estimate.Estimate{}, fault.Invalid("model", fmt.Sprintf("The model %q is not served by this API.", call.Model))
	}
	err := p.estimateBy(e)
	return p.estimate, err
}

// estimateBy estimates p for its targets.
func (p *plan) estimateBy(e *estimate.Estimator) error {
	if len(p.targets) == 1 {
		var err error
		p.estimate, err = e.Estimate(p.call, p.rulesFor(p.targets[0]))
		return err
	}
	rules := make([]estimate.Rules, len(p.targets))
	for i, t := range p.targets {
		rules[i] = p.rulesFor(t)
	}
	each, err := e.EstimateEach(p.call, rules)
	if err != nil {
		return err
	}
	p.each, p.estimate = each, most(each)
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

// rulesFor are those by which p is estimated for a target.
func (p *plan) rulesFor(t upstream.Target) estimate.Rules {
	r := p.model.Rules
	r.Team = p.caller.team.Name
	r.Provider, r.Dialect, r.Flavor, r.ProviderModel = t.Provider.Name, t.Provider.Dialect, t.Provider.Flavor, t.Model
	return r
}

// answeredBy notes which target has p.
func (p *plan) answeredBy(t upstream.Target) { p.at = max(0, slices.Index(p.targets, t)) }

// expected is the estimate for the target that has p, or will have it first.
func (p *plan) expected() estimate.Estimate { return p.expectedOf(p.at) }

// expectedOf is the estimate for the i-th target.
func (p *plan) expectedOf(i int) estimate.Estimate {
	if p.each == nil {
		return p.estimate
	}
	return p.each[i]
}

// unseenBy is what calls like p use unseen at the i-th target.
func (p *plan) unseenBy(i int) estimate.Unseen {
	if p.learned == nil {
		return estimate.Unseen{}
	}
	return p.learned.Unseen(p.call, p.rulesFor(p.targets[i]), p.expectedOf(i))
}

// counters returns how the output of a target is counted.
func (p *plan) counters(e *estimate.Estimator) func(upstream.Target) dialect.Counter {
	return func(t upstream.Target) dialect.Counter { return e.Counter(p.rulesFor(t)) }
}
