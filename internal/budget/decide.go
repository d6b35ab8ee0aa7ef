package budget

import (
	"errors"
	"math"
	"time"
)

// Enforced reports whether the line's limit may refuse a request.
func (l *Line) Enforced(r *Request) bool {
	return !r.Shadow && !r.Force && l.Limit.Mode != Shadow
}

// Decide puts the answers of r's lines, judged each alone, together: what the
// whole says, which line binds, and the wait. NeverFits comes first, then the
// longest wait for a rate or a period, and a slot last (S4).
func Decide(r *Request, states []LineState) (out Outcome, binding int, wait time.Duration) {
	out, binding = Granted, -1
	for i := range r.Lines {
		if states[i].Outcome == Granted || !r.Lines[i].Enforced(r) {
			continue
		}
		if binding < 0 || binds(states[i], out, wait) {
			out, binding, wait = states[i].Outcome, i, states[i].Wait
		}
	}
	return out, binding, wait
}

// binds reports whether s binds harder than a refusal with out and wait.
func binds(s LineState, out Outcome, wait time.Duration) bool {
	switch {
	case out == NeverFits:
		return false
	case s.Outcome == NeverFits || out == NoSlot && s.Outcome != NoSlot:
		return true
	case s.Outcome == NoSlot:
		return false
	default:
		return s.Wait > wait
	}
}

// Valid reports whether r can be asked of a store: every amount is one that a
// counter can count.
func (r *Request) Valid() bool {
	for i := range r.Lines {
		if a := r.Lines[i].Amount; a < 0 || a > MaxExact {
			return false
		}
	}
	return true
}

// DefaultLifetime bounds the records of requests that name no lifetime.
const DefaultLifetime = 24 * time.Hour

// ErrAmount says that a request asks for what no counter can count.
var ErrAmount = errors.New("budget: an amount is negative or above 2^53-1")

// CeilMS is d in whole milliseconds, rounded up.
func CeilMS(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// Millis is ms as a Duration, the longest there is if it is longer.
func Millis(ms int64) time.Duration {
	if ms > math.MaxInt64/int64(time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(ms) * time.Millisecond
}
