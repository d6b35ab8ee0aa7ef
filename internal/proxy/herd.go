package proxy

import (
	"hash/maphash"
	"sync"
	"time"

	"llmgw/internal/budget"
)

// herd spreads the waits of many refused clients, so that they do not come back
// in one instant to be refused again. A few clients get their exact wait; from
// the herdSize-th that is still waiting on, each is told to come when those
// before it will have taken what the limit gains until then.
type herd struct {
	mu    sync.Mutex
	seed  maphash.Seed
	until [1024]promises // by hash of the counter: a collision only adds spread
}

// promises are the waits that one counter's clients were told and that have not
// passed.
type promises struct {
	waiting int
	ends    time.Time // when the last of them comes
}

// herdSize is how many refused clients of a counter may wait for the same
// moment: below it, waits are exact.
const herdSize = 8

func newHerd() *herd { return &herd{seed: maphash.MakeSeed()} }

// spread returns the wait to tell a client that was refused line and would fit
// after wait if it were alone. The result is wait or more, and never longer
// than longestHint unless wait is.
func (h *herd) spread(l *budget.Limit, line budget.Line, wait time.Duration) time.Duration {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	p := &h.until[maphash.String(h.seed, queueOf(l, line))%uint64(len(h.until))]
	if now.After(p.ends) {
		*p = promises{}
	}
	p.waiting++
	comes := now.Add(wait)
	if p.waiting > herdSize && p.ends.After(comes) {
		comes = p.ends
	}
	if p.waiting >= herdSize {
		comes = comes.Add(gain(l, line.Amount))
	}
	if told := comes.Sub(now); told > longestHint {
		comes = now.Add(max(wait, jitter(longestHint/2, longestHint)))
	}
	if comes.After(p.ends) {
		p.ends = comes
	}
	return comes.Sub(now)
}

// queueOf names those who wait for the same. Large requests have a claim that
// keeps the small ones from their part, for a time that is soon over: they come
// back one after the other, but not behind all the small ones.
func queueOf(l *budget.Limit, line budget.Line) string {
	q := l.Place + "\x00" + l.Name + "\x00" + line.Value
	if l.Claims(line.Amount) {
		q += "\x00large"
	}
	return q
}

// gain is how long a limit takes to gain n.
func gain(l *budget.Limit, n int64) time.Duration {
	length := l.Period.Length()
	if length == 0 || l.Amount == 0 {
		return 0
	}
	return time.Duration(float64(length) * float64(n) / float64(l.Amount))
}
