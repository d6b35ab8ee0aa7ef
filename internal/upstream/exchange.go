package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"llmgw/internal/dialect"
	"llmgw/internal/fault"
)

// attempt is one try that has its turn.
type attempt struct {
	target      Target
	state       *state
	key         *key
	turn        *turn
	connections *connections
}

// exchange sends a try and judges its answer. Whatever its outcome, a panic of
// the dialect included, the turn is settled by it or by the response that it
// holds.
func (c *Client) exchange(ctx context.Context, r *run, a attempt) (o outcome) {
	done := false
	defer func() {
		if !done {
			a.state.inflight.Add(-1)
			a.turn.full()
		}
	}()
	a.state.inflight.Add(1)
	o = c.tryOnce(ctx, r, a)
	done = true
	if o.response == nil {
		a.state.inflight.Add(-1)
	}
	return o
}

// tryOnce is exchange without the care for panics.
func (c *Client) tryOnce(ctx context.Context, r *run, a attempt) outcome {
	p := a.target.Provider
	out, err := a.prepare(r)
	if err != nil {
		a.turn.settle(0, 0)
		return outcome{err: fault.From(err)}
	}
	sent := time.Now()
	resp, failed, err := send(ctx, a.connections, p, out) //nolint:bodyclose // its Response is closed
	if err != nil {                                       // the caller left
		a.turn.settle(1, atArrival(p, r.job.Input, 0))
		return outcome{err: fault.From(err)}
	}
	if failed != nil {
		c.observer.UpstreamRequest(p.Name, 0)
		return c.failed(a, *failed)
	}
	c.observer.UpstreamRequest(p.Name, resp.StatusCode)
	told := read(p.Flavor, resp.Header, time.Now())
	a.key.tell(told)
	c.heed(p.Name, a.key.pacer, told)
	response := r.response(a, resp, out)
	response.Sent = sent
	if resp.StatusCode >= 400 {
		return c.refused(a, response, out)
	}
	if r.job.Call.Stream {
		if o, ok := c.opened(ctx, a, response); !ok {
			return o
		}
	}
	c.healthy(a)
	if r.plain == a.state {
		c.remember(a)
	}
	return outcome{response: response}
}

// response is resp for the caller, with a meter that has seen nothing yet.
func (r *run) response(a attempt, resp *http.Response, out dialect.Outbound) *Response {
	call := r.job.Call
	return &Response{
		Status: resp.StatusCode, Header: resp.Header, Body: resp.Body,
		Meter: r.job.Dialect.Meter(call, dialect.Answer{Status: resp.StatusCode, Header: dialect.Header(resp.Header)},
			dialect.MeterOptions{
				HideUsage: out.Injected || call.Stream && !call.WantsUsage,
				Count:     r.job.Counter(a.target), Flavor: a.target.Provider.Flavor,
			}),
		Target: a.target, Attempts: r.attempts, QueueWait: r.waited, HeaderAt: time.Now(),
		http: resp, ended: sync.OnceFunc(func() { a.state.inflight.Add(-1) }), turn: a.turn, model: a.target.model(r.job), kept: keeps(a.target.Provider, r.job),
	}
}

// failed is the outcome of a try without an answer.
func (c *Client) failed(a attempt, f failure) outcome {
	if f.unsent {
		a.turn.settle(0, 0)
	}
	a.fail() // no effect where it was settled
	c.sick(a)
	o := outcome{err: f.fault, again: anywhere}
	if f.slow {
		o.again = elsewhere
	}
	return o
}

// fail settles the turn of a try that failed: its tokens come back, the call
// itself only where the provider does not count failures.
func (a attempt) fail() {
	calls := int64(1)
	if a.target.Provider.Failures == FreeFailures {
		calls = 0
	}
	a.turn.settle(calls, 0)
}

