package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"llmgw/internal/fault"
)

// body is an answer's body under the idle timeout. The time runs only inside
// Read, so that a slow client does not count against the provider. One
// goroutine reads; Close may come from another.
type body struct {
	outer, inner context.Context
	cancel       context.CancelCauseFunc
	provider     *Provider
	from         io.ReadCloser
	payload      *payload
	timer        *time.Timer // nil: no timeout
}

func newBody(outer, inner context.Context, cancel context.CancelCauseFunc, p *Provider, from io.ReadCloser, sent *payload) *body {
	b := &body{outer: outer, inner: inner, cancel: cancel, provider: p, from: from, payload: sent}
	if idle := p.Timeouts.Idle; idle > 0 {
		b.timer = time.AfterFunc(idle, func() { cancel(errIdle) })
		b.timer.Stop()
	}
	return b
}

// Read reads. Its errors are io.EOF, the context's, and *fault.Error:
// UpstreamTimeout if nothing came for the idle timeout, UpstreamError if the
// provider broke off.
func (b *body) Read(p []byte) (int, error) {
	if b.timer != nil {
		b.timer.Reset(b.provider.Timeouts.Idle)
	}
	n, err := b.from.Read(p)
	if b.timer != nil {
		b.timer.Stop()
	}
	if err == nil || err == io.EOF {
		return n, err
	}
	return n, b.explain(err)
}

// explain turns a read's error into ours.
func (b *body) explain(err error) error {
	if b.outer.Err() != nil {
		return b.outer.Err()
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
