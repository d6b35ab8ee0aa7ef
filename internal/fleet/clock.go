package fleet

import (
	"sync/atomic"
	"time"
)

// clock is the store's clock as seen through its answers: an offset to this
// process's monotonic clock, which no administrator can set.
//
// An answer that says at, to a call sent at s and received at r, was made
// between s and r; stores count in milliseconds. So the store's time at base
// lies in [at − (r − base), at + 1ms − (s − base)]. The estimate stays where it
// is while it lies in there and otherwise moves just into it: answers that came
// quickly narrow it, slow ones do no harm.
type clock struct {
	base   time.Time
	offset atomic.Int64 // the store's unix nanoseconds at base; 0: never seen
}

// elapsed is the time since base, by the monotonic clock, in nanoseconds; never 0.
func (c *clock) elapsed() int64 { return int64(time.Since(c.base)) + 1 }

// now is the store's time, or zero if it was never seen.
func (c *clock) now() time.Time {
	offset := c.offset.Load()
	if offset == 0 {
		return time.Time{}
	}
	return time.Unix(0, offset+int64(time.Since(c.base)))
}

// observe learns from an answer and returns how far the estimate had to move;
// 0 for the first.
func (c *clock) observe(at, sent, received time.Time) time.Duration {
	low := at.UnixNano() - int64(received.Sub(c.base))
	high := at.UnixNano() + int64(time.Millisecond) - int64(sent.Sub(c.base))
	for {
		was := c.offset.Load()
		is := min(max(was, low), high)
		if was == 0 {
			is = low + (high-low)/2
		}
		if is == was {
			return 0
		}
		if !c.offset.CompareAndSwap(was, is) {
			continue
		}
		if was == 0 {
			return 0
		}
		return time.Duration(is - was)
	}
}

// Now is the store's time as this process knows it, or the zero time if the
// store never answered. It does not block.
func (k *Keeper) Now() time.Time { return k.clock.now() }

// Observe learns the store's time from an answer that says at, to a call sent
// at sent and received at received. A store's clock that steps by more than
// the tolerance is logged and told to the Observer.
func (k *Keeper) Observe(at, sent, received time.Time) {
	if at.IsZero() {
		return
	}
	step := k.clock.observe(at, sent, received)
	if step.Abs() <= k.cfg.ClockTolerance {
		return
	}
	k.steady.Store(0)
	k.cfg.Observer.ClockStep(step)
	k.cfg.Logger.Error("the store's clock stepped", "by", step.String())
}
