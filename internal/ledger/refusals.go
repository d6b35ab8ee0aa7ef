package ledger

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
)

// refusedLines is how many lines about refused requests one key has for each
// flush interval, and all callers without a key together. Anybody can cause a
// refusal as often as it likes; more than these are counted in one line.
const refusedLines = 100

// refusal is what refused requests that are logged together have in common.
type refusal struct {
	team, keyID, code string
	status            int
}

// refusals are the refused requests of this interval.
type refusals struct {
	lines   map[string]int  // by key id: lines that were logged
	leftOut map[refusal]int // requests without a line of their own
}

func newRefusals() refusals {
	return refusals{lines: map[string]int{}, leftOut: map[refusal]int{}}
}

// logs reports whether e gets a line of its own, and counts it if not. Keys and
// codes are the configuration's and the gateway's, so that the maps are bounded.
func (r *refusals) logs(e *Entry) bool {
	if e.Outcome != refused && e.Outcome != invalid {
		return true
	}
	if r.lines[e.KeyID] < refusedLines {
		r.lines[e.KeyID]++
		return true
	}
	r.leftOut[refusal{e.Team, e.KeyID, e.Code, e.Status}]++
	return false
}

// log writes a line for each kind of refused requests that have none.
func (r *refusals) log(logger *slog.Logger) {
	all := make([]refusal, 0, len(r.leftOut))
	for what := range r.leftOut {
		all = append(all, what)
	}
	slices.SortFunc(all, func(a, b refusal) int {
		return cmp.Or(cmp.Compare(a.keyID, b.keyID), cmp.Compare(a.code, b.code), cmp.Compare(a.status, b.status))
	})
	for _, what := range all {
		attrs := []slog.Attr{slog.Int("requests", r.leftOut[what]), slog.Int("status", what.status), slog.String("code", what.code)}
		if what.keyID != "" {
			attrs = append(attrs, slog.String("team", what.team), slog.String("key_id", what.keyID))
		}
		logger.LogAttrs(context.Background(), slog.LevelInfo, "refused requests without a line of their own", attrs...)
	}
}