// refused is the outcome of an answer whose status is an error.
func (c *Client) refused(a attempt, r *Response, out dialect.Outbound) outcome {
	a.fail()
	raw, plain := start(r.Body, r.Header)
	r.Body = rejoined{io.MultiReader(bytes.NewReader(raw), r.Body), r.Body}
	now := time.Now()
	o := outcome{response: r}
	o.again, o.after = judge(r.Status, plain, r.Header, now)
	if out.Injected && a.target.Provider.Usage != Always && rejectsUsage(r.Status, plain) {
		o.again, o.plain = anywhere, a.state
	}
	if sick(r.Status) {
		c.sick(a)
	}
	if r.Status == http.StatusTooManyRequests && o.again == anywhere {
		o.held, o.spare = c.limited(a, o.after, r.Sent)
	}
	return o
}

// remember notes that a provider took a call without stream_options that it had
// rejected with them. Until then that may have been for something else, such as
// what the client itself put there.
func (c *Client) remember(a attempt) {
	if !a.state.plain.Swap(true) {
		c.log.Warn("the provider rejects stream_options; usage is counted here from now on", "provider", a.target.Provider.Name)
	}
}

// limited makes everyone follow a provider's refusal for its rate. It tells
// whether the pacer now holds calls back, and whether another key can serve.
func (c *Client) limited(a attempt, after time.Duration, sent time.Time) (held, spare bool) {
	now := time.Now()
	held = a.key.pacer.hold(after, sent)
	if after <= 0 {
		return false, false
	}
	a.key.until.Store(now.Add(after).UnixNano())
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range a.state.keys {
		_, wait := k.outlook(a.turn.counted(), now)
		spare = spare || wait == 0
	}
	return held, spare
}

// opened reads a stream until it has content. It returns false and the outcome
// if the stream fails or breaks off before.
func (c *Client) opened(ctx context.Context, a attempt, r *Response) (outcome, bool) {
	prefix, rest, err := peek(r.Body, r.Meter)
	r.Prefix, r.Body = prefix, rest
	report := r.Meter.Report()
	switch {
	case report.FailedFirst: // later ones are the client's to see
		a.fail()
		c.sick(a)
		r.discard()
		return beganWithError(a.target.Provider, *report.Failure), false
	case err == nil:
		return outcome{}, true
	case errors.Is(err, io.EOF):
		r.Body = ended{r.Body}
		return outcome{}, true
	}
	a.fail()
	r.discard()
	if ctx.Err() != nil {
		return outcome{err: fault.From(ctx.Err())}, false
	}
	c.sick(a)
	var f *fault.Error
	if !errors.As(err, &f) {
		f = broken(a.target.Provider, err)
	}
	o := outcome{err: f, again: anywhere}
	if f.Code == fault.UpstreamTimeout {
		o.again = elsewhere
	}
	return o, false
}

// beganWithError is the outcome of a stream that failed before it had content.
func beganWithError(p *Provider, f dialect.Failure) outcome {
	status := f.Status
	if status < 400 || status > 599 {
		status = http.StatusBadGateway
	}
	o := outcome{again: anywhere, err: &fault.Error{
		Code: fault.UpstreamError, Status: status,
		Message: fmt.Sprintf("Provider %q failed: %s", p.Name, f.Message),
		Err:     fmt.Errorf("the stream began with an error of type %q, code %q", f.Type, f.Code),
	}}
	e := errorBody{code: f.Code, kind: f.Type, message: f.Message}
	switch {
	case e.spent() || e.tooLarge():
		o.again = elsewhere
	case f.Status != 0:
		o.again, _ = judge(f.Status, nil, nil, time.Time{})
	case f.Type == "invalid_request_error":
		o.again = never
	}
	return o
}

// at is the state of t's provider and its connections.
func (c *Client) at(t Target) (*state, *connections) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.state(t.Provider)
	return s, s.connections
}

// healthy notes that the target serves.
func (c *Client) healthy(a attempt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.health(a.target).good()
}

// sick notes that the target failed.
func (c *Client) sick(a attempt) {
	now := time.Now()
	c.mu.Lock()
	h := c.health(a.target)
	closed := !h.open(now)
	h.bad(now)
	tripped := closed && h.open(now)
	c.mu.Unlock()
	if tripped {
		c.log.Warn("the target keeps failing and is passed over while others serve",
			"provider", a.target.Provider.Name, "model", a.target.Model)
	}
}
