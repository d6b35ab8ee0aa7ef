package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"llmgw/internal/dialect"
	"llmgw/internal/fault"
)

// attempt is one try that has its turn.
type attempt struct {
	ctx         context.Context
	target      Target
	model       string // part of the provider that it asks, by the model's name
	state       *state
	key         *key
	turn        *turn
	connections *connections
	began       time.Time // when it was admitted
}

// exchange sends a try and judges its answer. Whatever its outcome, a panic of
// the dialect included, the turn is settled by it or by the response that it
// holds.
func (c *Client) exchange(ctx context.Context, r *run, a attempt) (o outcome) {
	done := false
	defer func() {
		c.release(a)
		if !done {
			a.state.inflight.Add(-1)
			a.turn.full()
		}
	}()
	a.state.inflight.Add(1)
	o = c.tryOnce(ctx, r, a)
	o.target, o.key = a.target, a.key
	done = true
	if o.response == nil {
		a.state.inflight.Add(-1)
	}
	return o
}

// tryOnce is exchange without the care for panics.
func (c *Client) tryOnce(ctx context.Context, r *run, a attempt) outcome {
	p := a.target.Provider
	out, err := c.prepare(a, r)
	if err != nil {
		a.turn.settle(0, 0)
		return outcome{err: fault.From(err)}
	}
	sent := time.Now()
	resp, failed, err := send(ctx, a.connections, p, out, r.job.Watcher) //nolint:bodyclose // its Response is closed
	if err != nil {                                                      // the caller left
		a.turn.settle(1, p.flavor().Quota.Arrival(r.job.Input, 0))
		return outcome{err: fault.From(err)}
	}
	if failed != nil {
		c.observer.UpstreamRequest(p.Name, 0)
		return c.failed(a, *failed)
	}
	c.observer.UpstreamRequest(p.Name, resp.StatusCode)
	keep(resp.Header, a.key.secret)
	told := read(p.flavor(), resp.Header, time.Now())
	a.key.tell(told)
	c.heed(p.Name, a.key.pacer, told)
	response := r.response(a, resp, out)
	response.Sent = sent
	if resp.StatusCode >= 400 {
		return c.refused(a, response, out, r.job.Call)
	}
	if r.job.Call.Stream {
		if o, ok := c.opened(ctx, a, response); !ok {
			return o
		}
	} else if f := response.looked(r.job, out); f != nil {
		a.fail()
		response.discard()
		return c.beganWithError(a, *f)
	}
	c.healthy(a)
	if r.plain == a.state && r.rejection == saidInFields {
		c.remember(a, r.job)
	}
	return outcome{response: response}
}

// response is resp for the caller, with a meter that has seen nothing yet.
func (r *run) response(a attempt, resp *http.Response, out dialect.Outbound) *Response {
	answer := &Response{
		Status: resp.StatusCode, Header: resp.Header, Body: resp.Body,
		Target: a.target, Attempts: r.attempts, QueueWait: r.waited, HeaderAt: time.Now(),
		http: resp, key: a.key, state: a.state, turn: a.turn, model: a.target.model(r.job), kept: keeps(a.target.Provider, r.job),
	}
	answer.Meter = answer.meter(r.job, out)
	return answer
}

// meter is a meter of the answer that has seen nothing yet.
func (r *Response) meter(job *Job, out dialect.Outbound) dialect.Meter {
	return job.Dialect.Meter(job.Call, dialect.Answer{Status: r.Status, Header: dialect.Header(r.Header)},
		dialect.MeterOptions{HideUsage: out.Injected, Count: job.Counter(r.Target), Flavor: r.Target.Provider.Flavor})
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
func (c *Client) refused(a attempt, r *Response, out dialect.Outbound, call *dialect.Call) outcome {
	a.fail()
	raw, plain := start(r.Body, r.Header)
	r.Body = rejoined{io.MultiReader(bytes.NewReader(raw), r.Body), r.Body}
	e := readError(plain)
	o := outcome{response: r}
	if out.Injected && a.target.Provider.Usage != Always {
		if o.rejection = rejectedUsage(r.Status, plain, call); o.rejection != otherFault {
			o.again, o.plain = anywhere, a.state
			return o
		}
	}
	if sick(r.Status) {
		c.sick(a)
	}
	j := judge(r.Status, e, r.Header, time.Now())
	o.again, o.after = j.again, j.after
	c.heeds(a, j, fmt.Sprintf("status %d %s", r.Status, e.name()))
	if o.again == otherKey || shows(plain, a.key.secret) {
		r.discard()
		o.response, o.err = nil, ofCredential(a.target.Provider, j.rests, fmt.Errorf("the credential was refused: status %d %s", r.Status, e.name()))
	}
	return o
}

// heeds makes everyone follow what an answer says of its provider.
func (c *Client) heeds(a attempt, j judgement, why string) {
	if j.rate {
		a.key.pacer.slow(a.model, a.began)
	}
	if j.rate && j.width == wholeKey {
		a.key.pacer.hold(j.after)
	}
	c.rests(a, j, why)
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
		r.discard()
		return c.beganWithError(a, *report.Failure), false
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

// beganWithError is the outcome of an answer that is an error from its start,
// whatever its status.
func (c *Client) beganWithError(a attempt, f dialect.Failure) outcome {
	p, status := a.target.Provider, f.Status
	if status < 400 || status > 599 {
		status = http.StatusBadGateway
	}
	e := errorBody{code: f.Code, kind: f.Type, message: f.Message, moderated: moderation(f.Code, f.Message)}
	j := judge(status, e, nil, time.Now())
	if sick(status) {
		c.sick(a)
	}
	err := fmt.Errorf("the answer began with an error: status %d %s", status, e.name())
	c.heeds(a, j, err.Error())
	o := outcome{again: j.again, after: j.after}
	if o.again == otherKey || shows([]byte(f.Message), a.key.secret) {
		o.err = ofCredential(p, j.rests, err)
		return o
	}
	o.err = &fault.Error{Code: fault.UpstreamError, Status: status, Message: fmt.Sprintf("Provider %q failed: %s", p.Name, f.Message), Err: err}
	return o
}

// at is the state of t's provider and its connections.
func (c *Client) at(t Target) (*state, *connections) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.state(t.Provider)
	return s, s.connections
}
