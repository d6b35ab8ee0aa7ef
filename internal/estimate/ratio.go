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

// ratioKey is a model at a provider, and the kind of text that dominates: a
// tokenizer is seldom off by the same in all scripts. The empty class has all
// texts, and speaks for a class of which too little is known.
type ratioKey struct{ provider, model, class string }

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

// ratios learns one ratio for each model. It is safe for concurrent use, and
// bounded: the one with the fewest answers makes room.
type ratios struct {
	mu   sync.RWMutex
	most int
	all  map[ratioKey]ratio
}

func newRatios(most int) *ratios { return &ratios{most: most, all: map[ratioKey]ratio{}} }

func (r *ratios) get(k ratioKey) ratio {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if got := r.all[k]; got.answers >= classKnown {
		return got
	}
	k.class = ""
	return r.all[k]
}

// expect is the factor from estimate to use that is likeliest; 1 if nothing is
// known.
func (r *ratios) expect(k ratioKey) float64 {
	if got := r.get(k); got.answers > 0 {
		return got.mean
	}
	return 1
}

// reserve is expect with a margin for the spread.
func (r *ratios) reserve(k ratioKey) float64 {
	got := r.get(k)
	if got.answers == 0 {
		return 1
	}
	return got.reserve()
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
		forgetFewest(r.all, func(v ratio) int64 { return v.answers })
	}
	r.all[k] = old.next(seen, estimated)
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
	var least K
	fewest := int64(math.MaxInt64)
	for k, v := range all {
		if n := answers(v); n < fewest {
			least, fewest = k, n
		}
	}
	delete(all, least)
}
