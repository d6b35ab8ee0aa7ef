// Package upstream sends calls to providers: it chooses among the targets of a
// model, waits for the call's turn within the provider's own limits, sends it,
// tries again where that is safe, and hands back the answer with its first
// bytes read and the rest still to be streamed.
//
// It does not know teams' budgets, does not shape errors for clients and does
// not copy the answer: its caller does.
//
//	client.go     Client: what it needs, what it keeps over a reload
//	provider.go   Provider and Target: the configuration
//	job.go        Job: one call to make
//	response.go   Response: its answer, and settling it
//	do.go         Do: the tries of one job
//	choose.go     which target, which key
//	breaker.go    targets that keep failing are passed over
//	limits.go     a provider's limits as budget limits: the arithmetic of pacing
//	counting.go   what a provider counts of a call
//	pacer.go      a call's turn: asking the limiter
//	queue.go      the order of those that wait
//	feedback.go   what a provider's headers and refusals tell
//	failure.go    which answers are failures, and what may follow them
//	send.go       one HTTP exchange with its timeouts
//	transport.go  connections
package upstream

import (
	"log/slog"
	"net/http"
	"sync"
	"time"

	"llmgw/internal/budget"
)

// Config is what a Client needs.
type Config struct {
	Providers []*Provider
	// Limiter keeps the providers' limits. It may be nil if no provider has any.
	Limiter  budget.Limiter
	Observer Observer     // nil: nobody looks
	Logger   *slog.Logger // nil: silent
	// Transport makes the transport of a provider. nil: NewTransport.
	Transport func(*Provider) http.RoundTripper
}

// Observer is told what happens. Its methods must not block and are called
// from many goroutines.
type Observer interface {
	// QueueWait is told how long a call waited for its turn.
	QueueWait(provider string, d time.Duration)
	// UpstreamRequest is told of every try: the answer's status, 0 for none.
	UpstreamRequest(provider string, status int)
	// UpstreamRemaining is told what the provider says is left of its limit on
	// unit ("requests" or "tokens").
	UpstreamRemaining(provider, unit string, n int64)
}

// Client sends calls to providers. It is safe for concurrent use.
type Client struct {
	limiter   budget.Limiter
	observer  Observer
	log       *slog.Logger
	transport func(*Provider) http.RoundTripper

	mu     sync.Mutex
	states map[string]*state // by the provider's name
}
