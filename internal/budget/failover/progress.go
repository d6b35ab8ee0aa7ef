package failover

import (
	"sync"
	"time"

	"llmgw/internal/budget"
)

// Report notes what the open reservation id has used so far, so that a crash
// charges it and what is open shrinks by it; used is copied. It does not block:
// reports are sent together, every Progress, and only of what changed.
func (l *Limiter) Report(id string, used []int64) {
	r := l.records.get(id)
	if r == nil {
		return
	}
	r.mu.Lock()
	if r.ended || r.partial {
		r.mu.Unlock()
		return
	}
	r.note(used)
	first := !r.dirty
	r.dirty = true
	r.mu.Unlock()
	if first {
		l.progress.add(r)
	}
}

// reports lists the records with news.
type reports struct {
	mu   sync.Mutex
	list []*record
}

func (p *reports) add(r *record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = append(p.list, r)
}

func (p *reports) take() []*record {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.list
	p.list = nil
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
			l.sendReports()
		}
	}
}

// sendReports sends what has changed since the last time, in batches. What
// could not be sent, or the store does not know yet, waits for the next time.
func (l *Limiter) sendReports() {
	list := l.progress.take()
	for len(list) > 0 {
		n := min(len(list), batchSize)
		batch := list[:n]
		list = list[n:]
		news, sent := l.news(batch)
		if len(news) == 0 {
			continue
		}
		if !l.Up() || !l.report(news) {
			for _, r := range sent {
				r.mu.Lock()
				again := !r.dirty
				r.dirty = true
				r.mu.Unlock()
				if again {
					l.progress.add(r)
				}
			}
		}
	}
}

// news collects the progress of a batch, and the records it is of.
func (l *Limiter) news(batch []*record) (news []budget.Progress, of []*record) {
	for _, r := range batch {
		r.mu.Lock()
		switch {
		case r.ended:
		case r.posted != known:
			l.progress.add(r)
		default:
			r.dirty = false
			news = append(news, budget.Progress{
				ID: r.storeID(), Lines: r.lines, Used: append([]int64(nil), r.used...),
			})
			of = append(of, r)
		}
		r.mu.Unlock()
	}
	return news, of
}

func (l *Limiter) report(news []budget.Progress) bool {
	ctx, cancel := l.background()
	defer cancel()
	start := time.Now()
	err := l.store.Report(ctx, news)
	return l.judge("report", time.Since(start), err)
}
