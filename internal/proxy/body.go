package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"llmgw/internal/concurrency"
	"llmgw/internal/dialect"
	"llmgw/internal/dialect/coding"
	"llmgw/internal/fault"
)

// body is the body of one request, and what it holds of the memory that all
// bodies share: from its first byte until its provider has answered. It belongs
// to one goroutine.
type body struct {
	gateway *Gateway
	team    string
	limit   int64             // the most bytes that it may have, sent or decoded
	held    int64             // bytes of the pool
	turn    *concurrency.Turn // at the gate; nil: it has none
	// sent is the body as it was sent, compressed, if that is much smaller; else
	// nil. encoding is its Content-Encoding.
	sent     []byte
	encoding string
	decoded  int64 // bytes of held that the decoded body takes
}

// light is the size in bytes up to which a body is worked on at once. Decoding,
// reading and counting a larger one takes a turn at the gate.
const light = 64 << 10

// keepSent is how many times smaller than the decoded body the body as it was
// sent must be to be kept for a wait: decoding it again costs time.
const keepSent = 4

// bodyShortage is when a client is told to come back that found no memory for
// its body.
const bodyShortage = time.Second

// parse reads r's body, and what the gateway needs to know of the call.
func (b *body) parse(w http.ResponseWriter, r *http.Request, rt route, params map[string]string) (call *dialect.Call, err error) {
	data, err := b.read(w, r)
	if err != nil {
		return nil, err
	}
	if err := b.enter(r.Context(), len(data)); err != nil {
		return nil, err
	}
	return rt.dialect.Parse(dialect.Request{
		Endpoint: rt.endpoint, Path: r.URL.EscapedPath(), Query: r.URL.RawQuery,
		Header: dialect.Header(r.Header), Body: data, Params: params,
	})
}

// read reads r's body to its end, decoded from its Content-Encoding. It returns
// RequestTooLarge without reading on if the body is announced or turns out to be
// larger than the limit, sent or decoded, and Overloaded if the bodies of this
// gateway have no memory left for it.
//
// The bytes belong to this request alone and are never reused: the transport
// may still read from them after the provider has answered.
func (b *body) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > b.limit {
		return nil, tooLarge(b.limit)
	}
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	data, err := b.readAll(w, r)
	b.encoding = r.Header.Get("Content-Encoding")
	if err != nil || coding.Plain(b.encoding) {
		return data, err
	}
	b.sent = data
	if data, err = b.decode(r.Context()); err != nil {
		return nil, err
	}
	b.decoded = int64(cap(data))
	if len(data) < keepSent*len(b.sent) || len(data) <= light {
		b.give(int64(cap(b.sent)))
		b.sent = nil
	}
	r.Header.Del("Content-Encoding")
	return data, nil
}

// piece is how many bytes are decoded before others may have their turn.
const piece = 256 << 10

// decode undoes the Content-Encoding of what was sent.
func (b *body) decode(ctx context.Context) ([]byte, error) {
	if err := b.enter(ctx, light+1); err != nil {
		return nil, err
	}
	r, err := coding.Open(b.encoding, bytes.NewReader(b.sent))
	if err != nil {
		return nil, b.undecodable(err)
	}
	defer func() { _ = r.Close() }() // it was read
	var data []byte
	for {
		if data, err = b.grow(data, 2*int64(len(b.sent)), b.limit+1); err != nil {
			return nil, err
		}
		n, err := r.Read(data[len(data):min(cap(data), len(data)+piece)])
		data = data[:len(data)+n]
		switch {
		case int64(len(data)) > b.limit:
			return nil, tooLarge(b.limit)
		case errors.Is(err, io.EOF):
			return data, nil
		case err != nil:
			return nil, b.undecodable(err)
		}
		if err := b.turn.Yield(ctx); err != nil {
			return nil, err
		}
	}
}

// grow gives a full buffer more memory: first bytes if it is empty, within what
// is given unseen, else twice what it has; never more than most.
func (b *body) grow(data []byte, first, most int64) ([]byte, error) {
	have := int64(cap(data))
	if int64(len(data)) < have {
		return data, nil
	}
	want := min(max(2*have, min(first, maxUnseen), 512), most)
	if err := b.take(want - have); err != nil {
		return nil, err
	}
	return append(make([]byte, 0, want), data...), nil
}

// undecodable refuses a body that its Content-Encoding cannot be undone of.
func (b *body) undecodable(err error) error {
	if errors.Is(err, coding.ErrUnknown) {
		return fault.Invalid("Content-Encoding", fmt.Sprintf("The content encoding %q is not understood; use gzip, deflate, br, zstd or none.", b.encoding))
	}
	e := fault.Invalid("Content-Encoding", fmt.Sprintf("The request's body is not valid %s.", b.encoding))
	e.Err = err
	return e
}

// take takes n bytes of the memory of all bodies, or returns Overloaded.
func (b *body) take(n int64) error {
	if !b.gateway.memory.Take(b.team, n) {
		return &fault.Error{
			Code: fault.Overloaded, Wait: bodyShortage,
			Message: fmt.Sprintf("The requests that team %q has here at this moment are too large together: this gateway has no memory left for another. Try again in a second.", b.team),
		}
	}
	b.held += n
	return nil
}

// give gives n bytes back.
func (b *body) give(n int64) {
	b.gateway.memory.Give(b.team, n)
	b.held -= n
}

// park lets go of the decoded body of a call that waits, if the body as it was
// sent can take its place. The nil body has nothing to let go.
func (b *body) park(c *dialect.Call) {
	if b != nil && b.sent != nil && c.Body != nil {
		c.Body = nil
		b.give(b.decoded)
	}
}

// load decodes the body of a call again that was parked. It returns Overloaded if
// there is no memory for it, or ctx's error.
func (b *body) load(ctx context.Context, c *dialect.Call) error {
	if b.sent == nil || c.Body != nil {
		return nil
	}
	data, err := b.decode(ctx)
	b.rest()
	if err == nil {
		c.Body, b.decoded = data, int64(cap(data))
	}
	return err
}

// done lets go of the body of a call that has its answer: a stream may outlive its
// request by hours.
func (b *body) done(c *dialect.Call) {
	c.Body, c.Members = nil, nil
	b.release()
}

// release gives all bytes back, and the turn at the gate.
func (b *body) release() {
	b.rest()
	b.give(b.held)
	b.sent = nil
}

// enter waits for a turn at the gate unless a body of size bytes is light, or b
// has its turn already. It returns ctx's error if that ends first.
func (b *body) enter(ctx context.Context, size int) (err error) {
	if size > light && b.turn == nil {
		b.turn, err = b.gateway.gate.Enter(ctx, b.team)
	}
	return err
}

// rest ends the turn at the gate.
func (b *body) rest() {
	if b.turn != nil {
		b.turn.Leave()
		b.turn = nil
	}
}
