package proxy

import (
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"time"

	"llmgw/internal/budget"
)

// herd spreads the waits of many refused clients, so that they do not come back
// in one instant to be refused again. A few clients get their exact wait; from
// the herdSize-th that is still waiting on, each is told to come when those
// before it will have taken what the limit gains until then.
//
// Who is before whom is a fair queue of callers: the first promise to each comes
// before the second to any. One client has one place: if it asks before its time
// it gets the same time again. A client is known by its caller and its connection.
// So a client that opens a connection for each request, and ignores its waits, puts
// off its own next turn, and that of another caller by one turn at most.
type herd struct {
	mu    sync.Mutex
	seed  maphash.Seed
	until [1024]*promises // by hash of the counter: a collision only adds spread
}

// promises are the waits that one counter's clients were told and that have not
// passed. Turns are lengths of time that the limit takes to gain what they want;
// those of a caller come one after the other, those of different ones take turns.
type promises struct {
	waiting int
	ends    time.Time // when the last of them comes
	at      time.Time // of which moment turn is
	turn    time.Duration
	queued  []queued // whose last turn has not passed
	// places are when each client comes that was given a time, by hash. A client
	// that comes before its time keeps its place, and takes no other.
	places map[uint64]time.Time
}

// queued is a caller, by hash, and the end of its last turn.
type queued struct {
	caller uint64
	last   time.Duration
}

const (
	// herdSize is how many refused clients of a counter may wait for the same
	// moment: below it, waits are exact.
	herdSize = 8
	// maxPlaces is how many clients of a counter are known by their places.
	maxPlaces = 1024
	// maxQueued is how many callers of a counter are told apart; the others share
	// their turns.
	maxQueued = 64
)

func newHerd() *herd { return &herd{seed: maphash.MakeSeed()} }

// turn is a wait to be told.
type turn struct {
	queue  string        // who waits for the same, by queueOf
	caller string        // who waits
	client string        // which of the caller's clients; empty: it is not known
	wait   time.Duration // until it would fit if nobody else waited
	gain   time.Duration // how long the limit takes to gain what it wants
}

// spread returns the wait to tell a client that was refused: t.wait or more, and
// never longer than longestHint unless t.wait is.
func (h *herd) spread(t turn) time.Duration {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	slot := &h.until[maphash.String(h.seed, t.queue)%uint64(len(h.until))]
	if *slot == nil || now.After((*slot).ends) {
		*slot = &promises{at: now, ends: now}
	}
	p := *slot
	client := maphash.String(h.seed, t.caller+"\x00"+t.client)
	place, known := p.places[client]
	if left := place.Sub(now); known && left > 0 {
		return max(t.wait, left)
	}
	if !known {
		p.waiting++
	}
	wait := t.wait
	if p.waiting >= herdSize {
		wait += p.queue(now, maphash.String(h.seed, t.caller), min(t.gain, 2*longestHint)) // nobody is told of more
	}
	if wait > longestHint {
		wait = max(t.wait, jitter(longestHint/2, longestHint))
	}
	comes := now.Add(wait)
	if comes.After(p.ends) {
		p.ends = comes
	}
	if t.client != "" {
		p.keep(client, comes, now)
	}
	return wait
}

// keep remembers a client's place, if there is room.
func (p *promises) keep(client uint64, comes, now time.Time) {
	if len(p.places) >= maxPlaces {
		maps.DeleteFunc(p.places, func(_ uint64, t time.Time) bool { return !t.After(now) })
		if len(p.places) >= maxPlaces {
			return
		}
	}
	if p.places == nil {
		p.places = map[uint64]time.Time{}
	}
	p.places[client] = comes
}

// queue gives a caller its next turn and returns how long it and those before it
// take. A turn that is too far away to be told is not given.
func (p *promises) queue(now time.Time, caller uint64, gain time.Duration) time.Duration {
	p.advance(now)
	q := p.find(caller)
	mine := max(p.turn, q.last) + gain
	before := gain
	for i := range p.queued {
		before += max(0, min(p.queued[i].last, mine)-p.turn)
	}
	if before <= longestHint {
		q.last = mine
	}
	return before
}

// find finds or enters a caller; the last place is for all that find none.
func (p *promises) find(caller uint64) *queued {
	for i := range p.queued {
		if p.queued[i].caller == caller {
			return &p.queued[i]
		}
	}
	if len(p.queued) < maxQueued {
		p.queued = append(p.queued, queued{caller: caller})
	}
	return &p.queued[len(p.queued)-1]
}

// advance brings turn to now: those who have turns left share the time that has
// passed. Who has none left is forgotten.
func (p *promises) advance(now time.Time) {
	passed := now.Sub(p.at)
	p.at = now
	for passed > 0 && len(p.queued) > 0 {
		active, next := time.Duration(len(p.queued)), passed
		for i := range p.queued {
			next = min(next, p.queued[i].last-p.turn)
		}
		step := max(0, min(next, passed/active))
		p.turn += step
		passed -= step * active
		p.queued = slices.DeleteFunc(p.queued, func(q queued) bool { return q.last <= p.turn })
		if step == 0 && active == time.Duration(len(p.queued)) {
			return // less than a nanosecond for each
		}
	}
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
