package upstream

import (
	"context"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"
)

// maxAnswerHeader bounds what a provider may send before its answer; it all goes
// on to the client.
const maxAnswerHeader = 256 << 10

// NewTransport returns the connections to one provider: kept alive in any
// number, HTTP/2 where TLS offers it, never decompressing, by the proxy that
// the environment names.
func NewTransport(p *Provider) http.RoundTripper {
	dialer := net.Dialer{Timeout: p.Timeouts.Connect, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dialer.DialContext,
		TLSHandshakeTimeout:    p.Timeouts.Connect,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    2048,
		IdleConnTimeout:        90 * time.Second,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: maxAnswerHeader,
		DisableCompression:     true,
		// A connection that died silently is noticed while a stream is quiet.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
	}
}

// connections are those to one provider. They are safe for concurrent use.
type connections struct {
	kept http.RoundTripper
	// fresh makes a new connection for each request. It is made when first needed.
	fresh func() http.RoundTripper
}

func newConnections(rt http.RoundTripper) *connections {
	return &connections{kept: rt, fresh: sync.OnceValue(func() http.RoundTripper {
		t, ok := rt.(*http.Transport)
		if !ok {
			return rt
		}
		fresh := t.Clone()
		fresh.DisableKeepAlives = true
		return fresh
	})}
}

// wire is what the transport says of one exchange, from its own goroutines.
type wire struct {
	watcher          Watcher // may be nil
	reused, answered atomic.Bool
	trace            httptrace.ClientTrace
}

// within returns a context by which w learns of the exchange.
func (w *wire) within(ctx context.Context) context.Context {
	answered := func() { w.answered.Store(true) }
	w.trace.GotConn = func(i httptrace.GotConnInfo) { w.reused.Store(i.Reused) }
	w.trace.GotFirstResponseByte, w.trace.Got100Continue = answered, answered
	if w.watcher != nil {
		w.trace.WroteRequest = func(i httptrace.WroteRequestInfo) { w.watcher.Wrote(i.Err) }
	}
	return httptrace.WithClientTrace(ctx, &w.trace)
}

// roundTrip sends req, which has GetBody and a context within w. If a kept
// connection broke before a byte of an answer, it sends req once more on a new
// one.
func (c *connections) roundTrip(req *http.Request, w *wire) (*http.Response, error) {
	resp, err := c.kept.RoundTrip(req)
	if err == nil || !w.reused.Load() || w.answered.Load() || req.Context().Err() != nil {
		return resp, err
	}
	req = req.Clone(req.Context())
	if req.GetBody != nil {
		req.Body, _ = req.GetBody() // never fails
	}
	return c.fresh().RoundTrip(req)
}

// closeIdle drops idle connections.
func (c *connections) closeIdle() {
	if t, ok := c.kept.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}
