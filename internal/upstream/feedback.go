package upstream

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/dialect"
	"llmgw/internal/dialect/registry"
)

// What providers tell of their limits differs in names, in how a time is
// written, and in what period a number is about. Everything here only reads.

// told is what one answer says about its provider's limits.
type told struct {
	// requests and tokens are what is left of the limits by the minute (or by
	// less), -1 if the answer does not say.
	requests, tokens int64
	// retryAfter is how long the provider asks to wait, 0 if it does not.
	retryAfter time.Duration
}

// longestWait bounds a wait that a provider asks for: more is no wait but an end.
const longestWait = 30 * 24 * time.Hour

// signals are those of all providers.
var signals = registry.Signals()

// read tells what an answer's header says, at now.
func read(f *dialect.Flavor, h http.Header, now time.Time) told {
	t := told{
		requests: fewest(h, signals.Requests), tokens: fewest(h, signals.Tokens),
		retryAfter: RetryAfter(h, now),
	}
	if f.DailyRequests {
		t.requests = -1
	}
	return t
}

// fewest is the smallest number that any of the named headers holds, or -1.
func fewest(h http.Header, names []string) int64 {
	n := int64(-1)
	for _, name := range names {
		values := h[name]
		if len(values) == 0 {
			continue
		}
		v, err := strconv.ParseInt(strings.TrimSpace(values[0]), 10, 64)
		if err == nil && v >= 0 && (n < 0 || v < n) {
			n = v
		}
	}
	return n
}

// RetryAfter is how long h asks to wait: retry-after-ms, then Retry-After in
// seconds or as a date. 0: it does not.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(strings.TrimSpace(h.Get("Retry-After-Ms")), 64); err == nil {
		return bounded(ms / 1e3)
	}
	return moment(h.Get("Retry-After"), now)
}

// resetAfter is when h says that a limit which is used up is there again: for
// providers that send no Retry-After.
func resetAfter(h http.Header, now time.Time) time.Duration {
	var longest time.Duration
	for _, limit := range signals.Resets {
		left := h.Get(limit.Remaining)
		if left == "0" || left == "" && limit.Remaining == "X-Ratelimit-Remaining" {
			longest = max(longest, moment(h.Get(limit.At), now))
		}
	}
	return longest
}

// moment reads a time to wait however it is written: a duration (6m0s, 20ms),
// seconds, an epoch in seconds or milliseconds, RFC 3339, or an HTTP date.
// 0 if it is none of these, or past.
func moment(s string, now time.Time) time.Duration {
	s = strings.TrimSpace(s)
	if s == "" {
		return 0
	}
	if n, err := strconv.ParseFloat(s, 64); err == nil {
		switch {
		case n > 1e11: // an epoch in milliseconds
			n = n/1e3 - float64(now.UnixMilli())/1e3
		case n > 1e9: // an epoch in seconds
			n -= float64(now.UnixMilli()) / 1e3
		}
		return bounded(n)
	}
	if d, err := time.ParseDuration(s); err == nil {
		return bounded(d.Seconds())
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return bounded(t.Sub(now).Seconds())
	}
	if t, err := http.ParseTime(s); err == nil {
		return bounded(t.Sub(now).Seconds())
	}
	return 0
}

// bounded is a wait of seconds, within 0 and longestWait; NaN is 0.
func bounded(seconds float64) time.Duration {
	if math.IsNaN(seconds) || seconds <= 0 {
		return 0
	}
	return time.Duration(min(seconds, longestWait.Seconds()) * float64(time.Second))
}

// heed makes a pacer follow what was told, downwards only, and passes it on.
func (c *Client) heed(provider string, p *pacer, t told) {
	for _, r := range [...]struct {
		unit budget.Unit
		left int64
	}{{budget.Requests, t.requests}, {budget.Tokens, t.tokens}} {
		if r.left < 0 {
			continue
		}
		c.observer.UpstreamRemaining(provider, string(r.unit), r.left)
		p.correct(r.unit, r.left)
	}
}
