package proxy

import (
	"context"
	"errors"

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
	shutdown          outcome = "shutdown" // the gateway cut it, since it stops
)

// ErrShutdown is the cause by which the context of a request ends that is cut
// because the gateway stops.
var ErrShutdown = errors.New("proxy: the gateway stops")

// leftBy names why the client's context ended.
func leftBy(client context.Context) outcome {
	if errors.Is(context.Cause(client), ErrShutdown) {
		return shutdown
	}
	return clientGone
}

// ending is how a call ended and what it is charged.
//
//	                        sent to provider?  output came?  charged
//	refused, invalid        no                 no            nothing
//	no answer, an error     yes                no            nothing
//	left early, timed out   yes                no            the input, and what such calls use unseen
//	left, cut, timed out    yes                yes           what is known, else counted, and what such calls use unseen
//	completed               yes                yes           what the provider says, unless more was seen; else counted
//	goes on without us      yes                later         what is reported of its end, else the whole reservation
//	panic                   ?                  ?             nothing
//
// Who leaves early is the client, or this gateway when it stops. What calls use
// unseen is learned: see estimate.Unseen.
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

// leftEarly ends a call that its i-th target had, and whose answer nobody waited
// for: the provider has read the prompt, and may have written all of a document.
func leftEarly(p *plan, i int, o outcome) ending {
	switch {
	case p.call.Detached || p.flat:
		return wholeReserve(p, o)
	case p.call.RequestsOnly:
		return ending{outcome: o, estimated: true, requests: p.requests}
	}
	seen := dialect.Report{Stream: p.call.Stream}
	u := tokens.Usage{Input: p.inputOf(i), Output: p.produced(i, seen), Tiers: p.estimate.Allows.Tiers}
	return ending{outcome: o, usage: u, estimated: true, requests: p.requests}
}

// wholeReserve ends a call of which nobody here will see what it comes to: its
// client left, by the policy charge_estimate, it goes on in the background, or
// its answer cannot be read.
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
	switch {
	case p.flat:
		e.usage = p.reserved()
		return e
	case p.call.RequestsOnly:
		e.usage = tokens.Usage{}
		return e
	case p.call.Detached && !r.Complete && r.Failure == nil:
		return wholeReserve(p, o)
	case r.Unreadable && !r.OutputKnown && !p.call.NoOutput:
		return wholeReserve(p, o)
	}
	if !r.InputKnown || r.Usage.Input == 0 && r.Content {
		e.usage.Input, e.usage.CachedInput, e.usage.CacheWrite = p.inputOf(p.at), 0, 0
		if r.Seconds > 0 {
			e.usage.Input = estimate.Sound(r.Seconds)
		}
		e.estimated = true
	}
	if p.call.NoOutput || p.believes(r) {
		return e
	}
	e.usage.Output, e.estimated = max(e.usage.Output, p.produced(p.at, r)), true
	if unseen(p.call.Endpoint.Operation) {
		e.usage.Output = p.expected().Output
	}
	return e
}

// inputOf is the input of a call that its i-th target had and did not report.
func (p *plan) inputOf(i int) tokens.Count {
	return max(p.expectedOf(i).Shown().Input, p.unseenBy(i).Input)
}

// produced is the output that the i-th target has produced for r, as far as it
// was counted, and as calls of this kind use unseen: all reasoning comes before
// the text, and all of a document before its first byte.
func (p *plan) produced(i int, r dialect.Report) tokens.Count {
	most, u := p.expectedOf(i).Output, p.unseenBy(i)
	n := min(tokens.Add(r.Counted, u.Hidden), max(r.Counted, most))
	if !r.Stream && !r.Complete {
		n = max(n, min(u.Output, most))
	}
	return n
}

// believes reports whether the output that r reports is the bill: not less than
// half of what was seen of it, which no tokenizer explains, nor a running count
// without what such calls hide.
func (p *plan) believes(r dialect.Report) bool {
	switch {
	case !r.OutputKnown:
		return false
	case r.Complete && !r.Due || r.Billed || r.Failure != nil:
		return r.Usage.Output >= r.Counted/2
	default:
		return r.Usage.Output+r.Counted/2 >= p.produced(p.at, r)
	}
}

// unseen reports whether the output of an operation, pictures or sound, does not
// show how many tokens it is: without a report it costs what was reserved.
func unseen(o dialect.Operation) bool { return o == dialect.Images || o == dialect.Speech }

// endsWait are the refusals of a call that waited for a provider.
var endsWait = map[fault.Code]bool{
	fault.UpstreamCapacity: true, fault.LimiterUnavailable: true, fault.ShuttingDown: true,
	fault.Blocked: true, fault.InvalidAPIKey: true, fault.ModelNotAllowed: true, fault.ModelNotFound: true,
}

// unanswered is how a call ends that got no answer. sent says that its request
// is at the provider.
func unanswered(p *plan, client context.Context, sent bool, err error) ending {
	o := upstreamError
	switch code := fault.From(err).Code; {
	case endsWait[code]:
		return refunded(refused)
	case client.Err() != nil:
		o = leftBy(client)
	case code == fault.UpstreamTimeout:
		o = timedOut
	}
	if sent && (o == timedOut || client.Err() != nil) {
		return leftEarly(p, p.at, o)
	}
	return refunded(o)
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
	case report.Complete && a.after == 0 && (!report.Due || err == nil), report.Billed && a.after == 0 && a.left():
		return completed // also if the client left after all of it
	case a.gone || err != nil && a.client.Err() != nil:
		return leftBy(a.client)
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
