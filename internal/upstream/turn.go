package upstream

import (
	"context"
	"strconv"
	"sync"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/tokens"
)

// turn is a try's reservation. A nil turn reserved nothing.
type turn struct {
	held   *budget.Reservation
	pacer  *pacer
	id     string
	lines  []budget.Line
	tokens tokens.Count // as counted at arrival
	scale  float64      // limit units per token
	step   int64        // in the pacer's spans
	once   sync.Once
}

// ask asks the limiter once. It returns a turn, or the verdict that refuses.
func (p *pacer) ask(ctx context.Context, r request, n int) (*turn, budget.Verdict) {
	now := time.Now()
	p.mu.Lock()
	if p.paced == nil { // a reload took the limits away
		p.mu.Unlock()
		return &turn{}, budget.Verdict{Binding: -1}
	}
	if wait := p.paused.Sub(now); wait > 0 {
		p.readyAt = p.paused
		p.mu.Unlock()
		return nil, budget.Verdict{Outcome: budget.Exceeded, Binding: -1, Wait: wait}
	}
	if wait := p.interval(r, now); wait > 0 {
		p.readyAt, p.binding = now.Add(wait), p.paced.index(budget.Tokens)
		p.mu.Unlock()
		return nil, budget.Verdict{Outcome: budget.Exceeded, Binding: -1, Wait: wait}
	}
	t := p.turn(r, n, now)
	t.step = p.note(float64(r.tokens), now)
	p.mu.Unlock()

	held, v := p.limiter.Reserve(ctx, budget.Request{ID: t.id, Lines: t.lines, CrashCharge: budget.ChargeFull})

	p.mu.Lock()
	defer p.mu.Unlock()
	p.levels.note(v, now)
	if v.Outcome != budget.Granted {
		p.readyAt = now.Add(v.Wait)
		p.binding = max(v.Binding, 0)
		p.lower(t.step, float64(r.tokens))
		return nil, v
	}
	t.held = held
	p.readyAt = now
	return t, v
}

// interval is how long r must wait for the intervals of what this gateway sent.
// mu is held.
func (p *pacer) interval(r request, now time.Time) time.Duration {
	if p.sent == nil || p.paced.tokens.n == 0 || p.paced.limits.Kind == ByBucket {
		return 0
	}
	return p.sent.wait(p.paced, float64(r.tokens), now)
}

// note counts n tokens as sent at now, if tokens are limited. mu is held.
func (p *pacer) note(n float64, now time.Time) int64 {
	if p.paced.tokens.n == 0 {
		return 0
	}
	if p.sent == nil {
		p.sent = &spans{}
	}
	return p.sent.add(now, n)
}

// lower takes n tokens of what was counted at a step back. mu is held.
func (p *pacer) lower(step int64, n float64) {
	if p.sent != nil && n > 0 {
		p.sent.lower(step, n)
	}
}

// turn is the reservation that the n-th ask of r makes. mu is held.
func (p *pacer) turn(r request, n int, now time.Time) *turn {
	f := p.throttles.factor(r.model, now)
	t := &turn{pacer: p, id: r.id, tokens: r.tokens, scale: 1, lines: make([]budget.Line, 0, len(p.paced.lines))}
	if r.nth > 0 {
		t.id += "/" + strconv.Itoa(r.nth)
	}
	if n > 0 {
		t.id += "." + strconv.Itoa(n)
	}
	for _, l := range p.paced.lines {
		line := budget.Line{Limit: l, Amount: 1}
		switch l.Unit {
		case budget.Requests:
			line.Amount = int64(milli / f)
		case budget.Tokens:
			cost := p.paced.charge(float64(r.tokens)) / f
			line.Amount = int64(cost)
			if r.tokens > 0 {
				t.scale = cost / float64(r.tokens)
			}
		}
		t.lines = append(t.lines, line)
	}
	return t
}

// settle ends t, charging calls (0 or 1) and n tokens. Only the first end counts.
func (t *turn) settle(calls int64, n tokens.Count) {
	if t == nil || len(t.lines) == 0 {
		return
	}
	t.once.Do(func() {
		used := make([]int64, len(t.lines))
		for i, l := range t.lines {
			switch l.Limit.Unit {
			case budget.Requests:
				used[i] = calls * l.Amount
			case budget.Tokens:
				used[i] = int64(min(float64(n)*t.scale, float64(tokens.MaxCount)))
			}
		}
		t.held.Settle(used)
		t.pacer.returned(t, n, used)
	})
}

// counted is the tokens that t was taken for.
func (t *turn) counted() tokens.Count {
	if t == nil {
		return 0
	}
	return t.tokens
}

// returned notes what settling t gave back of the n tokens it was counted for.
func (p *pacer) returned(t *turn, n tokens.Count, used []int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lower(t.step, float64(t.tokens-n))
	gave := false
	for i, l := range t.lines {
		p.levels.give(i, l.Amount-used[i])
		gave = gave || l.Amount > used[i]
	}
	if !gave || p.queue.n == 0 {
		return
	}
	select {
	case p.freed <- struct{}{}:
	default:
	}
}

// full ends t, charging what was reserved.
func (t *turn) full() {
	if t != nil {
		t.settle(1, t.tokens)
	}
}
