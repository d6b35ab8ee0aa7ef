package upstream

import (
	"slices"
	"sync/atomic"
	"time"

	"llmgw/internal/dialect"
	"llmgw/internal/tokens"
)

// state is what a Client knows of one provider, kept over reloads. Client.mu
// guards it but for the atomics.
type state struct {
	provider    *Provider
	connections *connections
	keys        []*key // at least one; of a provider without keys, an empty one
	targets     map[string]*health
	plain       atomic.Bool  // the provider takes no stream_options
	inflight    atomic.Int64 // calls sent and not yet ended
	turn        int          // rotates among keys of which nothing is known
}

// key is one API key of a provider.
type key struct {
	secret string
	pacer  *pacer // its own, or the provider's
	// left is what the provider last said is left for this key, -1: nothing.
	left atomic.Int64
	// until is when the provider takes calls by this key again, unix nanoseconds.
	until atomic.Int64
}

// tell notes what an answer to this key said.
func (k *key) tell(t told) {
	if t.tokens >= 0 {
		k.left.Store(t.tokens)
		return
	}
	k.left.Store(t.requests)
}

// choose picks the target of the next try, or returns -1: by weight and
// headroom among the healthy ones, those of weight 0 only when no other can
// serve; one that failed this job only when all did, the soonest ready first.
func (c *Client) choose(j *Job, st []standing) int {
	targets, soonest := j.Targets, -1
	var fresh []int
	for i := range targets {
		switch {
		case st[i].out:
		case st[i].ready.IsZero():
			fresh = append(fresh, i)
		case soonest < 0 || st[i].ready.Before(st[soonest].ready):
			soonest = i
		}
	}
	if len(fresh) == 0 {
		return soonest
	}
	if len(fresh) == 1 {
		return fresh[0]
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	healthy := slices.DeleteFunc(slices.Clone(fresh), func(i int) bool { return c.health(targets[i]).open(now) })
	if len(healthy) == 0 {
		healthy = fresh
	}
	if w := weighted(targets, healthy); len(w) > 0 {
		healthy = w
	}
	return c.balance(j, healthy, now)
}

// weighted is those of set that have a weight.
func weighted(targets []Target, set []int) (w []int) {
	for _, i := range set {
		if targets[i].Weight > 0 {
			w = append(w, i)
		}
	}
	return w
}

// balance picks from set by smooth weighted rotation, each weight scaled by the
// target's headroom; if none has any, the one with the shortest wait. mu is held.
func (c *Client) balance(j *Job, set []int, now time.Time) int {
	best, soonest := -1, -1
	var total float64
	var shortest time.Duration
	for _, i := range set {
		t := j.Targets[i]
		headroom, wait := c.state(t.Provider).outlook(j.tokens(t.Provider), now)
		if wait > 0 {
			if soonest < 0 || wait < shortest {
				soonest, shortest = i, wait
			}
			continue
		}
		share := float64(max(t.Weight, 1)) * max(headroom, leastHeadroom)
		h := c.health(t)
		h.current += share
		total += share
		if best < 0 || h.current > c.health(j.Targets[best]).current {
			best = i
		}
	}
	if best < 0 {
		return soonest
	}
	c.health(j.Targets[best]).current -= total
	return best
}

// leastHeadroom is what a target that can take one more call counts at least.
const leastHeadroom = 0.01

// outlook is that of the best key.
func (s *state) outlook(n tokens.Count, now time.Time) (headroom float64, wait time.Duration) {
	for i, k := range s.keys {
		h, w := k.outlook(n, now)
		if i == 0 || w < wait {
			wait = w
		}
		headroom = max(headroom, h)
	}
	return headroom, wait
}

// outlook is the pacer's, or the wait that the provider asked for.
func (k *key) outlook(n tokens.Count, now time.Time) (headroom float64, wait time.Duration) {
	headroom, wait = k.pacer.outlook(n, now)
	if cool := time.Duration(k.until.Load() - now.UnixNano()); cool > wait {
		return 0, cool
	}
	return headroom, wait
}

// key picks the key of the next try: the one that can serve soonest, then the
// one that has most left, then each in turn.
func (c *Client) key(s *state, n tokens.Count) *key {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(s.keys) == 1 {
		return s.keys[0]
	}
	now := time.Now()
	s.turn++
	best := s.keys[s.turn%len(s.keys)]
	for i := 1; i < len(s.keys); i++ {
		if k := s.keys[(s.turn+i)%len(s.keys)]; k.better(best, n, now) {
			best = k
		}
	}
	return best
}

// better tells whether k is to be used rather than other, for n tokens.
func (k *key) better(other *key, n tokens.Count, now time.Time) bool {
	headroom, wait := k.outlook(n, now)
	otherHeadroom, otherWait := other.outlook(n, now)
	switch {
	case wait != otherWait:
		return wait < otherWait
	case headroom != otherHeadroom:
		return headroom > otherHeadroom
	}
	a, b := k.left.Load(), other.left.Load()
	return b >= 0 && (a < 0 || a > b)
}

// health is the health of a target. mu is held.
func (c *Client) health(t Target) *health {
	s := c.state(t.Provider)
	h := s.targets[t.Model]
	if h == nil {
		if len(s.targets) >= maxTargets { // only "*" makes so many: names of clients' choosing
			clear(s.targets)
		}
		h = &health{}
		s.targets[t.Model] = h
	}
	return h
}

// maxTargets bounds the models of a provider that are told apart.
const maxTargets = 1000

// prepare is the dialect's outbound call of a try.
func (a attempt) prepare(r *run) (dialect.Outbound, error) {
	j, t := r.job, a.target
	up := t.upstream(a.key.secret)
	up.Model = t.model(j)
	switch t.Provider.Usage {
	case Always:
		up.InjectUsage = true
	case Never:
	default:
		up.InjectUsage = r.plain != a.state && !a.state.plain.Load()
	}
	up.MaxOutput = j.CapOutput
	return j.Dialect.Prepare(j.Call, up)
}
