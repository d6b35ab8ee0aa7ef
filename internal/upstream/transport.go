package upstream

import (
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

// roundTrip sends req, which has GetBody. If a kept connection broke before a
// byte of an answer, it sends req once more on a new one.
func (c *connections) roundTrip(req *http.Request) (*http.Response, error) {
	var reused, answered atomic.Bool // the transport may call from its own goroutines
	ctx := httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GotConn:              func(i httptrace.GotConnInfo) { reused.Store(i.Reused) },
		GotFirstResponseByte: func() { answered.Store(true) },
		Got100Continue:       func() { answered.Store(true) },
	})
	resp, err := c.kept.RoundTrip(req.WithContext(ctx))
	if err == nil || !reused.Load() || answered.Load() || req.Context().Err() != nil {
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
