package upstream

import (
	"slices"
	"strings"
	"time"

	"llmgw/internal/budget"
)

// Live is what one provider is at, as this gateway knows it.
type Live struct {
	Name string
	// State is ok, unless every key or every model that was asked for rests:
	// refused (it takes no credential), spent (no quota is left), paused (it asked
	// to wait) or broken (attempts keep failing).
	State    string
	Waiting  int // calls that wait for their turn here
	Inflight int // calls sent from here and not yet ended
	// Headroom is what is left of each configured limit, of a provider with
	// limits for each key of the fullest key. Empty: none is configured.
	Headroom []Headroom
}

// Headroom is what is left of one limit, in its unit, as the limiter last told.
type Headroom struct {
	Unit             string
	Remaining, Limit int64
}

// Live tells what each provider is at, by name.
func (c *Client) Live() []Live {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]Live, 0, len(c.states))
	for name, s := range c.states {
		all = append(all, s.live(name, now))
	}
	slices.SortFunc(all, func(a, b Live) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// live is what s is at; the client's mu is held.
func (s *state) live(name string, now time.Time) Live {
	l := Live{Name: name, State: s.standing(now), Inflight: int(s.inflight.Load())}
	var seen []*pacer
	for _, k := range s.keys {
		if slices.Contains(seen, k.pacer) {
			continue
		}
		seen = append(seen, k.pacer)
		waiting, room := k.pacer.live(now)
		l.Waiting += waiting
		if l.Headroom == nil || (len(room) > 0 && room[0].Remaining > l.Headroom[0].Remaining) {
			l.Headroom = room
		}
	}
	return l
}

// standing is the state of s as a whole: what rests while something else serves
// does not count.
func (s *state) standing(now time.Time) string {
	names := map[cause]string{refused: "refused", spent: "spent", denied: "refused", limited: "paused", failing: "broken"}
	if len(s.rotation) == 0 {
		return "ok" // nothing was asked for yet
	}
	worst := rest{}
	for model := range s.rotation {
		look := rest{}
		for i, k := range s.keys {
			r := s.conditions.look(k.id, model, now)
			if k.pacer.pausedAt(now) {
				r = rest{cause: limited, wait: 1}
			}
			if i == 0 || r.rank() < look.rank() {
				look = r
			}
		}
		if look.cause == "" {
			return "ok"
		}
		worst = look
	}
	return names[worst.cause]
}

func (p *pacer) pausedAt(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return now.Before(p.paused)
}

// live is how many calls wait, and what is left of each limit: all of it where
// nothing was asked yet, and never more than a minute's.
func (p *pacer) live(now time.Time) (waiting int, room []Headroom) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paced == nil {
		return 0, nil
	}
	for i, line := range p.paced.lines {
		h := Headroom{Unit: string(line.Unit), Limit: p.paced.of(line)}
		h.Remaining = h.Limit
		if i < len(p.levels.lines) {
			h.Remaining = p.levels.left(i, line, h.Limit, now)
		}
		room = append(room, h)
	}
	return p.queue.n, room
}

// of is the configured amount of a limit.
func (s *paced) of(line *budget.Limit) int64 {
	switch line.Unit {
	case budget.Requests:
		return s.limits.RequestsPerMinute
	case budget.Concurrency:
		return s.limits.Concurrency
	default:
		return s.limits.TokensPerMinute
	}
}

// left is what the i-th counter has now as a part of limit: a bucket that was
// at its capacity has all, and it has refilled since it was told.
func (l *levels) left(i int, line *budget.Limit, limit int64, now time.Time) int64 {
	s := l.lines[i].After(line, now.Sub(l.at))
	if s.Capacity <= 0 {
		return limit
	}
	return int64(float64(max(s.Remaining, 0)) / float64(s.Capacity) * float64(limit))
}
