package failover

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"llmgw/internal/budget"
)

// counters remembers, of each counter, how the store said that it stands, and
// what this process holds of it: what a share starts from. Bounded: beyond
// maxCounters a counter that nothing is held of is forgotten for each new one.
type counters struct {
	seed    maphash.Seed
	refused atomic.Int64 // when a refusal was last remembered, unix nanoseconds
	shards  [64]counterShard
}

type counterShard struct {
	mu sync.Mutex
	m  map[budget.CounterID]*counter
	_  [40]byte // a cache line each
}

// maxCounters bounds the memory for limits with a counter per user or address.
const maxCounters = 1 << 17

// counter is what is remembered of one.
type counter struct {
	state budget.LineState // as the store last said
	of    *budget.Limit    // by which it was asked
	at    time.Time        // when it was asked; zero: never
	held  int64            // by reservations of this process that the store knows; slots: by all

	refused *refusal  // the latest, or nil
	granted time.Time // when this process was last granted something
}

func (t *counters) init() {
	t.seed = maphash.MakeSeed()
	for i := range t.shards {
		t.shards[i].m = make(map[budget.CounterID]*counter)
	}
}

func (t *counters) shard(k budget.CounterID) *counterShard {
	return &t.shards[maphash.Comparable(t.seed, k)%uint64(len(t.shards))]
}

// get finds or makes the counter of k; the shard's mu is held.
func (s *counterShard) get(k budget.CounterID) *counter {
	c := s.m[k]
	if c != nil {
		return c
	}
	if len(s.m) >= maxCounters/64 {
		s.evict()
	}
	c = new(counter)
	s.m[k] = c
	return c
}

// evict forgets one counter that nothing is held of, of the first few that a map's
// random order gives.
func (s *counterShard) evict() {
	tries := 16
	for k, c := range s.m {
		if c.held == 0 {
			delete(s.m, k)
			return
		}
		if tries--; tries == 0 {
			return
		}
	}
}

// see remembers how the store, asked at sent, said that a line's counter stands.
func (t *counters) see(line budget.Line, state budget.LineState, sent time.Time) {
	k := line.Counter()
	s := t.shard(k)
	s.mu.Lock()
	c := s.get(k)
	c.state, c.of, c.at = state, line.Limit, sent
	s.mu.Unlock()
}

// now predicts the counter for who asks by l. The amounts in force are not known
// if l is of another file than the one that was in force here.
func (c *counter) now(l *budget.Limit, now time.Time) budget.LineState {
	state := c.state.After(l, now.Sub(c.at))
	if c.of != l {
		state.Amount, state.Burst = 0, 0
	}
	return state
}

// drifted lists the limits of whose counters the store last named other amounts
// than the limit has.
func (t *counters) drifted() map[*budget.Limit]struct{} {
	drifted := make(map[*budget.Limit]struct{})
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for _, c := range s.m {
			if c.of != nil && c.of.Drifts(c.state) {
				drifted[c.of] = struct{}{}
			}
		}
		s.mu.Unlock()
	}
	return drifted
}

// level predicts how the line's counter stands; false if the store never said.
func (t *counters) level(line budget.Line, now time.Time) (budget.LineState, bool) {
	k := line.Counter()
	s := t.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.m[k]
	if c == nil || c.at.IsZero() {
		return budget.LineState{}, false
	}
	return c.now(line.Limit, now), true
}

// hold counts n that the store granted.
func (t *counters) hold(line budget.Line, n int64) {
	k := line.Counter()
	s := t.shard(k)
	s.mu.Lock()
	c := s.get(k)
	c.held += n
	c.granted = time.Now()
	s.mu.Unlock()
}

// take holds the line's slots if no more than most are held then, and returns
// whether it did and how many are left.
func (t *counters) take(line budget.Line, most int64) (bool, int64) {
	k := line.Counter()
	s := t.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.get(k)
	if c.held+line.Amount > most {
		return false, max(0, most-c.held)
	}
	c.held += line.Amount
	return true, most - c.held
}

// look returns whether take would hold the line's slots, and how many are left now.
func (t *counters) look(line budget.Line, most int64) (bool, int64) {
	k := line.Counter()
	s := t.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	held := int64(0)
	if c := s.m[k]; c != nil {
		held = c.held
	}
	return held+line.Amount <= most, max(0, most-held)
}

// release gives n that were held back.
func (t *counters) release(line budget.Line, n int64) {
	k := line.Counter()
	s := t.shard(k)
	s.mu.Lock()
	if c := s.m[k]; c != nil {
		c.held = max(0, c.held-n)
		c.refused = nil // something may have come back
	}
	s.mu.Unlock()
}
