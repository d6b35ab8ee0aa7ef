package estimate

import (
	"hash/maphash"
	"slices"
	"sync"
)

// A conversation comes again with every turn, and only its end is new. So what
// was counted up to the end of the last message is remembered as a whole, under
// the hash of all these bytes; and where that end was, under the hash of the
// first bytes. It saves looking for the ends of hundreds of messages.

const (
	// historyBytes is the size from which messages are remembered together.
	historyBytes = 32 << 10
	// openingBytes tell conversations apart.
	openingBytes = 2 << 10
	// newBytes is how much must be new to be remembered together with the rest.
	newBytes = 8 << 10
	// branches is how many ends are known of conversations that begin alike.
	branches = 4
)

// histories knows where conversations ended when they were last seen. It is
// bounded and safe for concurrent use; when it forgets, more is looked at.
type histories struct {
	mu    sync.Mutex
	slots [1024]struct {
		opening uint64
		ends    [branches]int // the one used last first
	}
}

// ends returns where conversations with this opening ended, the longest first.
func (h *histories) ends(opening uint64) [branches]int {
	h.mu.Lock()
	s := &h.slots[opening%uint64(len(h.slots))]
	var ends [branches]int
	if s.opening == opening {
		ends = s.ends
	}
	h.mu.Unlock()
	slices.SortFunc(ends[:], func(a, b int) int { return b - a })
	return ends
}

// use notes that a conversation ended here; the end that was not used for
// longest makes room.
func (h *histories) use(opening uint64, end int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &h.slots[opening%uint64(len(h.slots))]
	if s.opening != opening {
		s.opening, s.ends = opening, [branches]int{}
	}
	at := slices.Index(s.ends[:], end)
	if at < 0 {
		at = branches - 1
	}
	copy(s.ends[1:at+1], s.ends[:at])
	s.ends[0] = end
}

// history counts the messages of the array raw.
func (r *reader) history(raw []byte, k kind) {
	message := func(r *reader, raw []byte) {
		if r.t.several && r.isResult(raw) {
			r.remember(kindResult, raw, (*reader).result)
			r.t.several = true
			return
		}
		r.remember(k, raw, (*reader).message)
	}
	if len(raw) < historyBytes {
		r.elements(raw, 1, message)
		return
	}
	sum := r.t
	r.t = tally{}
	c := r.e.cache
	opening := maphash.Bytes(c.seed, raw[:openingBytes]) ^ r.model.key ^ uint64(k)
	from := 1
	for _, end := range c.histories.ends(opening) {
		if end <= 1 || end > len(raw) || raw[end-1] != '}' {
			continue
		}
		if t, ok := c.get(c.keyOf(raw[:end], k+kindHistory, r.model.key)); ok {
			r.t, from = t, end
			c.histories.use(opening, end)
			break
		}
	}
	if to := r.elements(raw, from, message); to-from >= newBytes && !r.t.sampled {
		c.put(c.keyOf(raw[:to], k+kindHistory, r.model.key), r.t)
		c.histories.use(opening, to)
	}
	sum.add(&r.t)
	r.t = sum
}
