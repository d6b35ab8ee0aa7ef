package estimate

import (
	"llmgw/internal/dialect"
	"llmgw/internal/tokens"
)

// Observation is what became of a call that was estimated.
type Observation struct {
	Rules    Rules
	Estimate Estimate      // as Estimate returned it
	Call     *dialect.Call // may be nil
	Used     tokens.Usage  // as the provider reported it
	// InputKnown and OutputKnown say which sides of Used it reported.
	InputKnown, OutputKnown bool
	// Counted is the output that we counted in what came.
	Counted tokens.Count
	// Complete says that the answer was not cut short by us or by the client.
	Complete bool
}

// Observe learns from an answer. It returns at once.
func (e *Estimator) Observe(o Observation) {
	m := resolve(o.Call, o.Rules)
	if o.InputKnown && !m.exact && o.Estimate.teaches() {
		e.ratios.observe(ratioKey{o.Rules.Provider, m.name, o.Estimate.class, o.Rules.Team}, o.Estimate.base, o.Used.Input)
	}
	if k := o.Estimate.kinds; k != 0 && o.InputKnown && o.Complete {
		e.hidden.observe(outputKey{o.Rules.Team, o.Rules.clientModel(o.Call), k}, max(0, o.Used.Input-o.Estimate.Shown().Input))
	}
	if o.OutputKnown && o.Complete {
		choices := tokens.Count(1)
		if o.Call != nil {
			choices = max(1, o.Call.Choices)
		}
		if o.InputKnown {
			e.unseen.observe(unseenKey{o.Rules.Team, o.Rules.Provider, m.name, o.Estimate.hidden}, o.Estimate, o.Used, o.Counted)
		}
		e.outputs.observe(outputKey{o.Rules.Team, o.Rules.clientModel(o.Call), 0}, (o.Used.Output+choices-1)/choices)
	}
}
