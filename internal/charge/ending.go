package charge

import (
	"llmgw/internal/dialect"
	"llmgw/internal/estimate"
	"llmgw/internal/tokens"
)

// Outcome is how a call ended. The values are the metric's label.
type Outcome string

// The outcomes.
const (
	Completed         Outcome = "completed"
	ClientGone        Outcome = "client_gone"
	UpstreamError     Outcome = "upstream_error"
	UpstreamTruncated Outcome = "upstream_truncated"
	TimedOut          Outcome = "timeout"
	Refused           Outcome = "refused"
	Invalid           Outcome = "invalid"
	InternalError     Outcome = "internal"
	Shutdown          Outcome = "shutdown" // the gateway cut it, since it stops
)

// Ending is how a call ended and what it is charged.
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
type Ending struct {
	Outcome   Outcome
	Usage     tokens.Usage
	Estimated bool  // at least one side of usage was counted by us
	Requests  int64 // what the call counts for in a limit of requests
}

// Worst is assumed until something better is known: all is refunded.
var Worst = Ending{Outcome: InternalError}

// Refund ends a call that used nothing.
func Refund(o Outcome) Ending { return Ending{Outcome: o} }

// LeftEarly ends a call that its i-th target had, and whose answer nobody waited
// for: the provider has read the prompt, and may have written all of a document.
func (p *Plan) LeftEarly(i int, o Outcome) Ending {
	switch {
	case p.Call.Detached || p.Flat:
		return p.WholeReserve(o)
	case p.Call.RequestsOnly:
		return Ending{Outcome: o, Estimated: true, Requests: p.Requests}
	}
	seen := dialect.Report{Stream: p.Call.Stream}
	u := tokens.Usage{Input: p.inputOf(i), Output: p.produced(i, seen), Tiers: p.Estimate.Allows.Tiers}
	return Ending{Outcome: o, Usage: u, Estimated: true, Requests: p.Requests}
}

// WholeReserve ends a call of which nobody here will see what it comes to: its
// client left, by the policy charge_estimate, it goes on in the background, or
// its answer cannot be read.
func (p *Plan) WholeReserve(o Outcome) Ending {
	return Ending{Outcome: o, Usage: p.Reserved(), Estimated: true, Requests: p.Requests}
}

// Metered ends a call whose answer came, whole or in part: charged by what the
// provider reported, and where it did not, by what we counted. An error
// document, or an error event before any output, is charged nothing.
func (p *Plan) Metered(o Outcome, status int, r dialect.Report) Ending {
	if status >= 300 || (r.Failure != nil && !r.Content && !r.OutputKnown) {
		if o == Completed {
			o = UpstreamError
		}
		return Refund(o)
	}
	e := Ending{Outcome: o, Usage: r.Usage, Requests: p.Requests}
	if !r.TierKnown {
		e.Usage.Tiers |= p.Estimate.Allows.Tiers
	}
	switch {
	case p.Flat:
		e.Usage = p.Reserved()
		return e
	case p.Call.RequestsOnly:
		e.Usage = tokens.Usage{}
		return e
	case p.Call.Detached && !r.Complete && r.Failure == nil:
		return p.WholeReserve(o)
	case r.Unreadable && !r.OutputKnown && !p.Call.NoOutput:
		return p.WholeReserve(o)
	}
	if !r.InputKnown || r.Usage.Input == 0 && r.Content {
		e.Usage.Input, e.Usage.CachedInput, e.Usage.CacheWrite = p.inputOf(p.At), 0, 0
		if r.Seconds > 0 {
			e.Usage.Input = estimate.Sound(r.Seconds)
		}
		e.Estimated = true
	}
	if p.Call.NoOutput || p.Believes(r) {
		return e
	}
	e.Usage.Output, e.Estimated = max(e.Usage.Output, p.produced(p.At, r)), true
	if unseen(p.Call.Endpoint.Operation) {
		e.Usage.Output = p.Expected().Output
	}
	return e
}

// inputOf is the input of a call that its i-th target had and did not report.
func (p *Plan) inputOf(i int) tokens.Count {
	return max(p.expectedOf(i).Shown().Input, p.unseenBy(i).Input)
}

// produced is the output that the i-th target has produced for r, as far as it
// was counted, and as calls of this kind use unseen: all reasoning comes before
// the text, and all of a document before its first byte.
func (p *Plan) produced(i int, r dialect.Report) tokens.Count {
	most, u := p.expectedOf(i).Output, p.unseenBy(i)
	n := min(tokens.Add(r.Counted, u.Hidden), max(r.Counted, most))
	if !r.Stream && !r.Complete {
		n = max(n, min(u.Output, most))
	}
	return n
}

// Believes reports whether the output that r reports is the bill: not less than
// half of what was seen of it, which no tokenizer explains, nor a running count
// without what such calls hide.
func (p *Plan) Believes(r dialect.Report) bool {
	switch {
	case !r.OutputKnown:
		return false
	case r.Complete && !r.Due || r.Billed || r.Failure != nil:
		return r.Usage.Output >= r.Counted/2
	default:
		return r.Usage.Output+r.Counted/2 >= p.produced(p.At, r)
	}
}

// unseen reports whether the output of an operation, pictures or sound, does not
// show how many tokens it is: without a report it costs what was reserved.
func unseen(o dialect.Operation) bool { return o == dialect.Images || o == dialect.Speech }
