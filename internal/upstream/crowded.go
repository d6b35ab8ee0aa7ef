package upstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"llmgw/internal/admission"
	"llmgw/internal/budget"
	"llmgw/internal/fault"
)

// late is the refusal of r, whose time has run out in the queue.
func (p *pacer) late(r request) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.full(r, time.Until(p.readyAt))
}

// ended is the error of r, whose wait ended with err.
func (p *pacer) ended(ctx context.Context, r request, err error) error {
	switch {
	case errors.Is(err, admission.ErrCrowded):
		return p.late(r)
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		return ctx.Err()
	default:
		return err
	}
}

// full is the refusal of r, which would have to wait for d: by the limit that
// refused last. mu is held.
func (p *pacer) full(r request, d time.Duration) error {
	d = max(d, slotPoll)
	e := &fault.Error{Code: fault.UpstreamCapacity, Wait: d}
	e.NoRetry = time.Until(p.paused) > fault.LongestHint // what the provider asked for, not our pace
	if p.paced == nil {                                  // a reload took the limits away meanwhile
		e.Message = "The provider's capacity was taken. Try again."
		return e
	}
	l := p.paced.lines[min(p.binding, len(p.paced.lines)-1)]
	e.Limit = &fault.Limit{Scope: string(l.Scope), Owner: l.Owner, Name: l.Name, Unit: string(l.Unit), Requested: 1, By: l.By()}
	what := "calls at a time"
	switch l.Unit {
	case budget.Requests:
		e.Limit.Amount, e.Limit.Per, what = p.paced.limits.RequestsPerMinute, string(budget.Minute), "requests per minute"
	case budget.Tokens:
		e.Limit.Amount, e.Limit.Per, what = p.paced.limits.TokensPerMinute, string(budget.Minute), "tokens per minute"
		e.Limit.Requested = int64(r.tokens)
	default:
		e.Limit.Amount = p.paced.limits.Concurrency
	}
	e.Message = fmt.Sprintf("The capacity of provider %q is taken: it takes %d %s, and this request's turn would not come in time. Try again in %.1f s.",
		l.Owner, e.Limit.Amount, what, (d + 50*time.Millisecond).Seconds()) // up
	return e
}
