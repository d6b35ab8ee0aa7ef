package upstream

import "time"

// The breaker's measure: after this many failures in a row a target is passed
// over for coolFirst, doubled with every failure after it up to coolMost.
const (
	tripAfter = 5
	coolFirst = time.Second
	coolMost  = 30 * time.Second
)

// health is how a target has done lately. The zero health is fine. It is not
// safe for concurrent use.
type health struct {
	failures int // in a row
	until    time.Time
	// current is the target's standing in the weighted rotation.
	current float64
}

// open tells whether the target is passed over while others are there.
func (h *health) open(now time.Time) bool { return now.Before(h.until) }

// good notes a success.
func (h *health) good() { h.failures, h.until = 0, time.Time{} }

// bad notes a failure.
func (h *health) bad(now time.Time) {
	h.failures++
	if h.failures < tripAfter {
		return
	}
	cool := coolMost
	if n := h.failures - tripAfter; n < 5 {
		cool = min(coolFirst<<n, coolMost)
	}
	h.until = now.Add(cool)
}
