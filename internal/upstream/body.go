package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"llmgw/internal/fault"
)

// body is an answer's body under the idle timeout; that of an error has a bound
// for all of it as well, since it decides what may follow. The time runs only
// inside Read, so that a slow client does not count against the provider. One
// goroutine reads; Close may come from another.
type body struct {
	outer, inner context.Context
	cancel       context.CancelCauseFunc
	provider     *Provider
	from         io.ReadCloser
	payload      *payload
	timer        *time.Timer   // of a Read, or before of the answer; nil: none was needed yet
	cause        atomic.Value  // error: why the timer ends the exchange
	longest      time.Duration // of a Read; 0: no timeout
	left         time.Duration // of an error's body, if bounded
	bounded      bool
}

// errorTime is how long an error's body may take, whole.
const errorTime = 3 * time.Second

func newBody(outer, inner context.Context, cancel context.CancelCauseFunc, p *Provider, from io.ReadCloser, sent *payload) *body {
	b := &body{outer: outer, inner: inner, cancel: cancel, provider: p, from: from, payload: sent}
	b.timed(p.Timeouts.Idle, errIdle)
	return b
}

// timed ends the exchange for a cause when a Read takes longer than d; 0: never.
func (b *body) timed(d time.Duration, cause error) {
	b.cause.Store(cause)
	b.longest = d
}

// start lets the time of a Read run.
func (b *body) start(d time.Duration) {
	if b.timer == nil {
		b.timer = time.AfterFunc(d, b.expire)
		return
	}
	b.timer.Reset(d)
}

// expire ends the exchange since something took too long.
func (b *body) expire() {
	cause, _ := b.cause.Load().(error)
	b.cancel(cause)
}

// isError makes the body one of an error, which has to come whole in time.
func (b *body) isError() {
	b.bounded, b.left = true, errorTime
	b.timed(errorTime, errDrips)
}

// Read reads. Its errors are io.EOF, the context's, and *fault.Error:
// UpstreamTimeout if nothing came for the idle timeout, UpstreamError if the
// provider broke off.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.read(p)
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	return n, b.explain(err)
}

// read reads under the timeout.
func (b *body) read(p []byte) (int, error) {
	switch {
	case b.bounded:
		began := time.Now()
		b.start(max(0, b.left))
		defer func() { b.left -= time.Since(began) }()
	case b.longest > 0:
		b.start(b.longest)
	default:
		return b.from.Read(p)
	}
	n, err := b.from.Read(p)
	b.timer.Stop()
	return n, err
}

// explain turns a read's error into ours.
func (b *body) explain(err error) error {
	if b.outer.Err() != nil {
		return b.outer.Err()
	}
	if errors.Is(context.Cause(b.inner), errDrips) {
		return &fault.Error{Code: fault.UpstreamTimeout, Err: errDrips, Message: fmt.Sprintf(
			"Provider %q failed, and did not say why within %s.", b.provider.Name, errorTime)}
	}
	if errors.Is(context.Cause(b.inner), errIdle) {
		return &fault.Error{Code: fault.UpstreamTimeout, Err: errIdle, Message: fmt.Sprintf(
			"Provider %q sent nothing for %s.", b.provider.Name, b.provider.Timeouts.Idle)}
	}
	return &fault.Error{Code: fault.UpstreamError, Err: err, Message: fmt.Sprintf(
		"Provider %q broke off its answer.", b.provider.Name)}
}

// Close ends the exchange: the connection is closed unless the body was read to
// its end, and the request's segments are not read any more.
func (b *body) Close() error {
	if b.timer != nil {
		b.timer.Stop()
	}
	err := b.from.Close()
	b.cancel(errEnded)
	b.payload.abandon()
	return err
}

// rejoined is a body whose start was read and is to be read again.
type rejoined struct {
	io.Reader
	io.Closer
}
