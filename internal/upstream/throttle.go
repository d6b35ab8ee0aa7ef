package upstream

import (
	"time"

	"llmgw/internal/budget"
)

// A provider that refuses a model in spite of the pace is asked less for it: 0.7 of
// the rate, growing back by 0.02 of the full rate a second.
const (
	cutTo       = 0.7
	recovery    = 0.02
	leastFactor = 0.1
)

// throttle is the part of the configured rate that is used. The zero throttle
// uses all of it.
type throttle struct {
	base float64 // at the time of the last cut; 0: never cut
	at   time.Time
}

// factor is the part of the rate in use at now, leastFactor to 1.
func (t *throttle) factor(now time.Time) float64 {
	if t.base == 0 {
		return 1
	}
	return min(1, t.base+recovery*now.Sub(t.at).Seconds())
}

// cut lowers the rate because of a refusal of what was sent at sent: once for
// all that was on its way when the rate was lowered last.
func (t *throttle) cut(now, sent time.Time) {
	if t.base != 0 && sent.Before(t.at) {
		return
	}
	t.base, t.at = max(leastFactor, t.factor(now)*cutTo), now
}

// throttles are those of a provider's models. The zero throttles use all of each
// rate.
type throttles map[string]throttle

// factor is the part of the rate that model's calls use at now.
func (t throttles) factor(model string, now time.Time) float64 {
	one := t[model]
	return one.factor(now)
}

// cut lowers the rate of model's calls.
func (t *throttles) cut(model string, now, sent time.Time) {
	if *t == nil || len(*t) >= maxConditions {
		*t = make(throttles)
	}
	one := (*t)[model]
	one.cut(now, sent)
	(*t)[model] = one
}

// levels is what a pacer's counters held when the limiter last told.
type levels struct {
	at    time.Time
	lines []budget.LineState
}

// note keeps a verdict's counters. A verdict without any changes nothing.
func (l *levels) note(v budget.Verdict, now time.Time) {
	if len(v.Lines) == 0 {
		return
	}
	l.at = now
	l.lines = append(l.lines[:0], v.Lines...)
}

// give notes what a settlement gave back on the i-th line.
func (l *levels) give(i int, n int64) {
	if i < len(l.lines) {
		l.lines[i].Remaining = min(l.lines[i].Remaining+n, l.lines[i].Capacity)
	}
}

// outlook is how a call of n tokens stands at now: the least part of a capacity
// that is free, 0 to 1, or how long the call must wait for it. A counter that
// nobody asked about yet is full.
func (l *levels) outlook(p *paced, n float64, now time.Time) (headroom float64, wait time.Duration) {
	headroom, wait = 1, l.wait(p, n, now)
	for i, limit := range p.lines {
		if i >= len(l.lines) || l.lines[i].Capacity <= 0 {
			continue
		}
		level := l.level(i, limit, now)
		if limit.Algorithm == budget.Slots && level < 1 {
			wait = max(wait, slotPoll)
		}
		headroom = min(headroom, level/float64(l.lines[i].Capacity))
	}
	return max(0, headroom), wait
}

// wait is how long a call of n tokens must wait for its rates, not its slot.
func (l *levels) wait(p *paced, n float64, now time.Time) (longest time.Duration) {
	for i, limit := range p.lines {
		if i >= len(l.lines) || limit.Algorithm != budget.Pacing {
			continue
		}
		need := float64(milli)
		if limit.Unit == budget.Tokens {
			need = p.charge(n)
		}
		short := min(need, float64(limit.Burst)) - l.level(i, limit, now)
		if short > 0 {
			longest = max(longest, time.Duration(short/float64(limit.Amount)*float64(time.Minute)), 1)
		}
	}
	return longest
}

// level is the i-th counter's, refilled until now.
func (l *levels) level(i int, limit *budget.Limit, now time.Time) float64 {
	return float64(l.lines[i].After(limit, now.Sub(l.at)).Remaining)
}
