package ratelimit

import (
	"cmp"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"llmgw/internal/budget"
)

// ask is one request: the lines of its descriptors.
type ask struct {
	descriptors int
	lines       []line
	before      []int // of lines: charged before
	after       []int // charged after
	back        []budget.Line
}

// line is one limit that a descriptor counts in.
type line struct {
	descriptor int
	line       budget.Line
	check      bool // nothing is taken: is 1 left?

	state  budget.LineState
	known  bool // the state is
	after  bool // it was used already
	shadow bool
}

// read maps a request's descriptors to limits.
func read(rules *Rules, r *rls.RateLimitRequest) *ask {
	a := &ask{descriptors: len(r.GetDescriptors())}
	for i, d := range r.GetDescriptors() {
		entries := map[string]string{}
		for _, e := range d.GetEntries() {
			entries[e.GetKey()] = e.GetValue()
		}
		names, charge, ok := rules.Match(r.GetDomain(), entries)
		if !ok {
			continue
		}
		amount := int64(cmp.Or(r.GetHitsAddend(), 1))
		if own := d.GetHitsAddend(); own != nil {
			amount = int64(min(own.GetValue(), uint64(budget.MaxExact)))
		}
		for _, name := range names {
			limit := rules.Limits[name]
			if limit == nil || limit.Unit == budget.Concurrency {
				continue // of no team that there is; nothing ends a slot
			}
			l := budget.Line{Limit: limit, Value: valueOf(limit, entries), Amount: amount}
			switch {
			case d.GetIsNegativeHits():
				a.back = append(a.back, l)
				continue
			case amount == 0:
				l.Amount = 1
				a.before = append(a.before, len(a.lines))
			case charge == After:
				a.after = append(a.after, len(a.lines))
			default:
				a.before = append(a.before, len(a.lines))
			}
			a.lines = append(a.lines, line{descriptor: i, line: l, check: amount == 0})
		}
	}
	return a
}

// valueOf picks the counter of a limit that has several.
func valueOf(l *budget.Limit, entries map[string]string) string {
	switch {
	case l.Scope == budget.User:
		return cmp.Or(entries["user"], "anonymous")
	case l.Scope == budget.IP:
		return entries["remote_address"]
	case l.Scope == budget.Model && !l.Single():
		return entries["model"]
	default:
		return ""
	}
}
