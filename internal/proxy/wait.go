package proxy

import (
	"context"
	"sync"
	"time"

	"llmgw/internal/budget"
)

// waitroom holds requests whose limits say on_exceed: wait, in one line for
// each counter that they wait for: first come, first served, so that a large
// request is not starved by small ones. Only the first of a line asks again.
// Leaving is free. The room is bounded over all lines.
type waitroom struct {
	mu      sync.Mutex
	queues  map[counter][]*ticket
	waiting int
}

// counter identifies what is waited for, over reloads.
type counter struct{ place, name, value string }

func counterOf(l budget.Line) counter { return counter{l.Limit.Place, l.Limit.Name, l.Value} }

// ticket is one request's place. first is closed when it is its turn to ask;
// freed receives when a slot may have come free.
type ticket struct {
	first chan struct{}
	freed chan struct{}
}

func newWaitroom() *waitroom { return &waitroom{queues: map[counter][]*ticket{}} }

// pollSlots is how often the first in line asks again for what no verdict can
// tell the time of (a slot freed by another instance).
const pollSlots = 100 * time.Millisecond

// join takes the last place in c's line, or returns nil if the room holds
// limit requests already.
func (r *waitroom) join(c counter, limit int) *ticket {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting >= limit {
		return nil
	}
	t := &ticket{first: make(chan struct{}), freed: make(chan struct{}, 1)}
	if len(r.queues[c]) == 0 {
		close(t.first)
	}
	r.queues[c] = append(r.queues[c], t)
	r.waiting++
	return t
}

// leave gives up t's place and lets the next one ask.
func (r *waitroom) leave(c counter, t *ticket) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.queues[c]
	for i, other := range q {
		if other != t {
			continue
		}
		q = append(q[:i:i], q[i+1:]...)
		r.waiting--
		if i == 0 && len(q) > 0 {
			close(q[0].first)
		}
		break
	}
	if len(q) == 0 {
		delete(r.queues, c)
		return
	}
	r.queues[c] = q
}

// ahead returns the first of lines that others wait for and whose limit lets
// requests wait: a newcomer joins that line instead of overtaking it.
func (r *waitroom) ahead(lines []budget.Line) (counter, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting == 0 {
		return counter{}, false
	}
	for _, l := range lines {
		if c := counterOf(l); l.Limit.Wait && len(r.queues[c]) > 0 {
			return c, true
		}
	}
	return counter{}, false
}

// wake tells the first in each of lines' queues that something came back.
func (r *waitroom) wake(lines []budget.Line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting == 0 {
		return
	}
	for _, l := range lines {
		if q := r.queues[counterOf(l)]; len(q) > 0 {
			select {
			case q[0].freed <- struct{}{}:
			default:
			}
		}
	}
}

// sleep waits for d, or until something came back, or ctx's end.
func (t *ticket) sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.freed:
		return nil
	case <-timer.C:
		return nil
	}
}

// patience is how long p may wait for its limits after verdict v, or 0: every
// line that refuses must let requests wait. known is when it would fit, 0 if
// nobody can tell.
func patience(p *plan, v budget.Verdict) (limit, known time.Duration) {
	limit = -1
	for i, s := range v.Lines {
		l := p.lines[i].Limit
		if s.Outcome == budget.Granted || l.Mode == budget.Shadow {
			continue
		}
		if !l.Wait || s.Outcome == budget.NeverFits || s.Outcome == budget.Unavailable {
			return 0, 0
		}
		if limit < 0 || l.MaxWait < limit {
			limit = l.MaxWait
		}
	}
	return p.atMost(max(limit, 0)), v.Wait
}

// atMost shortens a wait to what the client allows.
func (p *plan) atMost(d time.Duration) time.Duration {
	if p.maxWait >= 0 {
		return min(d, p.maxWait)
	}
	return d
}
