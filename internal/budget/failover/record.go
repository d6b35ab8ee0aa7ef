package failover

import (
	"sync"
	"sync/atomic"
	"time"

	"llmgw/internal/budget"
)

// record is what this process knows of one reservation, from its grant until
// the store has acknowledged its end.
//
//	granted by the store:   open ──Settle──► ended ──► acknowledged
//	decided without it:     local ──post──► open; or local ──Settle──► deferred, and forgotten
//	never answered:         ended from the start, with nothing used
//
// It is a request's own, or a Bulk that its owner divides among requests.
type record struct {
	held    budget.Reservation // the caller's; held.Request is what was granted
	limiter *Limiter
	owner   Owner // of a Bulk; else nil

	mu      sync.Mutex
	epoch   budget.Epoch // of the store's record
	ended   bool
	outage  *outage // whose shares decided it, or nil
	posted  posting // of one decided without the store
	stage   stage   // of its answer, as last reported here
	listed  bool    // in the outbox's list of reports
	before  []int64 // used, as the store was last told; nil: it was not
	used    []int64
	space   [8]int64 // for used, most often
	mine    []int64  // of each line, what counters counts as held here; nil: nothing
	holding [8]int64 // for mine

	charged  uint64 // lines that were charged: all but those a shadow limit refused
	cancel   bool   // the end of an attempt without an answer
	attempts int    // settlements that failed; the worker's

	shard      *recordShard
	next, prev *record // in the shard's list
}

// posting says how far the store knows of a reservation.
type posting int

const (
	known   posting = iota // it granted it
	unknown                // it was decided here
	tried                  // and posted, without an answer
)

// localSuffix is added to the id of a reservation that was decided without the
// store: under its own id an unanswered attempt may lie, which is cancelled.
const localSuffix = "~local"

func (r *record) storeID() string {
	if r.outage != nil {
		return budget.Suffixed(r.held.Request.ID, localSuffix)
	}
	return r.held.Request.ID
}

func (r *record) lines() []budget.Line { return r.held.Request.Lines }

// settlement is the record's end, as it is sent to the store.
func (r *record) settlement() budget.Settlement {
	return budget.Settlement{ID: r.storeID(), Epoch: r.epoch, Lines: r.lines(), Used: r.used}
}

// note replaces what is known to be used; mu is held.
func (r *record) note(used []int64) { r.used = append(r.space[:0], used...) }

// ofRequest reports whether r is a request's own, and neither a try's turn with a
// provider nor a Bulk, which people do not count.
func (r *record) ofRequest() bool {
	return r.owner == nil && (len(r.lines()) == 0 || r.lines()[0].Limit.Scope != budget.Provider)
}

// holds counts as held here what r has of each line that it was charged.
func (r *record) holds() {
	r.mine = r.holding[:0]
	for i := range r.lines() {
		line := &r.lines()[i]
		n := int64(0)
		if r.charged&bit(i) != 0 {
			n = line.Amount
			r.limiter.counters.hold(*line, n)
		}
		r.mine = append(r.mine, n)
	}
}

// keep lowers what is held here of line i to n; mu is held.
func (r *record) keep(i int, n int64) {
	if i < len(r.mine) && r.mine[i] > n {
		r.limiter.counters.release(r.lines()[i], r.mine[i]-n)
		r.mine[i] = n
	}
}

// release holds nothing any more; mu is held.
func (r *record) release() {
	for i := range r.mine {
		r.keep(i, 0)
	}
}

// bit is line i's in a mask. Lines beyond the 64th have none; no request has
// half as many.
func bit(i int) uint64 { return 1 << i }

// full is a mask of n lines.
func full(n int) uint64 { return 1<<n - 1 }

// records lists the records that are open, or whose end is not acknowledged.
type records struct {
	open   atomic.Int64 // requests that hold something: their own or a part of a Bulk
	local  atomic.Int64 // records that are open and unknown to the store
	turn   atomic.Uint32
	shards [64]recordShard
}

type recordShard struct {
	mu    sync.Mutex
	first *record
	_     [48]byte // a cache line each
}

// put lists r as open.
func (t *records) put(r *record) {
	if r.ofRequest() {
		t.open.Add(1)
	}
	if r.posted != known {
		t.local.Add(1)
	}
	s := &t.shards[t.turn.Add(1)%uint32(len(t.shards))]
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.shard, r.next = s, s.first; r.next != nil {
		r.next.prev = r
	}
	s.first = r
}

// delete forgets r. It is called once for each record.
func (t *records) delete(r *record) {
	if r.ofRequest() {
		t.open.Add(-1)
	}
	s := r.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.next != nil {
		r.next.prev = r.prev
	}
	if r.prev == nil {
		s.first = r.next
		return
	}
	r.prev.next = r.next
}

// each calls do for every record.
func (t *records) each(do func(*record)) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for r := s.first; r != nil; r = r.next {
			do(r)
		}
		s.mu.Unlock()
	}
}

// unposted lists the records that are open, or half posted, and not in the store.
func (t *records) unposted() (list []*record) {
	if t.local.Load() == 0 {
		return nil
	}
	t.each(func(r *record) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.posted == tried || r.posted == unknown && !r.ended {
			list = append(list, r)
		}
	})
	return list
}

// Strangers removes from ids, as the store lists them, the reservations that are
// open here or whose end is on its way to the store.
func (l *Limiter) Strangers(ids map[string]time.Duration) {
	l.records.each(func(r *record) {
		delete(ids, r.held.Request.ID)
		delete(ids, budget.Suffixed(r.held.Request.ID, localSuffix))
	})
	for _, id := range l.queue.cancelling() {
		delete(ids, id)
	}
	for _, id := range l.backlog.posting() {
		delete(ids, id)
	}
}
