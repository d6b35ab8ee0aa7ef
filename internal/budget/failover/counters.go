package failover

import (
	"hash/maphash"
	"sync"
	"time"

	"llmgw/internal/budget"
)

// counterKey names a counter within one configuration.
type counterKey struct {
	limit *budget.Limit
	value string
}

func keyOf(line budget.Line) counterKey { return counterKey{line.Limit, line.Value} }

// counters remembers, of each counter, the level that the store last told and
// the slots that this process holds: what a share starts from. Bounded: beyond
// maxCounters a counter that holds no slot is forgotten for each new one.
type counters struct {
	seed   maphash.Seed
	shards [64]counterShard
}

type counterShard struct {
	mu sync.Mutex
	m  map[counterKey]*counter
	_  [40]byte // a cache line each
}

// maxCounters bounds the memory for limits with a counter per user or address.
const maxCounters = 1 << 17

// counter is what is remembered of one.
type counter struct {
	level    int64     // remaining, as last told
	capacity int64     // what it can rise to, as last told
	full     time.Time // when it is full again if nobody spends; zero: never told
	held     int64     // slots that this process has
}

func (t *counters) init() {
	t.seed = maphash.MakeSeed()
	for i := range t.shards {
		t.shards[i].m = make(map[counterKey]*counter)
	}
}

func (t *counters) shard(k counterKey) *counterShard {
	return &t.shards[maphash.Comparable(t.seed, k)%uint64(len(t.shards))]
}

// get finds or makes the counter of k; the shard's mu is held.
func (s *counterShard) get(k counterKey) *counter {
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

// evict forgets one counter that holds no slot, of the first few that a map's
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

// see remembers what the store told of a line.
func (t *counters) see(line budget.Line, state budget.LineState, now time.Time) {
	k := keyOf(line)
	s := t.shard(k)
	s.mu.Lock()
	c := s.get(k)
	c.level, c.capacity, c.full = state.Remaining, state.Capacity, now.Add(state.Reset)
	s.mu.Unlock()
}

// level is the line's level as last told, or what it can rise to once it must
// be full; false if it was never told.
func (t *counters) level(line budget.Line, now time.Time) (int64, bool) {
	k := keyOf(line)
	s := t.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.m[k]
	if c == nil || c.full.IsZero() {
		return 0, false
	}
	if line.Limit.Unit != budget.Concurrency && !now.Before(c.full) {
		return c.capacity, true
	}
	return c.level, true
}

// hold counts a slot that the store granted.
func (t *counters) hold(line budget.Line) {
	k := keyOf(line)
	s := t.shard(k)
	s.mu.Lock()
	s.get(k).held++
	s.mu.Unlock()
}

// take holds a slot if fewer than most are held, and tells whether it did and
// how many are left then.
func (t *counters) take(line budget.Line, most int64) (bool, int64) {
	k := keyOf(line)
	s := t.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.get(k)
	if c.held >= most {
		return false, 0
	}
	c.held++
	return true, most - c.held
}

// look tells whether take would hold a slot, and how many are left now.
func (t *counters) look(line budget.Line, most int64) (bool, int64) {
	k := keyOf(line)
	s := t.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	held := int64(0)
	if c := s.m[k]; c != nil {
		held = c.held
	}
	return held < most, max(0, most-held)
}

// release gives a held slot back.
func (t *counters) release(line budget.Line) {
	k := keyOf(line)
	s := t.shard(k)
	s.mu.Lock()
	if c := s.m[k]; c != nil && c.held > 0 {
		c.held--
	}
	s.mu.Unlock()
}

// releaseAll gives back the slots of the lines that mask names.
func (t *counters) releaseAll(lines []budget.Line, mask uint64) {
	for i := 0; mask != 0 && i < len(lines); i, mask = i+1, mask>>1 {
		if mask&1 != 0 {
			t.release(lines[i])
		}
	}
}
