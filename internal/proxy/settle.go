package proxy

import (
	"context"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"llmgw/internal/dialect"
	"llmgw/internal/estimate"
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
//	goes on without us     yes                later         the whole reservation
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
	return ending{outcome: clientGone, usage: tokens.Usage{Input: p.estimate.Input}, estimated: true, requests: p.requests}
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
		e.usage.Output = max(e.usage.Output, r.Counted)
		if unseen(p.call.Endpoint.Operation) {
			e.usage.Output = p.estimate.Output
		}
		e.estimated = true
	}
	return e
}

// unseen tells whether the output of an operation, pictures or sound, does not
// show how many tokens it is: without a report it costs what was reserved.
func unseen(o dialect.Operation) bool { return o == dialect.Images || o == dialect.Speech }

// settlement ends one reservation exactly once, whoever calls it first.
type settlement struct {
	gateway  *Gateway
	plan     *plan
	held     reservation
	done     bool
	ending   ending
	reported time.Time // the last progress report
	trace    httptrace.ClientTrace
	sent     atomic.Bool // the last try's request was written whole
}

// settle charges e, wakes who waits for the limits, and remembers e for the
// record. Only the first call has an effect. It never blocks.
func (s *settlement) settle(e ending) {
	if s.done {
		return
	}
	s.done, s.ending = true, e
	if s.held.id == "" {
		return
	}
	s.gateway.Limiter.Settle(s.held.id, s.plan.amounts(e.usage, e.requests))
	s.gateway.waiting.wake(s.plan.lines)
}

// watch returns a context by which s learns that a request was written.
func (s *settlement) watch(ctx context.Context) context.Context {
	s.trace.WroteRequest = s.wrote
	return httptrace.WithClientTrace(ctx, &s.trace)
}

// wrote notes that a request was written, and tells what a crash is to charge
// from then until an answer begins. It is called while others use s.
func (s *settlement) wrote(info httptrace.WroteRequestInfo) {
	s.sent.Store(info.Err == nil)
	if info.Err != nil || s.held.id == "" {
		return
	}
	e := inputOnly(s.plan)
	s.gateway.Limiter.Sent(s.held.id, s.plan.amounts(e.usage, e.requests))
}

// progressEvery is how often a running stream tells the store what it has used:
// a crash then charges that, and what is still open shrinks.
const progressEvery = 5 * time.Second

// progress reports what the answer has used so far, at most once in
// progressEvery.
func (s *settlement) progress(now time.Time, m dialect.Meter, status int) {
	if s.held.id == "" || s.done || now.Sub(s.reported) < progressEvery {
		return
	}
	s.reported = now
	e := metered(s.plan, clientGone, status, m.Report())
	s.gateway.Limiter.Report(s.held.id, s.plan.amounts(e.usage, e.requests))
}
