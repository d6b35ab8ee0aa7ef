package estimate

import (
	"hash/maphash"
	"sync"
)

const (
	shards = 16
	ways   = 4
	// cachedBytes is the size from which a message is worth remembering.
	cachedBytes = 512
)

// cache remembers the tallies of messages by a keyed hash of their bytes. Its
// size is fixed; in each set of four the one that was not used for longest
// goes. It is safe for concurrent use.
type cache struct {
	seed      maphash.Seed
	shards    [shards]cacheShard
	histories histories
}

type cacheShard struct {
	mu   sync.Mutex
	sets []cacheSet
}

type cacheSet struct {
	clock   uint32
	used    [ways]uint32 // clock at the last use; 0: free
	keys    [ways]cacheKey
	tallies [ways]tally
}

// cacheKey is the hash of the bytes, mixed with what else the tally depends on,
// and their number.
type cacheKey struct {
	hash uint64
	size int
}

func newCache(entries int) *cache {
	c := &cache{seed: maphash.MakeSeed()}
	sets := max(1, entries/shards/ways)
	for i := range c.shards {
		c.shards[i].sets = make([]cacheSet, sets)
	}
	return c
}

// keyOf returns the key of raw as something of a kind and for a model.
func (c *cache) keyOf(raw []byte, kind kind, model uint64) cacheKey {
	h := maphash.Bytes(c.seed, raw)
	return cacheKey{(h ^ model ^ uint64(kind)*0x9e3779b97f4a7c15) * 0xd6e8feb86659fd93, len(raw)}
}

func (c *cache) set(k cacheKey) (*cacheShard, *cacheSet) {
	s := &c.shards[k.hash>>60]
	return s, &s.sets[k.hash>>8%uint64(len(s.sets))]
}

func (c *cache) get(k cacheKey) (tally, bool) {
	shard, set := c.set(k)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	for i, key := range set.keys {
		if key == k && set.used[i] != 0 {
			set.touch(i)
			return set.tallies[i], true
		}
	}
	return tally{}, false
}

func (c *cache) put(k cacheKey, t tally) {
	shard, set := c.set(k)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	oldest := 0
	for i := range ways {
		if set.keys[i] == k {
			oldest = i
			break
		}
		if set.used[i] < set.used[oldest] {
			oldest = i
		}
	}
	set.keys[oldest], set.tallies[oldest] = k, t
	set.touch(oldest)
}

func (s *cacheSet) touch(i int) {
	s.clock++
	s.used[i] = s.clock
}

// stringKey hashes a short string into a part of a key.
func stringKey[S string | []byte](s S) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}
