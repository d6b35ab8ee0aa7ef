package proxy

import (
	"maps"
	"slices"

	"llmgw/internal/charge"
	"llmgw/internal/dialect"
	"llmgw/internal/fault"
	"llmgw/internal/tenant"
	"llmgw/internal/tokens"
	"llmgw/internal/upstream"
)

// storedPlan plans a call about something that a provider keeps, such as a
// stored response. It names no model, so that each provider that the team's
// models lead to may have it: one that does not know it is passed over.
func (r *Rules) storedPlan(who charge.Caller, d dialect.Dialect, call *dialect.Call) (*plan, error) {
	m := &charge.Model{Name: charge.Wildcard, Weights: tokens.Even, Targets: r.keepers(who.Key, call.Dialect)}
	if len(m.Targets) == 0 {
		return nil, &fault.Error{Code: fault.NotFound, Message: "No provider that this key may use keeps anything for this API.", NoRetry: true}
	}
	p := &plan{Plan: charge.Plan{Caller: who, Call: call, Model: m, Targets: m.Targets, Requests: 1}, dialect: d, maxWait: -1}
	p.Lines = p.Draws(r.Limits)
	return p, nil
}

// keepers are the providers that speak a client's dialect behind the models
// that key may use, each once.
func (r *Rules) keepers(key *tenant.Key, client string) []upstream.Target {
	var all []upstream.Target
	for _, name := range slices.Sorted(maps.Keys(r.Models)) {
		if !key.Allows(name) {
			continue
		}
		for _, t := range charge.TargetsFor(r.Models[name], client) {
			known := func(other upstream.Target) bool { return other.Provider == t.Provider }
			if !slices.ContainsFunc(all, known) {
				all = append(all, upstream.Target{Provider: t.Provider, Weight: 1})
			}
		}
	}
	return all
}
