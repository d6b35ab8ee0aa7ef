package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"

	"llmgw/internal/dialect"
	"llmgw/internal/fault"
)

// The causes that end an exchange from our side.
var (
	errFirstByte = errors.New("no answer in time")
	errIdle      = errors.New("the answer stalled")
	errDrips     = errors.New("the error's body did not come in time")
	errEnded     = errors.New("the exchange is over")
)

// failure is why an exchange has no answer.
type failure struct {
	fault *fault.Error
	// unsent says that the provider cannot have seen the request.
	unsent bool
	// slow says that the provider took the request and did not answer in time.
	slow bool
}

// send makes one exchange with p and returns its answer as soon as the header
// is there; the body's Read and Close are those of body. It returns a failure,
// or ctx's error if ctx ended. When it failed, out is not read any more.
//
// A kept connection may be closed by the provider at the moment that it is used.
// If it breaks before a byte of an answer, the request goes out once more, on a
// new connection.
func send(ctx context.Context, conns *connections, p *Provider, out dialect.Outbound, watcher Watcher) (*http.Response, *failure, error) {
	target, err := url.Parse(out.URL)
	if err != nil {
		return nil, &failure{fault: broken(p, fmt.Errorf("its address: %w", err)), unsent: true}, nil
	}
	inner, cancel := context.WithCancelCause(ctx)
	payload, w := newPayload(out.Body), &wire{watcher: watcher}
	req := (&http.Request{
		Method: out.Method, URL: target, Host: target.Host, Header: header(out),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(w.within(inner))
	payload.attach(req)

	b, late := newBody(ctx, inner, cancel, p, nil, payload), false
	if p.Timeouts.FirstByte > 0 {
		b.timed(p.Timeouts.FirstByte, errFirstByte)
		b.start(p.Timeouts.FirstByte)
	}
	resp, err := conns.roundTrip(req, w)
	if b.timer != nil {
		late = !b.timer.Stop()
	}
	if err == nil && late { // at the very moment
		_ = resp.Body.Close() // its connection is ended already
		err = errFirstByte
	}
	if err == nil && !isAnswer(resp.StatusCode) {
		_ = resp.Body.Close() // what follows is no answer
		err = fmt.Errorf("status %d is no answer", resp.StatusCode)
	}
	if err == nil {
		payload.release()
		b.from = resp.Body
		b.timed(p.Timeouts.Idle, errIdle)
		if resp.StatusCode >= 400 {
			b.isError()
		}
		resp.Body = b
		return resp, nil, nil
	}
	cause := context.Cause(inner)
	cancel(errEnded)
	payload.abandon()
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	return nil, explain(p, err, cause), nil
}

// isAnswer tells whether a status answers a call. A switch of protocols, which
// nobody asked for, does not, nor what is below all statuses. A redirect is not
// followed, nor shown: the client would take the gateway's key there.
func isAnswer(status int) bool {
	return status >= 200 && (status < 300 || status >= 400 || status == http.StatusNotModified)
}

// header is what is sent: out's, and no user agent where it names none.
func header(out dialect.Outbound) http.Header {
	h := http.Header(out.Header)
	if h == nil {
		h = make(http.Header)
	}
	if _, ok := h["User-Agent"]; !ok {
		h["User-Agent"] = nil
	}
	return h
}

// explain says why there is no answer.
func explain(p *Provider, err, cause error) *failure {
	if errors.Is(cause, errFirstByte) {
		return &failure{slow: true, fault: &fault.Error{Code: fault.UpstreamTimeout, Err: errFirstByte,
			Message: fmt.Sprintf("Provider %q did not answer within %s.", p.Name, p.Timeouts.FirstByte)}}
	}
	var op *net.OpError
	unsent := errors.As(err, &op) && op.Op == "dial"
	var n net.Error
	if errors.As(err, &n) && n.Timeout() {
		return &failure{unsent: unsent, fault: &fault.Error{Code: fault.UpstreamTimeout, Err: err,
			Message: fmt.Sprintf("Provider %q could not be reached in time.", p.Name)}}
	}
	return &failure{unsent: unsent, fault: broken(p, err)}
}

// broken is the fault of a provider that cannot be reached or broke off.
func broken(p *Provider, err error) *fault.Error {
	return &fault.Error{Code: fault.UpstreamError, Err: err,
		Message: fmt.Sprintf("Provider %q could not be reached or broke off.", p.Name)}
}

// payload is a request's body, in the segments that the dialect made. Once it
// is abandoned the segments are not read any more, whatever the transport does.
type payload struct {
	mu       sync.Mutex
	segments [][]byte
	size     int64
	latest   *payloadReader // that the transport was given
	sent     bool           // latest has read it all
	over     bool
}

func newPayload(segments [][]byte) *payload {
	p := &payload{segments: segments}
	for _, s := range segments {
		p.size += int64(len(s))
	}
	return p
}

// small is the size up to which a body is copied: the transport knows a body in
// memory, and writes it together with the header.
const small = 8 << 10

// attach makes p the body of req.
func (p *payload) attach(req *http.Request) {
	req.ContentLength = p.size
	if p.size == 0 {
		req.Body = http.NoBody
		return
	}
	if p.size <= small {
		whole := bytes.Join(p.segments, nil)
		p.segments, p.sent = nil, true
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(whole)), nil }
		req.Body, _ = req.GetBody() // never fails
		return
	}
	req.GetBody = func() (io.ReadCloser, error) { return p.reader(), nil }
	req.Body, _ = req.GetBody() // never fails
}

// reader reads p from its start. Readers that were made before no longer count.
func (p *payload) reader() *payloadReader {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.latest, p.sent = &payloadReader{payload: p, rest: p.segments}, false
	return p.latest
}

// abandon returns when nobody reads the segments, and nobody will.
func (p *payload) abandon() {
	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
}

// release lets the segments go if they were sent: the answer has come, and a
// stream may outlive its request by hours.
func (p *payload) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sent {
		p.segments, p.over = nil, true
	}
}

// payloadReader reads a payload from its start.
type payloadReader struct {
	payload *payload
	rest    [][]byte
	offset  int // in rest[0]
}

// Read copies from the segments.
func (r *payloadReader) Read(b []byte) (n int, err error) {
	r.payload.mu.Lock()
	defer r.payload.mu.Unlock()
	if r.payload.over {
		if r.payload.sent && len(r.rest) == 0 {
			return 0, io.EOF
		}
		return 0, errEnded
	}
	for n < len(b) && len(r.rest) > 0 {
		c := copy(b[n:], r.rest[0][r.offset:])
		n, r.offset = n+c, r.offset+c
		if r.offset == len(r.rest[0]) {
			r.rest, r.offset = r.rest[1:], 0
		}
	}
	if len(r.rest) > 0 {
		return n, nil
	}
	r.rest = nil
	r.payload.sent = r.payload.sent || r == r.payload.latest
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Close does nothing: the segments are another's.
func (r *payloadReader) Close() error { return nil }
