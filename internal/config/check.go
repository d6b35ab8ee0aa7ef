package config

import (
	"maps"
	"slices"

	"llmgw/internal/budget"
	"llmgw/internal/tokens"
)

// check looks at the file as a whole, when all of it was read.
func (d *decoder) check() {
	d.checkReferences()
	for _, l := range d.limits {
		if l.Unit == budget.USD {
			d.checkPrices(l)
		}
		d.checkDefaults(l)
	}
}

// checkTeams warns of teams that nothing limits.
func (d *decoder) checkTeams(c *Config) {
	if len(c.Limits) > 0 {
		return
	}
	for i := range c.Teams {
		t := &c.Teams[i]
		limited := len(t.Limits) > 0
		for k := range t.Keys {
			limited = limited || len(c.limitsOf(t, &t.Keys[k])) > 0
		}
		if n := d.teamNames[t.Name]; !limited && n != nil {
			d.warn(n, "nothing limits the team %q", t.Name)
		}
	}
}

// checkReferences finds names of what does not exist.
func (d *decoder) checkReferences() {
	for _, n := range d.providerRefs {
		if _, ok := d.providers[n.text]; !ok {
			d.fail(n, "there is no provider %s%s", show(n), didYouMean(n.raw, asWritten(d.providers)))
		}
	}
	for _, n := range d.teamRefs {
		if _, ok := d.teamNames[n.text]; !ok {
			d.fail(n, "there is no team %s%s", show(n), didYouMean(n.raw, asWritten(d.teamNames)))
		}
	}
	if _, all := d.modelNames[anyModel]; all {
		return
	}
	for _, n := range d.modelRefs {
		if _, ok := d.modelNames[n.text]; !ok && n.text != anyModel {
			d.fail(n, "there is no model %s%s", show(n), didYouMean(n.raw, asWritten(d.modelNames)))
		}
	}
}

// asWritten lists names as the file has them.
func asWritten(names map[string]*node) []string {
	var all []string
	for _, n := range slices.Collect(maps.Values(names)) {
		all = append(all, n.raw)
	}
	return all
}

// checkPrices fails if a money limit can meet a model without a price.
func (d *decoder) checkPrices(l placedLimit) {
	for _, m := range d.models {
		if m.Prices == nil && l.meets(m.Model) {
			d.fail(l.node, "this usd limit can meet the model %s, which has no prices (%s)", show(m.name), m.name.seenFrom(l.node))
		}
	}
}

// checkDefaults warns of a limit that no request without a maximum can fit.
func (d *decoder) checkDefaults(l placedLimit) {
	if l.Mode == budget.Shadow {
		return
	}
	for _, m := range d.models {
		if need := defaultCost(l.Unit, m.Model); need > tokens.Count(l.Capacity()) && l.meets(m.Model) {
			d.warn(l.node, "a request for %s that sets no maximum of output reserves more than this limit ever has: "+
				"it can never fit (see the model's default_max_output, %s)", show(m.name), m.name.seenFrom(l.node))
		}
	}
}

// defaultCost is what the output alone of a request without a maximum reserves.
func defaultCost(u budget.Unit, m *Model) tokens.Count {
	output := tokens.Usage{Output: m.DefaultMaxOutput}
	switch {
	case m.ReserveOutput == "learned":
		return 0
	case u == budget.Tokens:
		return m.Weights.Cost(output)
	case u == budget.OutputTokens:
		return m.DefaultMaxOutput
	case u == budget.USD && m.Prices != nil:
		return m.Prices.Cost(output)
	default:
		return 0
	}
}
