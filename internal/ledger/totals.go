package ledger

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// totals is what was spent, added up.
type totals struct {
	requests, input, cached, output, reasoning, microUSD, reserved int64
}

func (t *totals) add(o totals) {
	t.requests += o.requests
	t.input += o.input
	t.cached += o.cached
	t.output += o.output
	t.reasoning += o.reasoning
	t.microUSD += o.microUSD
	t.reserved += o.reserved
}

// pair is what totals are kept by.
type pair struct{ team, model string }

// sum is what happened in one minute or hour.
type sum struct {
	spent    map[pair]*totals
	refusals map[string]int64 // by the limit that refused
}

func newSum() *sum { return &sum{make(map[pair]*totals), make(map[string]int64)} }

func (s *sum) at(p pair) *totals {
	t := s.spent[p]
	if t == nil {
		t = new(totals)
		s.spent[p] = t
	}
	return t
}

func (s *sum) merge(o *sum) {
	for p, t := range o.spent {
		s.at(p).add(*t)
	}
	for limit, n := range o.refusals {
		s.refusals[limit] += n
	}
}

// maxMinutes bounds the minutes that wait for a store that is away. Beyond it
// the oldest are kept by the hour only: totals stay right, detail is lost.
const maxMinutes = 180

// pending is what was not yet cut into batches. Its users hold Ledger.mu.
type pending struct {
	minutes map[int64]*sum // by unix time ÷ 60
	hours   map[int64]*sum // minutes that were folded, by unix time ÷ 3600
	pairs   *names[pair]
	limits  *names[string]
}

func newPending(maxSeries int) pending {
	return pending{
		minutes: make(map[int64]*sum), hours: make(map[int64]*sum),
		pairs: newNames(maxSeries, func(p pair) pair { return pair{p.team, other} }, func(p pair) pair {
			return pair{strings.Clone(p.team), strings.Clone(p.model)}
		}),
		limits: newNames(maxSeries, func(string) string { return other }, strings.Clone),
	}
}

// successor is the empty pending that follows p.
func (p pending) successor() pending {
	p.minutes, p.hours = make(map[int64]*sum), make(map[int64]*sum)
	return p
}

func (p *pending) add(e Entry) {
	minute := div60(e.Time.Unix())
	s := p.minutes[minute]
	if s == nil {
		s = newSum()
		p.minutes[minute] = s
		p.fold()
	}
	if e.LimitedBy != "" {
		s.refusals[p.limits.known(e.LimitedBy)]++
	}
	if !e.isUsage() {
		return
	}
	s.at(p.pairs.known(pair{e.Team, e.Model})).add(totals{
		requests:  1,
		input:     int64(e.Usage.Input),
		cached:    int64(e.Usage.CachedInput),
		output:    int64(e.Usage.Output),
		reasoning: int64(e.Usage.Reasoning),
		microUSD:  e.MicroUSD,
		reserved:  int64(e.Reserved),
	})
}

// fold brings the oldest minute above the bound into its hour.
func (p *pending) fold() {
	if len(p.minutes) <= maxMinutes {
		return
	}
	oldest := slices.Min(slices.Collect(maps.Keys(p.minutes)))
	p.hour(div60(oldest)).merge(p.minutes[oldest])
	delete(p.minutes, oldest)
}

func (p *pending) hour(h int64) *sum {
	s := p.hours[h]
	if s == nil {
		s = newSum()
		p.hours[h] = s
	}
	return s
}

// batch is one addition to one map of the store.
type batch struct {
	name   string
	number int64
	deltas map[string]int64
	ttl    time.Duration
}

// maxDeltas bounds one batch: the store does nothing else meanwhile.
const maxDeltas = 250

// batches turns p into additions to minutes and hours, numbered from after on.
func (p *pending) batches(after int64) []batch {
	var out []batch
	put := func(name string, s *sum, ttl time.Duration) {
		for _, deltas := range s.deltas() {
			after++
			out = append(out, batch{name, after, deltas, ttl})
		}
	}
	for _, m := range slices.Sorted(maps.Keys(p.minutes)) {
		put(minuteName(m), p.minutes[m], minutesKept)
		p.hour(div60(m)).merge(p.minutes[m])
	}
	for _, h := range slices.Sorted(maps.Keys(p.hours)) {
		put(hourName(h), p.hours[h], hoursKept)
	}
	return out
}

// other stands for all names beyond the bound.
const other = "other"

// names tells the first so many values apart; the others go to the rest.
type names[K comparable] struct {
	most  int
	rest  func(K) K
	clone func(K) K
	seen  map[K]K
}

func newNames[K comparable](most int, rest, clone func(K) K) *names[K] {
	return &names[K]{most, rest, clone, make(map[K]K)}
}

// known returns k, not aliasing it (it may be a slice of a whole body), or its
// rest.
func (n *names[K]) known(k K) K {
	if kept, ok := n.seen[k]; ok {
		return kept
	}
	if len(n.seen) >= n.most {
		return n.rest(k)
	}
	kept := n.clone(k)
	n.seen[kept] = kept
	return kept
}
