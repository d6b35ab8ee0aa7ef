package proxy

import (
	"context"

	"llmgw/internal/dialect"
	"llmgw/internal/estimate"
	"llmgw/internal/fault"
	"llmgw/internal/tokens"
)

// outcome is how a call ended; the values are the metric's label.
type outcome string

const (
	completed         outcome = "completed"
	clientGone        outcome = "client_gone"
	upstreamError     outcome = "upstream_error"
	upstreamTruncated outcome = "upstream_truncated"
	timedOut          outcome = "timeout"
	refused           outcome = "refused"
	invalid           outcome = "invalid"
	internalError     outcome = "internal"
)

// ending is how a call ended and what it is charged.
//
//	                       sent to provider?  output came?  charged
//	refused, invalid       no                 no            nothing
//	no answer, an error    yes                no            nothing
//	client left early      yes                no            the input
//	client left, cut       yes                yes           what is known, else counted
//	completed              yes                yes           what the provider says, else counted
//	goes on without us     yes                later         what is told of its end, else the whole reservation
//	panic                  ?                  ?             nothing
type ending struct {
	outcome   outcome
	usage     tokens.Usage
	estimated bool  // at least one side of usage was counted by us
	requests  int64 // what the call counts for in a limit of requests
}

// worst is assumed until something better is known: all is refunded.
var worst = ending{outcome: internalError}

// refunded ends a call that used nothing.
func refunded(o outcome) ending { return ending{outcome: o} }

// inputOnly ends a call whose client left after the request was sent and before
// any answer: the provider has read the prompt.
func inputOnly(p *plan) ending {
	if p.call.Detached {
		return wholeReserve(p, clientGone)
	}
	return ending{outcome: clientGone, usage: tokens.Usage{Input: p.estimate.Input, Tiers: p.estimate.Allows.Tiers}, estimated: true, requests: p.requests}
}

// wholeReserve ends a call of which nobody here will see what it comes to: its
// client left, by the policy charge_estimate, or it goes on in the background.
func wholeReserve(p *plan, o outcome) ending {
	return ending{outcome: o, usage: p.reserved(), estimated: true, requests: p.requests}
}

// metered ends a call whose answer came, whole or in part: charged by what the
// provider reported, and where it did not, by what we counted. An error
// document, or an error event before any output, is charged nothing.
func metered(p *plan, o outcome, status int, r dialect.Report) ending {
	if status >= 300 || (r.Failure != nil && !r.Content && !r.OutputKnown) {
		if o == completed {
			o = upstreamError
		}
		return refunded(o)
	}
	e := ending{outcome: o, usage: r.Usage, requests: p.requests}
	if !r.TierKnown {
		e.usage.Tiers |= p.estimate.Allows.Tiers
	}
	if p.flat {
		e.usage = p.reserved()
		return e
	}
	if p.call.RequestsOnly {
		e.usage = tokens.Usage{}
		return e
	}
	if p.call.Detached && !r.Complete && r.Failure == nil {
		return wholeReserve(p, o)
	}
	if !r.InputKnown {
		e.usage.Input, e.usage.CachedInput, e.usage.CacheWrite = p.expected().Input, 0, 0
		if r.Seconds > 0 {
			e.usage.Input = estimate.Sound(r.Seconds)
		}
		e.estimated = true
	}
	if p.call.NoOutput {
		return e
	}
	if !r.OutputKnown {
		most := p.expected().Output
		switch {
		case unseen(p.call.Endpoint.Operation):
			e.usage.Output = most
		case r.Unreadable:
			e.usage.Output = max(e.usage.Output, min(r.Counted, most))
		default:
			e.usage.Output = max(e.usage.Output, r.Counted)
		}
		e.estimated = true
	}
	return e
}

// unseen tells whether the output of an operation, pictures or sound, does not
// show how many tokens it is: without a report it costs what was reserved.
func unseen(o dialect.Operation) bool { return o == dialect.Images || o == dialect.Speech }

// unanswered is how a call ends that got no answer.
func unanswered(p *plan, client context.Context, sent bool, err error) ending {
	if client.Err() != nil {
		if sent {
			return inputOnly(p)
		}
		return refunded(clientGone)
	}
	switch fault.From(err).Code {
	case fault.UpstreamTimeout:
		return refunded(timedOut)
	case fault.UpstreamCapacity:
		return refunded(refused)
	default:
		return refunded(upstreamError)
	}
}

// unbegun is how a call ends whose answer broke before the client got anything
// of it.
func (a *relayed) unbegun(err error) ending {
	a.resp.Meter.End()
	report := a.resp.Meter.Report()
	o := a.outcome(err, report)
	if o == completed {
		o = upstreamTruncated // all of it came but its end, and the client gets nothing
	}
	if len(a.held) == 0 && !a.chargesAll(o) {
		return unanswered(a.s.plan, a.client, true, err)
	}
	return a.ended(o, report)
}

// ended is how a call ends whose answer has come, whole or in part.
func (a *relayed) ended(o outcome, report dialect.Report) ending {
	e := metered(a.s.plan, o, a.resp.Status, report)
	if a.chargesAll(o) && e.usage.Total() > 0 { // an error costs nothing
		return wholeReserve(a.s.plan, o)
	}
	return e
}

// chargesAll tells whether an ending is charged for all that was reserved.
func (a *relayed) chargesAll(o outcome) bool {
	return o == clientGone && a.rules.OnClientGone == ChargeEstimate
}

// outcome names how the transfer ended.
func (a *relayed) outcome(err error, report dialect.Report) outcome {
	switch {
	case report.Complete && a.after == 0:
		return completed // also if the client left after all of it
	case a.gone || err != nil && a.client.Err() != nil:
		return clientGone
	case err == nil && !a.streams && a.resp.Status >= 400, a.streams && report.Failure != nil:
		return upstreamError // the provider says itself that it failed
	case err != nil && fault.From(err).Code == fault.UpstreamTimeout:
		return timedOut
	case err == nil && (!a.streams || report.Unreadable):
		return completed // sound, or what is not what the API gives: settled by estimate
	default:
		return upstreamTruncated
	}
}

// brokenOff is what a client is told at the end of a broken answer, beside that
// its connection breaks.
func brokenOff(o outcome) *fault.Error {
	if o == timedOut {
		return fault.New(fault.UpstreamTimeout, "The provider stopped sending its answer.")
	}
	return fault.New(fault.UpstreamError, "The provider broke off its answer.")
}
