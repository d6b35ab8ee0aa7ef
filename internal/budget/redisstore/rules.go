package redisstore

import (
	"sync/atomic"

	"llmgw/internal/budget"
)

// rules are a limit as the scripts read it.
type rules struct {
	limit     *budget.Limit
	rules     budget.Rules
	base      string // of the keys
	prefix    string // of its counters' whole keys
	candidate *rules
	packed    atomic.Pointer[packed]
}

// packed are RULES in a script's bytes, right from one moment until another.
type packed struct {
	bytes       []byte
	from, until int64
}

// rulesOf returns l's rules. They are kept by the counters' name, so that the
// newer rules of a reload take the place of the older ones.
func (s *Store) rulesOf(l *budget.Limit) *rules {
	key := budget.CounterOf(l, "")
	if known, ok := s.rules.Load(key); ok && known.(*rules).limit == l {
		return known.(*rules)
	}
	r := s.newRules(l)
	if c := budget.CandidateOf(l); c != nil {
		r.candidate = s.newRules(c)
	}
	s.rules.Store(key, r)
	return r
}

func (s *Store) newRules(l *budget.Limit) *rules {
	base := s.base(tagOf(l))
	return &rules{limit: l, rules: budget.RulesOf(l), base: base, prefix: base + ":c:" + budget.KeyPrefix(l)}
}

func tagOf(l *budget.Limit) string {
	if l.Tag != "" {
		return l.Tag
	}
	return l.Place
}

// key is the counter's whole key.
func (r *rules) key(value string) string { return r.prefix + budget.KeyValue(value) }

// bytes are the rules as RULES, with the calendar period that now is in.
func (r *rules) bytes(now int64) []byte {
	if p := r.packed.Load(); p != nil && now >= p.from && now < p.until {
		return p.bytes
	}
	p := &packed{from: 0, until: 1 << 62}
	x, y, z := r.rules.Num, r.rules.Den, r.rules.Bank
	if r.rules.Window > 0 {
		x = r.rules.Window
	}
	if b := budget.BoundsOf(r.limit, now); b != (budget.Bounds{}) {
		x, y, z = b.Start, b.End, b.Next
		p.from, p.until = b.Start, b.End
	}
	empty := byte(0)
	if r.rules.Empty {
		empty = 1
	}
	p.bytes = append(p.bytes, r.rules.Kind(), empty)
	for _, n := range []int64{r.rules.Version, r.rules.Capacity, r.rules.Debt, x, y, z} {
		p.bytes = appendInt(p.bytes, n)
	}
	r.packed.Store(p)
	return p.bytes
}
