package upstream

import (
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/tokens"
)

// slow lowers the rate of this gateway's calls for model, if the refused one was
// sent after the last time that it was lowered.
func (p *pacer) slow(model string, sent time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paced != nil {
		p.throttles.cut(model, time.Now(), sent)
	}
}

// hold grants nothing for d, on all gateways.
func (p *pacer) hold(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paced == nil || d <= 0 {
		return
	}
	if until := time.Now().Add(d); until.After(p.paused) {
		p.paused = until
	}
	for _, l := range p.paced.lines {
		if l.Algorithm == budget.Pacing {
			p.limiter.Correct(budget.Correction{Line: budget.Line{Limit: l}, AtMost: -1, Pause: d})
			break
		}
	}
}

// correct lowers the level of unit's limit to what the provider says is left.
// The store is only asked where that can matter.
func (p *pacer) correct(unit budget.Unit, remaining int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paced == nil {
		return
	}
	for _, l := range p.paced.lines {
		if l.Unit != unit || l.Algorithm != budget.Pacing {
			continue
		}
		if unit == budget.Requests {
			remaining = min(remaining, l.Burst) * milli
		}
		if remaining < l.Burst {
			p.limiter.Correct(budget.Correction{Line: budget.Line{Limit: l}, AtMost: max(0, remaining)})
		}
	}
}

// outlook is how a call of n tokens that comes now stands, as far as that is
// known: how much of a full burst is free, 0 to 1, or how long it would wait.
func (p *pacer) outlook(n tokens.Count, now time.Time) (headroom float64, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paced == nil {
		return 1, 0
	}
	headroom, wait = p.levels.outlook(p.paced, float64(n), now)
	wait = max(wait, p.paused.Sub(now), p.interval(request{tokens: n}, now))
	if p.queue.n > 0 {
		wait = max(1, wait, p.readyAt.Sub(now)) + p.duration(p.queue.sum())
	}
	if wait > 0 {
		return 0, wait
	}
	return headroom, 0
}
