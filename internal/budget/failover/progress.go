package failover

import (
	"time"

	"llmgw/internal/budget"
)

// What a crash of this process charges an open reservation by
// budget.ChargeProgress is told to the store in batches, every Progress, and
// only of what changed:
//
//	reserved ──Sent──► the input, though it may yet come back
//	         ──Report─► what was used, and a margin: as much again as came since
//	                    the report before, of which the store is not told yet
//
// The store bounds it by what is reserved.

// Sent implements budget.Holder: its request is on its way, so a crash charges
// used although no answer has begun.
func (r *record) Sent(used []int64) { r.news(used, sent) }

// Report implements budget.Holder.
func (r *record) Report(used []int64) { r.news(used, begun) }

// stage tells how far the answer of a reservation is.
type stage int

const (
	waits stage = iota // nothing is known
	sent               // the request is on its way: used may yet come back
	begun              // the answer has begun
)

func (r *record) news(used []int64, at stage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended || at < r.stage {
		return
	}
	r.note(used)
	r.stage, r.dirty = at, true
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
			l.sendReports()
		}
	}
}

// sendReports sends what has changed since the last time, in batches. What
// could not be sent, or the store does not know yet, waits for the next time.
func (l *Limiter) sendReports() {
	list := l.records.dirty()
	for len(list) > 0 && l.Up() {
		n := min(len(list), batchSize)
		batch := list[:n]
		list = list[n:]
		progress, of := progressOf(batch)
		if len(progress) == 0 {
			continue
		}
		answered := l.report(progress)
		for i, r := range of {
			r.told(&progress[i], answered)
		}
	}
}

// progressOf collects the progress of a batch, and the records it is of.
func progressOf(batch []*record) (progress []budget.Progress, of []*record) {
	for _, r := range batch {
		if p, ok := r.progress(); ok {
			progress = append(progress, p)
			of = append(of, r)
		}
	}
	return progress, of
}

// progress is the report on r, if there is something to report.
func (r *record) progress() (p budget.Progress, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended || r.posted != known || !r.dirty {
		return p, false
	}
	r.dirty = false
	used := append([]int64(nil), r.used...)
	p = budget.Progress{ID: r.storeID(), Lines: r.lines, Crash: used}
	if r.stage == begun {
		p.Used, p.Crash = used, budget.WithMargin(used, r.before)
	}
	return p, true
}

// told notes that the store was told p, or that it did not answer.
func (r *record) told(p *budget.Progress, answered bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !answered {
		r.dirty = true
		return
	}
	r.before = p.Used
	if p.Used == nil {
		r.before = p.Crash
	}
}

func (l *Limiter) report(progress []budget.Progress) bool {
	ctx, cancel := l.background()
	defer cancel()
	start := time.Now()
	err := l.store.Report(ctx, progress)
	return l.judge("report", time.Since(start), err)
}
