package failover

import (
	"context"
	"sync"
	"time"

	"llmgw/internal/budget"
)

// Correct lowers or pauses a counter. It does not block. While the store is
// away it works on this gateway's share, and the store is not told later: by
// then it would be stale.
func (l *Limiter) Correct(c budget.Correction) {
	if l.closed.Load() {
		return
	}
	if l.cfg.Timeout <= 0 {
		start := time.Now()
		err := l.store.Correct(context.Background(), []budget.Correction{c})
		l.judge("correct", time.Since(start), err)
		return
	}
	if l.Up() {
		l.corrects.put(c)
		l.nudge()
		return
	}
	s := l.currentOutage()
	if !hasShare(c.Line.Limit) || c.Line.Limit.Unit == budget.Concurrency {
		return
	}
	if c.AtMost > 0 {
		c.AtMost /= s.live
	}
	last, _ := l.counters.level(c.Line, time.Now())
	c.Line.Limit = s.share(c.Line.Limit, last)
	s.correct(c)
}

// corrections is the latest of each counter that was not sent yet.
type corrections struct {
	mu sync.Mutex
	m  map[budget.CounterID]budget.Correction
}

func (q *corrections) init() { q.m = make(map[budget.CounterID]budget.Correction) }

// maxCorrections bounds what waits for the worker; there are a few for each
// provider.
const maxCorrections = 4096

func (q *corrections) put(c budget.Correction) {
	q.mu.Lock()
	defer q.mu.Unlock()
	k := c.Line.Counter()
	was, ok := q.m[k]
	switch {
	case !ok && len(q.m) >= maxCorrections:
		return
	case ok:
		c.Pause = max(c.Pause, was.Pause)
		if c.AtMost < 0 || was.AtMost >= 0 && was.AtMost < c.AtMost {
			c.AtMost = was.AtMost
		}
	}
	q.m[k] = c
}

func (q *corrections) take() []budget.Correction {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.m) == 0 {
		return nil
	}
	list := make([]budget.Correction, 0, len(q.m))
	for _, c := range q.m {
		list = append(list, c)
	}
	clear(q.m)
	return list
}

// sendCorrections sends what waits. What fails is not sent again: the
// provider's next answer brings a fresher one.
func (w *worker) sendCorrections() bool {
	list := w.corrects.take()
	if len(list) == 0 {
		return true
	}
	ctx, cancel := w.background()
	defer cancel()
	start := time.Now()
	err := w.store.Correct(ctx, list)
	return w.judge("correct", time.Since(start), err)
}
