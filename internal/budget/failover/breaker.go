package failover

import (
	"errors"
	"sync/atomic"
	"time"

	"llmgw/internal/budget"
)

// breaker decides whether the store is asked. Its times are nanoseconds since
// base, by the monotonic clock, and never 0.
type breaker struct {
	base      time.Time
	threshold int64
	failures  atomic.Int64 // one after the other, without an answer between
	counted   atomic.Int64 // when the latest of those ended
	latest    atomic.Int64 // when the latest failure was
	since     atomic.Int64 // when the store went down; 0: it is up
}

func (b *breaker) now() int64 { return int64(time.Since(b.base)) + 1 }

func (b *breaker) isDown() bool { return b.since.Load() != 0 }

// answered notes a call that the store answered. It does not bring the store
// up: an answer to an old call is no sign of health. Only a probe does.
func (b *breaker) answered() {
	if b.failures.Load() != 0 {
		b.failures.Store(0)
	}
}

// failed notes a call without an answer, and reports whether the store went down
// by it. Calls that were under way at the same time count as one: a store that
// stumbles once, with a hundred requests waiting, has failed once.
func (b *breaker) failed(took time.Duration) bool {
	now := b.now()
	b.latest.Store(now)
	before := b.counted.Load()
	if now-int64(took) < before || !b.counted.CompareAndSwap(before, now) {
		return false
	}
	return b.failures.Add(1) >= b.threshold && b.since.CompareAndSwap(0, now)
}

// quiet is how long ago the latest failure was.
func (b *breaker) quiet() time.Duration {
	return time.Duration(b.now() - b.latest.Load())
}

// rise brings the store up and returns how long it was down.
func (b *breaker) rise() time.Duration {
	b.failures.Store(0)
	return time.Duration(b.now() - b.since.Swap(0))
}

// answer reports whether err, from a store, is an answer: the call was refused
// for its own sake and has not been applied.
func answer(err error) bool {
	return err == nil || errors.Is(err, budget.ErrFenced) || errors.Is(err, budget.ErrConflict) ||
		errors.Is(err, budget.ErrTooLate) || errors.Is(err, budget.ErrAmount)
}

// judge notes the end of a call for the breaker, the Observer and, on the way
// down, the log. A call that this process had no time for counts neither way. It
// returns answer(err).
func (l *Limiter) judge(op string, took time.Duration, err error) bool {
	l.observer.StoreCall(op, took, err)
	if answer(err) {
		l.breaker.answered()
		return true
	}
	if errors.Is(err, budget.ErrOverloaded) {
		return false
	}
	if l.ctx.Err() == nil && l.breaker.failed(took) {
		l.observer.StoreUp(false)
		l.log.Warn("the limit store does not answer: limits are decided by their when_store_down",
			"op", op, "error", err)
		l.nudge()
	}
	return false
}

// StoreCall notes a call of the store that another made, such as the Keeper's
// heartbeats: so the store goes down without a request's help. This Limiter's
// Observer counts it, too.
func (l *Limiter) StoreCall(op string, took time.Duration, err error) { l.judge(op, took, err) }
