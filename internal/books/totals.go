package books

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// sums is what totals add up.
type sums struct {
	Requests, Refused, Input, CachedInput, CacheWrite, Output, Reasoning, Reserved, Charged, MicroUSD int64
}

// sumColumns are those of the tables of totals, in the order of sums.fields.
var sumColumns = []string{"requests", "refused", "input", "cached_input", "cache_write", "output", "reasoning", "reserved", "charged", "micro_usd"}

// fields are where the sums of a row are, in the order of sumColumns.
func (s *sums) fields() []*int64 {
	return []*int64{&s.Requests, &s.Refused, &s.Input, &s.CachedInput, &s.CacheWrite, &s.Output, &s.Reasoning, &s.Reserved, &s.Charged, &s.MicroUSD}
}

// add adds o to s, sign times.
func (s *sums) add(o sums, sign int64) {
	from := o.fields()
	for i, to := range s.fields() {
		*to += sign * *from[i]
	}
}

// key is what a row of totals is kept by. At is where its time begins, in unix
// milliseconds.
type key struct {
	At                                                int64
	Team, Key, Model, Provider, Outcome, Facet, Value string
}

// keyColumns are those of the tables of totals, in the order of key.
var keyColumns = []string{"at", "team", "key_id", "model", "provider", "outcome", "facet", "value"}

// compare orders keys. All gateways lock rows in this order.
func (k key) compare(o key) int {
	return cmp.Or(cmp.Compare(k.Facet, o.Facet), cmp.Compare(k.At, o.At), cmp.Compare(k.Team, o.Team), cmp.Compare(k.Key, o.Key),
		cmp.Compare(k.Model, o.Model), cmp.Compare(k.Provider, o.Provider), cmp.Compare(k.Outcome, o.Outcome), cmp.Compare(k.Value, o.Value))
}

// The facets by which the same requests are kept once more.
const (
	facetUser  = "user"
	facetLimit = "limit" // that refused
	facetTag   = "tag:"  // and the tag's name
)

// The lengths of time of totals, in milliseconds.
const (
	minute  = int64(60_000)
	quarter = 15 * minute
	oneDay  = 24 * 60 * minute
)

// tables are those of totals, from the finest.
var tables = []struct {
	name string
	span int64
}{{"totals_minutes", minute}, {"totals_quarters", quarter}, {"totals_days", oneDay}}

// floor is the multiple of span at or below at.
func floor(at, span int64) int64 {
	n := at / span
	if at%span < 0 {
		n--
	}
	return n * span
}

// totals are sums by minute.
type totals map[key]sums

// add adds r, as one request or, if it is part of one that has its record, as none.
func (t totals) add(r *Record, requests int64, names *names) {
	s := sums{
		Requests: requests, Input: r.Input, CachedInput: r.CachedInput, CacheWrite: r.CacheWrite, Output: r.Output,
		Reasoning: r.Reasoning, Reserved: r.Reserved, Charged: r.Charged, MicroUSD: int64(r.USD),
	}
	if r.Outcome == Refused {
		s.Refused = requests
	}
	k := key{At: floor(r.Time.UnixMilli(), minute), Team: r.Team, Key: r.KeyID, Model: r.Model, Provider: r.Provider, Outcome: r.Outcome}
	put := func(facet, value string) {
		k.Facet, k.Value = facet, value
		sum := t[k]
		sum.add(s, 1)
		t[k] = sum
	}
	put("", "")
	if r.User != "" {
		put(facetUser, names.known(facetUser, r.User))
	}
	if r.LimitedBy != "" {
		put(facetLimit, r.LimitedBy)
	}
	for name, value := range r.Tags {
		put(names.known("", facetTag+name), names.known(facetTag, value))
	}
}

// coarser is t by spans of a table.
func (t totals) coarser(span int64) totals {
	if span == minute {
		return t
	}
	out := make(totals, len(t))
	for k, s := range t {
		k.At = floor(k.At, span)
		sum := out[k]
		sum.add(s, 1)
		out[k] = sum
	}
	return out
}

// merge adds o to t.
func (t totals) merge(o totals) {
	for k, s := range o {
		sum := t[k]
		sum.add(s, 1)
		t[k] = sum
	}
}

func (t totals) sorted() []key { return slices.SortedFunc(maps.Keys(t), key.compare) }

// maxNames bounds the users, and the values of tags, that a gateway keeps totals of.
const maxNames = 10_000

// other stands for all names beyond the bound.
const other = "other"

// names are those that totals know, by their kind.
type names struct{ seen map[string]map[string]bool }

// known is name, or other where its kind has too many.
func (n *names) known(kind, name string) string {
	if n.seen == nil {
		n.seen = map[string]map[string]bool{}
	}
	seen := n.seen[kind]
	if seen == nil {
		seen = map[string]bool{}
		n.seen[kind] = seen
	}
	switch {
	case seen[name]:
	case len(seen) < maxNames:
		seen[strings.Clone(name)] = true
	case kind == "": // a tag's name
		return facetTag + other
	default:
		return other
	}
	return name
}
