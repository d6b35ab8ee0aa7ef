package gatewaytest

import (
	"net/http/httptest"
	"testing"
	"time"

	"llmgw/internal/fakellm"
)

// Provider is a simulated provider that listens in the test's process.
type Provider struct {
	*fakellm.Provider
	// URL is where it listens, without /v1.
	URL string

	t      testing.TB
	server *httptest.Server
}

// StartProvider runs a simulated provider until the test ends.
func StartProvider(t testing.TB, options fakellm.Options) *Provider {
	t.Helper()
	p := &Provider{Provider: fakellm.New(options), t: t}
	p.server = httptest.NewServer(p.Provider)
	p.URL = p.server.URL
	t.Cleanup(p.Close)
	return p
}

// Close stops listening and breaks what is open, as a provider that is gone.
func (p *Provider) Close() {
	p.server.CloseClientConnections()
	p.server.Close()
}

// AwaitIdle returns when nothing is in flight. The test fails if that takes
// longer than within.
func (p *Provider) AwaitIdle(within time.Duration) {
	p.t.Helper()
	Eventually(p.t, "idle", within, func() bool { return p.Stats().InFlight == 0 })
}

// Saw returns the requests for a model that are still remembered, oldest first.
func (p *Provider) Saw(model string) []fakellm.Seen {
	var of []fakellm.Seen
	for _, s := range p.Stats().Last {
		if s.Model == model {
			of = append(of, s)
		}
	}
	return of
}
