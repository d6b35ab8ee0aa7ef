package estimate

import (
	"math"
	"sync"

	"llmgw/internal/tokens"
)

// How ratios are learned.
const (
	ratioLeast = 0.3 // an answer's ratio is held within these two
	ratioMost  = 4.0
	ratioRate  = 0.08 // the weight of a new answer once there were many
	spreadRate = 0.03 // likewise for the error, which must not jump
	marginMost = 1.0  // of the ratio
	tinyPrompt = 50   // prompts below it teach nothing
	fullPrompt = 400  // prompts from here on count fully
)

// How many mean errors are added to a reserve: one more after each answer that
// used more than that, a hundredth less after each, within bounds. So one answer
// of a hundred uses more in the long run, whatever the errors are like.
const (
	spreadFirst = 3.0
	spreadLeast = 1.5
	spreadMost  = 12.0
	spreadUp    = 1.0
	spreadDown  = spreadUp / 100
)

// ratioKey is a model at a provider, the kind of text that dominates, and the
// team that uses it: a tokenizer is seldom off by the same in all scripts, and
// teams do not send the same. The empty class has all texts, and speaks for a
// class of which too little is known.
type ratioKey struct{ provider, model, class, team string }

// classKnown is how many answers a class of text needs to speak for itself.
const classKnown = 10

// dominant names the class that a text belongs to: the rarest that makes up a
// third of its bytes.
func dominant(bytes [classes]int) string {
	total := 0
	for _, n := range bytes {
		total += n
	}
	for _, c := range [...]struct {
		class int
		name  string
	}{{cjk, "cjk"}, {wide, "wide"}, {digit, "digit"}} {
		if 3*bytes[c.class] > total {
			return c.name
		}
	}
	return "latin"
}

// ratio is what is known of a model: the mean of used ÷ estimated, the mean
// error of having predicted with it, and how many of these a reserve needs on
// top. The zero ratio knows nothing.
type ratio struct {
	mean, deviation, spread float64

	weight  float64 // of what was learned; the mean is plain while it is small
	answers int64
}

// reserve is the mean with a margin for the spread.
func (r ratio) reserve() float64 { return r.mean + min(r.spread*r.deviation, marginMost*r.mean) }

// What a team that is new to a model may take over from other teams: the mean of
// their ratios, each held within these two, and of one that is 1. So no team
// alone moves what another reserves by more than a half up, or a quarter down.
const (
	pullLeast = 0.5
	pullMost  = 2.0
	// teamKnown is how many answers a team needs to be judged by its own alone.
	teamKnown = 10
)

// pull is what one team's ratio counts for in that of all.
func (r ratio) pull() float64 { return min(pullMost, max(pullLeast, r.mean)) }

// shared is the sum of what all teams have learned of one model and class.
type shared struct {
	sum   float64
	teams int
}

// ratios learns one ratio for each model and team. It is safe for concurrent
// use, and bounded: the one with the fewest answers makes room.
type ratios struct {
	mu     sync.RWMutex
	most   int
	all    map[ratioKey]ratio
	shared map[ratioKey]shared // without a team
}

func newRatios(most int) *ratios {
	return &ratios{most: most, all: map[ratioKey]ratio{}, shared: map[ratioKey]shared{}}
}

// put sets a ratio, or removes the zero ratio. Its caller holds the lock.
func (r *ratios) put(k ratioKey, v ratio) {
	old := r.all[k]
	team := k.team
	k.team = ""
	s := r.shared[k]
	if old.answers > 0 {
		s.sum, s.teams = s.sum-old.pull(), s.teams-1
	}
	if v.answers > 0 {
		s.sum, s.teams = s.sum+v.pull(), s.teams+1
	}
	r.shared[k] = s
	if s.teams == 0 {
		delete(r.shared, k)
	}
	k.team = team
	r.all[k] = v
	if v.answers == 0 {
		delete(r.all, k)
	}
}

// clear forgets everything.
func (r *ratios) clear() {
	clear(r.all)
	clear(r.shared)
}

// get returns what the team has learned, of the class if that is known well
// enough, and what it may take over from the other teams; 0 if there are none.
func (r *ratios) get(k ratioKey) (own ratio, others float64) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	own = r.all[k]
	if own.answers < classKnown {
		k.class = ""
		own = r.all[k]
	}
	if own.answers >= teamKnown {
		return own, 0
	}
	k.team = ""
	s := r.shared[k]
	if own.answers > 0 {
		s.sum, s.teams = s.sum-own.pull(), s.teams-1
	}
	if s.teams <= 0 {
		return own, 0
	}
	return own, (1 + s.sum) / float64(1+s.teams)
}

// blend is value, which has so many answers behind it, with what other teams
// have learned in the place of those that lack.
func blend(value float64, answers int64, others float64) float64 {
	switch {
	case others == 0 && answers == 0:
		return 1
	case others == 0:
		return value
	}
	w := float64(min(answers, teamKnown)) / teamKnown
	return w*value + (1-w)*others
}

// expect is the factor from estimate to use that is likeliest; 1 if nothing is
// known.
func (r *ratios) expect(k ratioKey) float64 {
	own, others := r.get(k)
	return blend(own.mean, own.answers, others)
}

// reserve is expect with a margin for the spread.
func (r *ratios) reserve(k ratioKey) float64 {
	own, others := r.get(k)
	return blend(own.reserve(), own.answers, others)
}

// observe learns from an answer whose input was estimated (without anything
// learned) and used.
func (r *ratios) observe(k ratioKey, estimated, used tokens.Count) {
	if estimated < tinyPrompt || used <= 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.learn(k, float64(used)/float64(estimated), float64(estimated))
	if k.class != "" {
		k.class = ""
		r.learn(k, float64(used)/float64(estimated), float64(estimated))
	}
}

func (r *ratios) learn(k ratioKey, seen, estimated float64) {
	old, known := r.all[k]
	if !known && len(r.all) >= r.most {
		r.put(fewest(r.all, func(v ratio) int64 { return v.answers }), ratio{})
	}
	r.put(k, old.next(seen, estimated))
}

// next is the ratio after one more answer.
func (r ratio) next(seen, estimated float64) ratio {
	seen = min(max(seen, ratioLeast), ratioMost)
	w := min(1, estimated/fullPrompt)
	r.weight += w
	r.answers++
	rate := max(w/r.weight, ratioRate*w)
	switch {
	case r.answers <= 2: // there was no error yet to compare with
		r.spread = spreadFirst
	case seen > r.reserve():
		r.spread = min(spreadMost, r.spread+spreadUp-spreadDown)
	default:
		r.spread = max(spreadLeast, r.spread-spreadDown)
	}
	if r.answers > 1 {
		r.deviation += max(w/r.weight, spreadRate*w) * (math.Abs(seen-r.mean) - r.deviation)
	}
	r.mean += rate * (seen - r.mean)
	return r
}

// forgetFewest removes the entry with the fewest answers.
func forgetFewest[K comparable, V any](all map[K]V, answers func(V) int64) {
	delete(all, fewest(all, answers))
}

// fewest returns the key with the fewest answers.
func fewest[K comparable, V any](all map[K]V, answers func(V) int64) (least K) {
	few := int64(math.MaxInt64)
	for k, v := range all {
		if n := answers(v); n < few {
			least, few = k, n
		}
	}
	return least
}
