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
	keys        []*key             // at least one; of a provider without keys, an empty one
	rotation    map[string]float64 // how each target stands in it, by the target's model
	conditions  conditions
	refusals    map[usageKey]*usageRefusal
	inflight    atomic.Int64 // calls sent and not yet ended
	turn        int          // rotates among keys of which nothing is known
}

// key is one API key of a provider.
type key struct {
	secret string
	id     string // its hash; empty: it is no secret
	pacer  *pacer // its own, or the provider's
	// left is what the provider last said is left for this key, -1: nothing.
	left atomic.Int64
}

// tell notes what an answer to this key said.
func (k *key) tell(t told) {
	if t.tokens >= 0 {
		k.left.Store(t.tokens)
		return
	}
	k.left.Store(t.requests)
}

// choose picks the target of the next try, or returns -1: among those that neither
// rest nor failed this job, from the first order whose wait is not too long, by
// weight and headroom. What failed this job follows, the soonest ready first.
func (c *Client) choose(j *Job, st []standing) (target int, how choice) {
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
		return soonest, choice{last: true, waits: true}
	}
	if len(fresh) == 1 {
		return fresh[0], choice{last: true, waits: true}
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	looks := make([]outlook, len(targets))
	for _, i := range fresh {
		looks[i] = c.outlook(j, targets[i], st[i].skip, now)
	}
	fresh = least(fresh, func(i int) int { return looks[i].rest.rank() })
	fresh, how.waits = j.spill(fresh, st, looks)
	how.last = looks[fresh[0]].rest.rank() > 0
	return c.balance(j, fresh, looks), how
}

// choice is what goes with a target that was chosen.
type choice struct {
	last  bool // nothing can serve that does not rest
	waits bool // no order is known to serve within SpillAfter, or there is no other: the job waits as long as it may
}

// evenly is a wait that does not count as one: turns are spaced evenly, so a call
// that comes between two of them waits though its target has room.
const evenly = 100 * time.Millisecond

// spillAfter is the longest wait before a job goes to the next order.
func (j *Job) spillAfter() time.Duration { return max(j.SpillAfter, evenly) }

// spill is those of set that a call goes to by their order: the first order in
// which it is not known to wait for longer than SpillAfter, or if there is none,
// where it waits least; and whether it is to wait there as long as it may.
func (j *Job) spill(set []int, st []standing, looks []outlook) (to []int, waits bool) {
	soon := slices.DeleteFunc(slices.Clone(set), func(i int) bool { return st[i].spilled || looks[i].wait > j.spillAfter() })
	if len(soon) == 0 {
		return least(set, func(i int) int { return int(looks[i].wait) }), true
	}
	to = least(soon, func(i int) int { return j.Targets[i].rank() })
	return to, len(to) == len(set)
}

// least is those of set for which rank is least.
func least(set []int, rank func(int) int) (lowest []int) {
	for _, i := range set {
		if len(lowest) > 0 && rank(i) < rank(lowest[0]) {
			lowest = lowest[:0]
		}
		if len(lowest) == 0 || rank(i) == rank(lowest[0]) {
			lowest = append(lowest, i)
		}
	}
	return lowest
}

// balance picks from set by smooth weighted rotation, each weight scaled by the
// target's headroom; if none has any, the one with the shortest wait. mu is held.
func (c *Client) balance(j *Job, set []int, looks []outlook) int {
	best, soonest := -1, -1
	var total float64
	stands := func(i int) float64 { return c.state(j.Targets[i].Provider).rotation[j.Targets[i].Model] }
	for _, i := range set {
		t := j.Targets[i]
		if wait := looks[i].wait; wait > 0 {
			if soonest < 0 || wait < looks[soonest].wait {
				soonest = i
			}
			continue
		}
		share := float64(max(t.Weight, 1)) * max(looks[i].headroom, leastHeadroom)
		c.state(t.Provider).rotate(t.Model, share)
		total += share
		if best < 0 || stands(i) > stands(best) {
			best = i
		}
	}
	if best < 0 {
		return soonest
	}
	c.state(j.Targets[best].Provider).rotate(j.Targets[best].Model, -total)
	return best
}

// rotate moves a target on in the rotation.
func (s *state) rotate(model string, by float64) {
	if len(s.rotation) >= maxConditions { // only "*" makes so many: names of clients' choosing
		clear(s.rotation)
	}
	s.rotation[model] += by
}

// leastHeadroom is what a target that can take one more call counts at least.
const leastHeadroom = 0.01

// outlook is how a call that comes now stands, as far as that is known.
type outlook struct {
	headroom float64       // how much of a full burst is free, 0 to 1
	wait     time.Duration // for its turn, or until what rests can be asked
	rest     rest
}

// outlook is that of the best key of t's provider. mu is held.
func (c *Client) outlook(j *Job, t Target, skip []*key, now time.Time) outlook {
	_, look := c.state(t.Provider).best(t.part(j), j.tokens(t.Provider), skip, now)
	return look
}

// outlook is how a call of n tokens for model stands with k. What may be asked
// though it rests is waited for no longer than its turn.
func (s *state) outlook(k *key, model string, n tokens.Count, now time.Time) outlook {
	look := outlook{rest: s.conditions.look(k.id, model, now)}
	look.headroom, look.wait = k.pacer.outlook(n, now)
	if look.rest.cause.bars() && look.rest.wait > look.wait {
		look.headroom, look.wait = 0, look.rest.wait
	}
	return look
}

// best is the key for a call, but for those in skip, and how the call stands with
// it: a key that does not rest, the one that can serve soonest, then the one that
// has most left, then each in turn. It is nil if skip holds all. mu is held.
func (s *state) best(model string, n tokens.Count, skip []*key, now time.Time) (best *key, look outlook) {
	for i := range s.keys {
		k := s.keys[(s.turn+i)%len(s.keys)]
		if slices.Contains(skip, k) {
			continue
		}
		if l := s.outlook(k, model, n, now); best == nil || l.better(look) || !look.better(l) && k.more(best) {
			best, look = k, l
		}
	}
	return best, look
}

// better reports whether a call stands better with o than with other.
func (o outlook) better(other outlook) bool {
	switch {
	case o.rest.rank() != other.rest.rank():
		return o.rest.rank() < other.rest.rank()
	case o.wait != other.wait:
		return o.wait < other.wait
	default:
		return o.headroom > other.headroom
	}
}

// more reports whether the provider said that k has more left than other.
func (k *key) more(other *key) bool {
	a, b := k.left.Load(), other.left.Load()
	return b >= 0 && (a < 0 || a > b)
}

// keys is how many keys t's provider has.
func (c *Client) keys(t Target) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.state(t.Provider).keys)
}

// key picks the key of the next try for model, but for those in skip, and returns
// how the call stands with it. It is nil if skip holds all.
func (c *Client) key(s *state, model string, n tokens.Count, skip []*key) (*key, outlook) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.turn++
	return s.best(model, n, skip, time.Now())
}

// prepare is the dialect's outbound call of a try.
func (c *Client) prepare(a attempt, r *run) (dialect.Outbound, error) {
	j, t := r.job, a.target
	up := t.upstream(a.key.secret)
	up.Model = t.model(j)
	switch t.Provider.Usage {
	case Always:
		up.InjectUsage = true
	case Never:
	default:
		up.InjectUsage = r.plain != a.state && !c.withoutUsage(a, j)
	}
	up.MaxOutput = j.CapOutput
	return j.Dialect.Prepare(j.Call, up)
}
