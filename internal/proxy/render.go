package proxy

import (
	"net/http"
	"strconv"
	"time"

	"llmgw/internal/dialect"
	"llmgw/internal/fault"
	"llmgw/internal/upstream"
)

// writeFault answers with e in d's shape. It returns the status.
func writeFault(w http.ResponseWriter, d dialect.Dialect, e *fault.Error, requestID string) int {
	doc := d.Refusal(e, requestID)
	h := w.Header()
	for name, values := range doc.Header {
		h[name] = values
	}
	h.Set("Content-Type", doc.ContentType)
	h.Set("Content-Length", strconv.Itoa(len(doc.Body)))
	h.Set("X-Llmgw-Error-Code", string(e.Code))
	if e.Limit != nil {
		h.Set("X-Llmgw-Limited-By", e.Limit.By)
	}
	writeRetry(h, e)
	status := dialect.StatusOf(e)
	w.WriteHeader(status)
	_, _ = w.Write(doc.Body) // the client is gone: nobody is left to tell
	return status
}

// writeRetry tells clients when to come back, in the three ways they know. A
// wait that is too long to sleep through is not told in Retry-After: official
// clients would sleep all of it.
func writeRetry(h http.Header, e *fault.Error) {
	switch {
	case e.NoRetry:
		h.Set("X-Should-Retry", "false")
	case e.Wait > 0:
		h.Set("Retry-After", strconv.FormatInt(max(1, int64(dialect.RoundUp(e.Wait, time.Second)/time.Second)), 10))
		h.Set("Retry-After-Ms", strconv.FormatInt(int64(dialect.RoundUp(e.Wait, time.Millisecond)/time.Millisecond), 10))
		h.Set("X-Should-Retry", "true")
	}
}

// hint gives a provider's word on when to come back the form of our own refusals:
// up to longestHint in all the ways that clients know, a longer wait in none.
func hint(h http.Header, now time.Time) {
	wait := upstream.RetryAfter(h, now)
	switch {
	case wait > longestHint:
		h.Del("Retry-After")
		h.Del("Retry-After-Ms")
		h.Set("X-Should-Retry", "false")
	case wait > 0 && h.Get("Retry-After-Ms") == "":
		h.Set("Retry-After-Ms", strconv.FormatInt(int64(dialect.RoundUp(wait, time.Millisecond)/time.Millisecond), 10))
	}
}
