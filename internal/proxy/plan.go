package proxy

import (
	"fmt"
	"net/http"
	"time"

	"llmgw/internal/charge"
	"llmgw/internal/dialect"
	"llmgw/internal/fault"
)

// plan is a call that is known to be allowed: how it is charged, and how it is
// sent.
type plan struct {
	charge.Plan
	body    *body // of the call; nil: it is not a request's
	dialect dialect.Dialect
	maxWait time.Duration // X-LLMGW-Max-Wait; negative: not sent
	// still decides anew who the client is and which model it asks for, while the
	// call waits; nil: that stays.
	still func(*Rules) (charge.Caller, *charge.Model, error)
	life  time.Duration // of a reservation that its caller settles; 0: it is a call's own
	since uint64        // Room.Wakes before the client was identified
}

// plan resolves a parsed call: the model it may use, the targets that speak its
// dialect, its estimate, and the lines that it draws on.
func (g *Gateway) plan(rules *Rules, who charge.Caller, d dialect.Dialect, call *dialect.Call) (*plan, error) {
	model, err := rules.model(who.Key, call.Model)
	if err != nil {
		return nil, err
	}
	p := &plan{Plan: charge.Plan{Caller: who, Call: call, Model: model, Requests: 1, Learned: g.Estimator}, dialect: d, maxWait: -1}
	p.Targets = charge.TargetsFor(model, call.Dialect)
	if len(p.Targets) == 0 {
		return nil, g.wrongDialect(call.Model, model)
	}
	began := time.Now()
	err = p.EstimateBy(g.Estimator)
	g.Metrics.EstimateSeconds(p.Label(), time.Since(began))
	if err != nil {
		return nil, err
	}
	p.Lines = p.Draws(rules.Limits)
	return p, nil
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
