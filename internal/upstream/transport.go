package upstream

import (
	"net"
	"net/http"
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
