package failover

import (
	"time"

	"llmgw/internal/budget"
)

// batchSize is the most settlements of one call.
const batchSize = 256

// retryAfter is the pause after a failed background call while the store is up.
const retryAfter = 50 * time.Millisecond

// maxAttempts is how often a settlement may fail by itself, in a store that
// answers a probe, before it is given up.
const maxAttempts = 20

// work is the one goroutine that asks the store for nobody: it probes a store
// that is down, and tells one that is up what it has missed.
func (l *Limiter) work() {
	w := worker{Limiter: l, batch: batchSize, probeEvery: l.cfg.Probe, probeID: "probe-" + string(l.keeper.Epoch()) + "-"}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(w.round())
		select {
		case <-l.ctx.Done():
			return
		case <-l.wake:
		case <-timer.C:
		}
	}
}

// worker is the state of work.
type worker struct {
	*Limiter
	batch      int           // settlements in the next call: halved by a failure, doubled by a success
	probeEvery time.Duration // grows while the store keeps falling
	probeID    string        // what the ids of probes begin with
	probes     int
	probeEnds  time.Time // when a probe without an answer may be cancelled; zero: there is none
	nextProbe  time.Time
	rose       time.Time // when the store last came up
}

// idle is how long round waits if nothing is known to come.
const idle = time.Hour

// round does what can be done now and returns when to come again.
func (w *worker) round() time.Duration {
	if !w.Up() {
		if wait := w.probe(); wait > 0 {
			return wait
		}
	}
	next, ok := w.sendEnded()
	ok = ok && w.postBacklog() && w.postOpen() && w.sendCorrections()
	if !ok {
		return retryAfter
	}
	wait := min(w.settleDown(), w.endProbe())
	if next.IsZero() {
		return wait
	}
	return min(wait, max(time.Until(next), time.Millisecond))
}

// calm is how long no call may have failed before the shares are dropped: calls
// that fail one by one share one outage.
const calm = time.Second

// settleDown ends the outage if all that was spent in it is in the store and no
// call has failed lately. It returns when to try again.
func (w *worker) settleDown() time.Duration {
	if w.outage.Load() == nil {
		return idle
	}
	if quiet := w.breaker.quiet(); quiet < calm {
		return calm - quiet
	}
	if w.records.local.Load() == 0 && w.backlog.len() == 0 {
		w.endOutage()
	}
	return idle // who adds to them wakes the worker
}

// sendEnded settles what has ended, batch by batch. It returns when the next
// cancel is due, and whether all the rest was settled.
func (w *worker) sendEnded() (next time.Time, ok bool) {
	for w.Up() && w.ctx.Err() == nil {
		batch, next := w.queue.take(w.batch, time.Now())
		if len(batch) == 0 {
			return next, true
		}
		if !w.sendBatch(batch) {
			return next, false
		}
	}
	return time.Time{}, false
}

// sendBatch settles one batch in one call, and puts it back if that fails.
func (w *worker) sendBatch(batch []*record) bool {
	settlements := make([]budget.Settlement, len(batch))
	for i, r := range batch {
		settlements[i] = r.settlement()
	}
	ctx, cancel := w.background()
	defer cancel()
	start := time.Now()
	settled, err := w.store.Settle(ctx, settlements)
	took := time.Since(start)
	if err == nil && len(settled) == len(batch) {
		w.judge("settle", took, nil)
		for i, r := range batch {
			w.finish(r, settled[i])
		}
		w.batch = min(2*w.batch, batchSize)
		return true
	}
	if len(batch) == 1 && w.hopeless(batch[0], took, err) {
		w.finish(batch[0], budget.Settled{})
		return true
	}
	if len(batch) > 1 {
		w.judge("settle", took, err)
	}
	// One of them may be at fault: ask again with fewer.
	w.batch = max(1, len(batch)/2)
	for _, r := range batch {
		w.queue.push(r)
	}
	return false
}

// hopeless judges a settlement that failed alone, and reports whether to try it no
// more: it was refused for its own sake, or failed maxAttempts times while the
// store answered a probe.
func (w *worker) hopeless(r *record, took time.Duration, err error) bool {
	if answer(err) {
		w.judge("settle", took, err)
		return true
	}
	if w.probeOnce() != nil {
		w.judge("settle", took, err)
		return false
	}
	w.observer.StoreCall("settle", took, err)
	if r.attempts++; r.attempts < maxAttempts {
		return false
	}
	w.log.Error("the limit store cannot settle a reservation; it is left to be reclaimed", "id", r.held.Request.ID, "error", err)
	return true
}
