package upstream

import (
	"math"
	"time"
)

// spans remembers the tokens that this gateway sent to a provider in the last
// minute, in steps, and says when more would fit under a judge that counts
// every interval: what a bucket cannot promise for costs above its capacity.
// The zero spans is empty. It is not safe for concurrent use.
type spans struct {
	steps [steps]float64
	total float64 // of all steps
	last  int64   // the step written last
}

// step is the resolution; what was sent in one counts as sent at its end.
const (
	step  = 10 * time.Millisecond
	steps = int64(time.Minute/step) + 10 // and the jitter
)

func stepOf(now time.Time) int64 { return now.UnixNano() / int64(step) }

// add notes that n tokens are sent at now, and returns the step to lower later.
func (s *spans) add(now time.Time, n float64) int64 {
	at := max(stepOf(now), s.last)
	if at-s.last >= steps {
		s.steps, s.total = [steps]float64{}, 0
		s.last = at
	}
	for s.last < at {
		s.last++
		s.total -= s.steps[s.last%steps]
		s.steps[s.last%steps] = 0
	}
	s.steps[at%steps] += n
	s.total += n
	return at
}

// lower takes n back of what was noted at a step, if that is still remembered.
func (s *spans) lower(at int64, n float64) {
	if s.last-at < steps {
		n = min(n, s.steps[at%steps])
		s.steps[at%steps] -= n
		s.total -= n
	}
}

// wait is how long it takes until n more fit, by these rules: no minute holds
// more than the limit, and no window more than its share n_W; a cost above
// n_W takes k windows, which may hold k·n_W together.
func (s *spans) wait(p *paced, n float64, now time.Time) time.Duration {
	minute := float64(p.limits.TokensPerMinute)
	n = min(n, minute)
	k := max(1, math.Ceil(n/p.tokens.n))
	short := time.Duration(k * float64(p.tokens.window))
	wait := s.until(min(short, time.Minute)+p.tokens.jitter, min(k*p.tokens.n, minute)-n, now)
	if short < time.Minute {
		wait = max(wait, s.until(time.Minute+p.tokens.jitter, minute-n, now))
	}
	return wait
}

// until is how long it takes until the last span holds no more than room.
func (s *spans) until(span time.Duration, room float64, now time.Time) time.Duration {
	if s.total <= room {
		return 0
	}
	oldest := max(stepOf(now.Add(-span)), s.last-steps+1)
	var sum float64
	for at := s.last; at >= oldest; at-- {
		sum += s.steps[at%steps]
		if sum > room && s.steps[at%steps] > 0 {
			return max(0, time.Unix(0, (at+1)*int64(step)).Add(span).Sub(now))
		}
	}
	return 0
}
