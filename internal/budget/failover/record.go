package failover

import (
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"llmgw/internal/budget"
)

// record is what this process knows of one reservation, from its grant until
// the store has acknowledged its end.
//
//	granted by the store:   open ──Settle──► ended ──► acknowledged
//	decided without it:     local ──post──► open; or local ──Settle──► owed, and forgotten
//	never answered:         ended from the start, with nothing used
type record struct {
	held     budget.Reservation // the caller's
	limiter  *Limiter
	id       string // the caller's
	lines    []budget.Line
	crash    budget.CrashCharge
	lifetime time.Duration

	mu     sync.Mutex
	epoch  budget.Epoch // of the store's record
	ended  bool
	spell  *spell  // the shares it was decided by, or nil
	posted posting // of one decided without the store
	stage  stage   // of its answer, as last reported here
	dirty  bool    // there is something that the store was not told
	before []int64 // what the store was told of last; nil: of nothing
	used   []int64
	space  [8]int64 // used's, most often

	slots    uint64 // lines whose slot is counted in counters; not changed once open
	charged  uint64 // lines that were charged: all but those a shadow limit refused
	cancel   bool   // the end of an attempt without an answer
	attempts int    // settlements that failed; the worker's
}

// posting tells how far the store knows of a reservation.
type posting int

const (
	known   posting = iota // it granted it
	unknown                // it was decided here
	tried                  // and posted, without an answer
)

// localSuffix is added to the id of a reservation that was decided without the
// store: under its own id an unanswered attempt may lie, which is cancelled.
const localSuffix = "~local"

// callerID is the caller's id of a reservation that the store knows as id.
func callerID(id string) string { return strings.TrimSuffix(id, localSuffix) }

func (r *record) storeID() string {
	if r.spell != nil {
		return r.id + localSuffix
	}
	return r.id
}

// settlement is the record's end, as the store is told of it.
func (r *record) settlement() budget.Settlement {
	return budget.Settlement{ID: r.storeID(), Epoch: r.epoch, Lines: r.lines, Used: r.used}
}

// note replaces what is known to be used; mu is held.
func (r *record) note(used []int64) { r.used = append(r.space[:0], used...) }

// bit is line i's in a mask. Lines beyond the 64th have none; no request has
// half as many.
func bit(i int) uint64 { return 1 << i }

// full is a mask of n lines.
func full(n int) uint64 { return 1<<n - 1 }

// records finds the records by their callers' ids.
type records struct {
	seed   maphash.Seed
	open   atomic.Int64 // requests' records: granted, and their end not acknowledged
	local  atomic.Int64 // open and unknown to the store
	shards [64]recordShard
}

type recordShard struct {
	mu sync.Mutex
	m  map[string]*record
	_  [40]byte // a cache line each
}

func (t *records) init() {
	t.seed = maphash.MakeSeed()
	for i := range t.shards {
		t.shards[i].m = make(map[string]*record)
	}
}

func (t *records) shard(id string) *recordShard {
	return &t.shards[maphash.String(t.seed, id)%uint64(len(t.shards))]
}

func (t *records) get(id string) *record {
	s := t.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m[id]
}

// put enters r as open.
func (t *records) put(r *record) {
	if r.ofRequest() {
		t.open.Add(1)
	}
	if r.posted != known {
		t.local.Add(1)
	}
	s := t.shard(r.id)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.m[r.id] = r
}

// ofRequest tells a request's own reservation from that of a try's turn with a
// provider, which people do not count.
func (r *record) ofRequest() bool {
	return len(r.lines) == 0 || r.lines[0].Limit.Scope != budget.Provider
}

// delete forgets r. It is called once for each record.
func (t *records) delete(r *record) {
	if r.ofRequest() {
		t.open.Add(-1)
	}
	s := t.shard(r.id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m[r.id] == r {
		delete(s.m, r.id)
	}
}

// unposted lists the records that are open, or half posted, and not in the store.
func (t *records) unposted() []*record {
	if t.local.Load() == 0 {
		return nil
	}
	return t.list((*record).needsPost)
}

// dirty lists the records of which the store has something to be told.
func (t *records) dirty() []*record { return t.list((*record).isDirty) }

func (t *records) list(is func(*record) bool) []*record {
	var list []*record
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for _, r := range s.m {
			if is(r) {
				list = append(list, r)
			}
		}
		s.mu.Unlock()
	}
	return list
}

func (r *record) isDirty() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dirty && !r.ended
}

func (r *record) needsPost() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.posted == tried || r.posted == unknown && !r.ended
}
