package upstream

import (
	"io"
	"net/http"
	"sync/atomic"
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
	// *fault.Error of UpstreamTimeout, a broken one of UpstreamError.
	Body io.ReadCloser
	// Meter has been fed what was read so far.
	Meter dialect.Meter
	// Prefix is what Meter released for the client of that.
	Prefix []byte

	Target    Target
	Attempts  int           // tries made, this one included
	QueueWait time.Duration // spent waiting for turns, and between tries
	Sent      time.Time     // when this try was sent
	HeaderAt  time.Time     // when its header had come

	look  look
	http  *http.Response
	key   *key
	state *state
	ended atomic.Bool // the call counts as ended
	turn  *turn       // nil: nothing is left to settle
	model string      // as the provider names it
	kept  bool        // the provider goes on counting what it counted at arrival
}

// Trailer is what the provider sent after the body; complete once Body was read
// to its end.
func (r *Response) Trailer() http.Header {
	keep(r.http.Trailer, r.key.secret)
	return r.http.Trailer
}

// Settle tells what the call used, so that the provider's limits are charged
// what the provider counts of that instead of the estimate, and its slot is free. The first call counts. It
// never blocks.
func (r *Response) Settle(used tokens.Usage) {
	n := r.Target.Provider.flavor().Quota.Used(r.model, used)
	if r.kept {
		n = max(n, r.turn.counted())
	}
	r.turn.settle(1, n)
}

// Close closes Body: the connection too, if Body was not read to its end. When
// it returns, nothing of the job's call is being read. If the response was not
// settled, the estimate is charged. Closing twice has no effect.
func (r *Response) Close() error {
	r.turn.full()
	if !r.ended.Swap(true) {
		r.state.inflight.Add(-1)
	}
	return r.Body.Close()
}

// discard ends an answer that nobody gets: its meter, which may hold a decoder,
// and its body.
func (r *Response) discard() {
	r.Meter.End()
	_ = r.Body.Close() // it is broken, or not wanted
}
