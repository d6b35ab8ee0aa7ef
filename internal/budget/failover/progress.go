package failover

import (
	"context"
	"sync"
	"time"

	"llmgw/internal/budget"
)

// What a crash of this process charges an open reservation by
// budget.ChargeProgress is reported to the store in batches, every Progress, and
// only of what changed:
//
//	reserved ──Sent──► the input, though it may yet come back
//	         ──Report─► what was used, and a margin: as much again as came since
//	                    the report before, of which the store does not know yet
//
// The store bounds it by what is reserved. The owner of a Bulk says itself what
// is used and lost, and sends its reports sooner.

// Sent implements budget.Holder: its request is on its way, so a crash charges
// used although no answer has begun.
func (r *record) Sent(used []int64) { r.progressed(used, sent) }

// Report implements budget.Holder.
func (r *record) Report(used []int64) { r.progressed(used, begun) }

// stage says how far the answer of a reservation is.
type stage int

const (
	waits stage = iota // nothing is known
	sent               // the request is on its way: used may yet come back
	begun              // the answer has begun
)

func (r *record) progressed(used []int64, at stage) {
	r.mu.Lock()
	if r.ended || at < r.stage {
		r.mu.Unlock()
		return
	}
	r.note(used)
	r.stage = at
	r.mu.Unlock()
	r.limiter.outbox.list(r)
}

// outbox lists the records of which the store does not know all.
type outbox struct {
	mu      sync.Mutex
	records []*record
	turn    chan struct{} // has room for the one who sends
}

// list adds r, unless it is there.
func (o *outbox) list(r *record) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !r.listed {
		r.listed = true
		o.records = append(o.records, r)
	}
}

// take removes and returns what is listed.
func (o *outbox) take() []*record {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := o.records
	o.records = nil
	for _, r := range list {
		r.listed = false
	}
	return list
}

// reportLoop sends the reports until the Limiter closes.
func (l *Limiter) reportLoop() {
	tick := time.NewTicker(l.cfg.Progress)
	defer tick.Stop()
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-tick.C:
			l.SendReports(l.ctx)
		}
	}
}

// SendReports reports what has changed since the last time, in batches. It blocks
// until the store has acknowledged all that was to be reported when it was called, and
// returns whether it has; by ctx's end it gives up. What could not be sent, or
// the store does not know yet, waits for the next time.
func (l *Limiter) SendReports(ctx context.Context) bool {
	select {
	case l.outbox.turn <- struct{}{}:
		defer func() { <-l.outbox.turn }()
	case <-ctx.Done():
		return false
	}
	list, all := l.outbox.take(), true
	for len(list) > 0 {
		n := min(len(list), batchSize)
		all = l.sendReport(ctx, list[:n]) && all
		list = list[n:]
	}
	return all
}

// sendReport reports one batch.
func (l *Limiter) sendReport(ctx context.Context, batch []*record) bool {
	var progress []budget.Progress
	var of []*record
	for _, r := range batch {
		if !l.Up() || r.postPending() {
			l.outbox.list(r)
			continue
		}
		if p, ok := r.progress(); ok {
			progress, of = append(progress, p), append(of, r)
		}
	}
	if len(progress) == 0 {
		return l.Up()
	}
	if !l.report(ctx, progress) {
		for _, r := range of {
			l.outbox.list(r)
		}
		return false
	}
	for i, r := range of {
		r.told(progress[i])
	}
	return true
}

// postPending reports whether the store is yet to be told of r at all.
func (r *record) postPending() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.posted != known && !r.ended
}

// progress is the report on r, if there is something to report. What the store is
// going to count less of is no longer counted as held here.
func (r *record) progress() (p budget.Progress, ok bool) {
	if r.owner != nil {
		if p, ok = r.owner.Progress(); !ok {
			return p, false
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return p, false
	}
	p.ID, p.Lines = r.storeID(), r.lines()
	if r.owner == nil {
		used := append([]int64(nil), r.used...)
		p.Crash = used
		if r.stage == begun {
			p.Used, p.Crash = used, budget.WithMargin(used, r.before)
		}
	}
	for i := range p.Lines {
		kept := p.Lines[i].Amount
		if i < len(p.Keep) {
			kept = p.Keep[i]
		}
		if i < len(p.Used) && p.Lines[i].Limit.Unit != budget.Concurrency {
			kept -= min(p.Used[i], kept)
		}
		r.keep(i, kept)
	}
	return p, true
}

// told notes that the store was told p.
func (r *record) told(p budget.Progress) {
	if r.owner != nil {
		r.owner.Told(p)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before = p.Used
	if p.Used == nil {
		r.before = p.Crash
	}
}

// report makes one call. One that fails does not count against the store: of a
// cluster one call may concern all nodes, and one that is away must not take the
// others with it.
func (l *Limiter) report(ctx context.Context, progress []budget.Progress) bool {
	limit, cancel := l.background()
	defer cancel()
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		limit, cancel = context.WithDeadline(limit, deadline)
		defer cancel()
	}
	start := time.Now()
	err := l.store.Report(limit, progress)
	l.observer.StoreCall("report", time.Since(start), err)
	return err == nil
}
