package failover

import (
	"sync"
	"sync/atomic"
	"time"

	"llmgw/internal/budget"
)

// Settle implements budget.Holder. The end reaches the store at once, in order,
// or as soon as the store is back; at worst, if more than Queue of them wait, it
// is dropped and the Keeper's comparison ends the reservation.
func (r *record) Settle(used []int64) {
	l := r.limiter
	if l.ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	r.note(used)
	r.ended = true
	r.release()
	// A place in the queue is taken under the lock: from here on the end of a
	// post may push r.
	posted, admitted := r.posted, r.posted == unknown || l.queue.admit()
	if !admitted {
		r.posted = known // nobody need post it any more
	}
	r.mu.Unlock()

	if r.outage != nil {
		r.outage.settle(r)
	}
	switch {
	case !admitted:
		l.drop(r, posted)
	case posted == known:
		l.submit(r)
	case posted == tried:
		l.nudge() // the store may know it: the worker posts it again, then ends it
	default:
		l.deferEnd(r)
	}
}

// submit brings an admitted record, which the store knows, on its way.
func (l *Limiter) submit(r *record) {
	switch {
	case l.cfg.Timeout <= 0 || l.Up():
		start := time.Now()
		l.store.Enqueue(r.settlement(), func(s budget.Settled, err error) {
			l.settled(r, s, time.Since(start), err)
		})
	default:
		l.queue.push(r)
		l.nudge()
	}
}

// settled takes the store's answer to one settlement.
func (l *Limiter) settled(r *record, s budget.Settled, took time.Duration, err error) {
	if !l.judge("settle", took, err) {
		l.queue.push(r)
		l.nudge()
		return
	}
	l.finish(r, s)
}

// finish forgets a record whose end the store has acknowledged.
func (l *Limiter) finish(r *record, s budget.Settled) {
	if !r.cancel {
		l.records.delete(r)
		l.count(r)
	}
	l.queue.done(r)
	if r.owner != nil {
		r.owner.Over()
	}
	l.unbooked(r.held.Request.ID, s.Unbooked)
}

// unbooked reports what exceeded the largest debt of a limit: it was used, and
// is in nobody's way.
func (l *Limiter) unbooked(id string, n int64) {
	if n <= 0 {
		return
	}
	l.observer.Reservations("unbooked", 1)
	l.log.Warn("more was used than a limit's largest debt: the rest is not held against the limit", "id", id, "unbooked", n)
}

// count counts the end of a request's reservation.
func (l *Limiter) count(r *record) {
	if r.ofRequest() {
		l.observer.Reservations(result(r.used), 1)
	}
}

// result names how a reservation ended.
func result(used []int64) string {
	for _, n := range used {
		if n != 0 {
			return "settled"
		}
	}
	return "refunded"
}

// drop forgets an ended record for which the queue has no place.
func (l *Limiter) drop(r *record, posted posting) {
	l.records.delete(r)
	if r.owner != nil {
		r.owner.Over()
	}
	if posted != known {
		l.records.local.Add(-1)
	}
	l.dropped("the queue of settlements is full")
}

// dropped counts an end that will not be written, and logs the first.
func (l *Limiter) dropped(why string) {
	l.observer.Reservations("dropped", 1)
	if !l.queue.dropping.Swap(true) {
		l.log.Error(why+": what does not fit is left to be reclaimed", "queue", l.cfg.Queue)
	}
}

// deferEnd ends a record that the store never knew: what it used is posted later.
func (l *Limiter) deferEnd(r *record) {
	l.records.delete(r)
	l.records.local.Add(-1)
	for i, line := range r.lines() {
		if i >= len(r.used) || r.used[i] == 0 || line.Limit.Unit == budget.Concurrency || r.charged&bit(i) == 0 {
			continue
		}
		l.deferCharge(line, r.used[i])
	}
	l.count(r)
	if l.Up() {
		l.nudge()
	}
}

// deferCharge posts n of a counter later.
func (l *Limiter) deferCharge(line budget.Line, n int64) {
	if !l.backlog.add(line, n) {
		l.dropped("too many counters were spent from without the store")
	}
}

// cancelAttempt ends a call without an answer: after its deadline in the
// store, when it can no more be applied, it is settled with nothing used.
func (l *Limiter) cancelAttempt(r *budget.Request) {
	rec := &record{limiter: l, epoch: r.Epoch, ended: true, cancel: true}
	rec.held.Open(l, rec, *r)
	rec.note(make([]int64, len(r.Lines)))
	if !l.queue.cancel(rec, time.Now().Add(l.cfg.Timeout+2*l.cfg.Slack)) {
		l.dropped("the queue of settlements is full")
	}
	l.nudge()
}

// queue holds what has ended and the store has not acknowledged.
type queue struct {
	limit    int64
	size     atomic.Int64 // admitted and not done, on its way included
	dropping atomic.Bool  // since it was full

	mu      sync.Mutex
	ended   []*record            // not on their way
	due     []attempt            // cancels, in the order of their times
	cancels map[*record]struct{} // those that are not done
}

// attempt is a cancel and when it may be sent.
type attempt struct {
	r  *record
	at time.Time
}

func (q *queue) init(limit int) {
	q.limit = int64(limit)
	q.cancels = make(map[*record]struct{})
}

func (q *queue) len() int { return int(q.size.Load()) }

// admit takes a place, if there is one.
func (q *queue) admit() bool {
	if q.size.Add(1) <= q.limit {
		return true
	}
	q.size.Add(-1)
	return false
}

// done frees r's place.
func (q *queue) done(r *record) {
	if q.size.Add(-1) <= q.limit/2 {
		if q.dropping.Load() {
			q.dropping.Store(false)
		}
	}
	if !r.cancel {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.cancels, r)
}

// push lists an admitted record for the worker.
func (q *queue) push(r *record) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = append(q.ended, r)
}

// cancel admits a cancel that may be sent from at on.
func (q *queue) cancel(r *record, at time.Time) bool {
	if !q.admit() {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.due = append(q.due, attempt{r, at})
	q.cancels[r] = struct{}{}
	return true
}

// cancelling lists the ids of attempts yet to be cancelled.
func (q *queue) cancelling() (ids []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for r := range q.cancels {
		ids = append(ids, r.held.Request.ID)
	}
	return ids
}

// cancellations are the ends of those attempts.
func (q *queue) cancellations() (list []budget.Settlement) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for r := range q.cancels {
		list = append(list, r.settlement())
	}
	return list
}

// take moves what is due to the ended, and takes up to n of those. It returns
// when the next cancel is due, or zero.
func (q *queue) take(n int, now time.Time) ([]*record, time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.due) > 0 && !q.due[0].at.After(now) {
		q.ended = append(q.ended, q.due[0].r)
		q.due = q.due[1:]
	}
	var next time.Time
	if len(q.due) > 0 {
		next = q.due[0].at
	}
	n = min(n, len(q.ended))
	batch := q.ended[:n:n]
	if q.ended = q.ended[n:]; len(q.ended) == 0 {
		q.ended = nil // let go of the array that the batch still has
	}
	return batch, next
}
