package proxy

import (
	"context"
	"errors"

	"llmgw/internal/charge"
	"llmgw/internal/dialect"
	"llmgw/internal/fault"
)

// ErrShutdown is the cause by which the context of a request ends that is cut
// because the gateway stops.
var ErrShutdown = errors.New("proxy: the gateway stops")

// leftBy names why the client's context ended.
func leftBy(client context.Context) charge.Outcome {
	if errors.Is(context.Cause(client), ErrShutdown) {
		return charge.Shutdown
	}
	return charge.ClientGone
}

// endsWait are the refusals of a call that waited for a provider.
var endsWait = map[fault.Code]bool{
	fault.UpstreamCapacity: true, fault.LimiterUnavailable: true, fault.ShuttingDown: true,
	fault.Blocked: true, fault.InvalidAPIKey: true, fault.ModelNotAllowed: true, fault.ModelNotFound: true,
}

// unanswered is how a call ends that got no answer. sent says that its request
// is at the provider.
func unanswered(p *plan, client context.Context, sent bool, err error) charge.Ending {
	o := charge.UpstreamError
	switch code := fault.From(err).Code; {
	case endsWait[code]:
		return charge.Refund(charge.Refused)
	case client.Err() != nil:
		o = leftBy(client)
	case code == fault.UpstreamTimeout:
		o = charge.TimedOut
	}
	if sent && (o == charge.TimedOut || client.Err() != nil) {
		return p.LeftEarly(p.At, o)
	}
	return charge.Refund(o)
}

// unbegun is how a call ends whose answer broke before the client got anything
// of it.
func (a *relayed) unbegun(err error) charge.Ending {
	a.resp.Meter.End()
	report := a.resp.Meter.Report()
	o := a.outcome(err, report)
	if o == charge.Completed {
		o = charge.UpstreamTruncated // all of it came but its end, and the client gets nothing
	}
	if len(a.held) == 0 && !a.chargesAll(o) {
		return unanswered(a.s.plan, a.client, true, err)
	}
	return a.ended(o, report)
}

// ended is how a call ends whose answer has come, whole or in part.
func (a *relayed) ended(o charge.Outcome, report dialect.Report) charge.Ending {
	e := a.s.plan.Metered(o, a.resp.Status, report)
	if a.chargesAll(o) && e.Usage.Total() > 0 { // an error costs nothing
		return a.s.plan.WholeReserve(o)
	}
	return e
}

// chargesAll tells whether an ending is charged for all that was reserved.
func (a *relayed) chargesAll(o charge.Outcome) bool {
	return o == charge.ClientGone && a.rules.OnClientGone == ChargeEstimate
}

// outcome names how the transfer ended.
func (a *relayed) outcome(err error, report dialect.Report) charge.Outcome {
	switch {
	case report.Complete && a.after == 0 && (!report.Due || err == nil), report.Billed && a.after == 0 && a.left():
		return charge.Completed // also if the client left after all of it
	case a.gone || err != nil && a.client.Err() != nil:
		return leftBy(a.client)
	case err == nil && !a.streams && a.resp.Status >= 400, a.streams && report.Failure != nil:
		return charge.UpstreamError // the provider says itself that it failed
	case err != nil && fault.From(err).Code == fault.UpstreamTimeout:
		return charge.TimedOut
	case err == nil && (!a.streams || report.Unreadable):
		return charge.Completed // sound, or what is not what the API gives: settled by estimate
	default:
		return charge.UpstreamTruncated
	}
}

// brokenOff is what a client is told at the end of a broken answer, beside that
// its connection breaks.
func brokenOff(o charge.Outcome) *fault.Error {
	if o == charge.TimedOut {
		return fault.New(fault.UpstreamTimeout, "The provider stopped sending its answer.")
	}
	return fault.New(fault.UpstreamError, "The provider broke off its answer.")
}
