package config

import (
	"llmgw/internal/estimate"
	"llmgw/internal/tokens"
)

// anyModel is the name that stands for every name that is not configured.
const anyModel = "*"

// placedModel is a model and where its name stands.
type placedModel struct {
	*Model
	name *node
}

func (d *decoder) model(m *Model) func(*node) {
	return func(n *node) {
		*m = Model{DefaultMaxOutput: estimate.DefaultOutput, ReserveOutput: "max", Weights: tokens.Even}
		var targets, limits *node
		before := len(d.problems)
		d.object(n, fields{
			"name":               set(d, &m.Name, modelName),
			"targets":            keep(&targets),
			"spill_after":        set(d, &m.SpillAfter, duration(0, longest)),
			"encoding":           set(d, &m.Encoding, oneOf(estimate.Encodings...)),
			"default_max_output": set(d, &m.DefaultMaxOutput, count(1)),
			"max_output":         set(d, &m.MaxOutput, count(1)),
			"reserve_output":     set(d, &m.ReserveOutput, oneOf("max", "learned")),
			"cap_output":         set(d, &m.CapOutput, boolean),
			"weights":            d.weights(&m.Weights),
			"prices":             d.prices(&m.Prices),
			"limits":             keep(&limits),
		})
		d.need(n, "a model", "name", "targets")
		if len(d.problems) == before {
			d.maxima(m, n)
		}
		if targets != nil {
			d.targets(m, targets)
		}
		if m.Name == "" {
			return
		}
		d.unique(d.modelNames, m.Name, n.at("name"), "a model")
		d.models = append(d.models, placedModel{m, n.at("name")})
		d.limitList(limits, &m.Limits, modelPlace(m))
	}
}

// maxima brings the two maxima of a model's output together: the default is
// lowered where only the other is written.
func (d *decoder) maxima(m *Model, n *node) {
	if m.MaxOutput == 0 || m.DefaultMaxOutput <= m.MaxOutput {
		return
	}
	if n.value("default_max_output") == nil {
		m.DefaultMaxOutput = m.MaxOutput
		return
	}
	d.fail(n.at("default_max_output"), "is more than max_output, %s", show(n.at("max_output")))
}

// targets reads where a model's calls go.
func (d *decoder) targets(m *Model, n *node) {
	setList(d, &m.Targets, func(t *Target) func(*node) {
		return func(n *node) {
			*t = Target{Order: 1, Weight: 1}
			d.object(n, fields{
				"provider": d.providerName(&t.Provider),
				"model":    set(d, &t.Model, modelName),
				"order":    set(d, &t.Order, small(1, 100)),
				"weight":   set(d, &t.Weight, small(0, 1_000_000)),
			})
			d.need(n, "a target", "provider")
			if t.Model == "" && m.Name != anyModel {
				t.Model = m.Name
			}
		}
	})(n)
	if n.kind == list && len(n.items) == 0 {
		d.fail(n, "a model needs at least one target")
	}
	type place struct{ provider, model string }
	seen := make(map[place]*node, len(m.Targets))
	for i, t := range m.Targets {
		p := place{t.Provider, t.Model}
		if first, twice := seen[p]; twice && t.Provider != "" {
			d.fail(n.items[i], "the same provider and model as the target at %s", first.seenFrom(n.items[i]))
			continue
		}
		seen[p] = n.items[i]
	}
}

// providerName reads the name of a provider that must exist somewhere in the file.
func (d *decoder) providerName(dst *string) func(*node) {
	return func(n *node) {
		set(d, dst, name)(n)
		if *dst != "" {
			d.providerRefs = append(d.providerRefs, n)
		}
	}
}

// count reads a number of tokens.
func count(least int64) func(string) (tokens.Count, error) {
	read := amount(least)
	return func(s string) (tokens.Count, error) {
		n, err := read(s)
		return tokens.Count(n), err
	}
}

// weights reads what each class of token counts for. What is not said counts 1.
func (d *decoder) weights(r *tokens.Rates) func(*node) {
	return func(n *node) { d.object(n, d.rates(r)) }
}

func (d *decoder) rates(r *tokens.Rates) fields {
	return fields{
		"input":        set(d, &r.Input, decimal),
		"cached_input": set(d, &r.CachedInput, decimal),
		"cache_write":  set(d, &r.CacheWrite, decimal),
		"output":       set(d, &r.Output, decimal),
	}
}
