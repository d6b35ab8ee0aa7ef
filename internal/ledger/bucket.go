package ledger

import (
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Totals lie in one map a minute and one an hour, in UTC.
const (
	minutesKept = 48 * time.Hour
	hoursKept   = 400 * 24 * time.Hour
)

func minuteName(m int64) string { return "usage:m:" + strconv.FormatInt(m, 10) }
func hourName(h int64) string   { return "usage:h:" + strconv.FormatInt(h, 10) }

// A field of a map is "u/team/model/what" for what was spent, or "r/limit" for
// refusals, the names escaped.
const (
	spentField   = "u"
	refusalField = "r"
)

// kinds are the parts of totals as fields call them.
var kinds = []struct {
	name string
	of   func(*totals) *int64
}{
	{"requests", func(t *totals) *int64 { return &t.requests }},
	{"input", func(t *totals) *int64 { return &t.input }},
	{"cached", func(t *totals) *int64 { return &t.cached }},
	{"output", func(t *totals) *int64 { return &t.output }},
	{"reasoning", func(t *totals) *int64 { return &t.reasoning }},
	{"micro_usd", func(t *totals) *int64 { return &t.microUSD }},
	{"reserved", func(t *totals) *int64 { return &t.reserved }},
}

// deltas is s as fields, in maps of bounded size.
func (s *sum) deltas() []map[string]int64 {
	var out []map[string]int64
	put := func(field string, n int64) {
		if n == 0 {
			return
		}
		if len(out) == 0 || len(out[len(out)-1]) >= maxDeltas {
			out = append(out, make(map[string]int64))
		}
		out[len(out)-1][field] = n
	}
	for p, t := range s.spent {
		prefix := spentField + "/" + url.PathEscape(p.team) + "/" + url.PathEscape(p.model) + "/"
		for _, kind := range kinds {
			put(prefix+kind.name, *kind.of(t))
		}
	}
	for limit, n := range s.refusals {
		put(refusalField+"/"+url.PathEscape(limit), n)
	}
	return out
}

// read adds the fields of a map to s. A field that it does not know, of a later
// version or by another hand, is ignored.
func (s *sum) read(fields map[string]string) {
	for field, text := range fields {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			continue
		}
		parts := strings.Split(field, "/")
		for i := range parts {
			if parts[i], err = url.PathUnescape(parts[i]); err != nil {
				break
			}
		}
		switch {
		case err != nil:
		case len(parts) == 4 && parts[0] == spentField:
			for _, kind := range kinds {
				if kind.name == parts[3] {
					*kind.of(s.at(pair{parts[1], parts[2]})) += n
				}
			}
		case len(parts) == 2 && parts[0] == refusalField:
			s.refusals[parts[1]] += n
		}
	}
}
