package estimate

import (
	"sync"

	"llmgw/internal/dialect"
	"llmgw/internal/tokens"
)

// How the unseen is learned.
const (
	unseenRate = 0.1 // the weight of a new answer once there were many
	// unseenEnough is how many answers a team needs to be judged by its own;
	// below that, it is judged by those of all teams.
	unseenEnough = 3
	// hiddenLeast is the part of an output that must lack in what was counted
	// before it counts as hidden: a tokenizer may be off by that.
	hiddenLeast = 0.25
)

// Unseen is what calls of a kind use that neither the request nor the visible
// answer shows: the mean of answers whose usage was reported. The zero Unseen
// knows nothing.
type Unseen struct {
	// Input is the whole input of a call that refers to what its body does not
	// show: a stored conversation, files, what a search finds. 0: of other calls.
	Input tokens.Count
	// Hidden is the output that is not shown, such as reasoning.
	Hidden tokens.Count
	// Output is the whole output, for all choices.
	Output tokens.Count
}

// Unseen returns what calls with an estimate like est use unseen, as far as
// answers under these rules have shown. Those of the team speak first, then
// those of all teams.
func (e *Estimator) Unseen(c *dialect.Call, rules Rules, est Estimate) Unseen {
	m := e.unseen.get(unseenKey{rules.Team, rules.Provider, resolve(c, rules).name, est.hidden})
	u := Unseen{Hidden: tokens.Count(m.hidden), Output: tokens.Count(m.output)}
	if m.input > 0 {
		u.Input = tokens.Add(est.base, tokens.Count(m.input))
	}
	return u
}

// unseenKey is a model at a provider, used by a team (empty: by all), with or
// without input that the body does not show.
type unseenKey struct {
	team, provider, model string
	refers                bool
}

// unseenMeans are the means of what was seen of a key.
type unseenMeans struct {
	input, hidden, output float64
	answers               int64
}

// next is the means after one more answer.
func (m unseenMeans) next(input, hidden, output tokens.Count) unseenMeans {
	m.answers++
	rate := max(1/float64(m.answers), unseenRate)
	m.input += rate * (float64(input) - m.input)
	m.hidden += rate * (float64(hidden) - m.hidden)
	m.output += rate * (float64(output) - m.output)
	return m
}

// unseens learns. It is safe for concurrent use, and bounded as ratios is.
type unseens struct {
	mu   sync.RWMutex
	most int
	all  map[unseenKey]unseenMeans
}

func newUnseens(most int) *unseens { return &unseens{most: most, all: map[unseenKey]unseenMeans{}} }

func (u *unseens) get(k unseenKey) unseenMeans {
	u.mu.RLock()
	defer u.mu.RUnlock()
	m := u.all[k]
	if m.answers < unseenEnough {
		k.team = ""
		m = u.all[k]
	}
	return m
}

// observe learns from an answer with a whole report.
func (u *unseens) observe(k unseenKey, est Estimate, used tokens.Usage, counted tokens.Count) {
	var input tokens.Count
	if k.refers {
		input = max(0, used.Input-est.base)
	}
	hidden := max(0, used.Output-counted)
	if float64(hidden) < hiddenLeast*float64(used.Output) {
		hidden = 0
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, k := range [...]unseenKey{k, {"", k.provider, k.model, k.refers}} {
		old, known := u.all[k]
		if !known && len(u.all) >= u.most {
			forgetFewest(u.all, func(m unseenMeans) int64 { return m.answers })
		}
		u.all[k] = old.next(input, hidden, used.Output)
	}
}

// merge takes from another instance what it has seen more often.
func (u *unseens) merge(others []unseenState) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, o := range others {
		k := unseenKey{o.Team, o.Provider, o.Model, o.Refers}
		old, known := u.all[k]
		if o.Answers > old.answers && (known || len(u.all) < u.most) {
			u.all[k] = unseenMeans{o.Input, o.Hidden, o.Output, o.Answers}
		}
	}
}
