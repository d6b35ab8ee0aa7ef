package ledger

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// seriesMinutes is how far back Series goes.
const seriesMinutes = 60

// settleMinutes is how long a past minute may still grow: other gateways flush
// late.
const settleMinutes = 3

// Series is the last hour, minute by minute, over all gateways. The last
// minute is the current one.
type Series struct {
	Start    time.Time     `json:"start"` // of the first minute
	Teams    []TeamSeries  `json:"teams"`
	Refusals []LimitSeries `json:"refusals"`
}

// TeamSeries is what one team spent in each minute.
type TeamSeries struct {
	Team     string  `json:"team"`
	Tokens   []int64 `json:"tokens"`   // input and output
	Reserved []int64 `json:"reserved"` // for the same requests, in budget tokens
	Requests []int64 `json:"requests"`
}

// LimitSeries is how often one limit refused in each minute.
type LimitSeries struct {
	Limit string  `json:"limit"` // such as team/search/tpm
	Count []int64 `json:"count"`
}

// recent remembers the minutes that do not change any more.
type recent struct {
	mu      sync.Mutex
	minutes map[int64]*sum
}

// Series returns the last hour. It reads few maps when it is asked often.
func (l *Ledger) Series(ctx context.Context) (Series, error) {
	now := div60(l.config.Now().Unix())
	first := now - seriesMinutes + 1
	minutes, err := l.recentMinutes(ctx, first, now)
	if err != nil {
		return Series{}, err
	}
	return chart(minutes, first), nil
}

func (l *Ledger) recentMinutes(ctx context.Context, first, now int64) (map[int64]*sum, error) {
	if err := l.Flush(ctx); err != nil {
		return nil, err
	}
	l.closed.mu.Lock()
	defer l.closed.mu.Unlock()
	var want []int64
	var names []string
	for m := first; m <= now; m++ {
		if l.closed.minutes[m] == nil {
			want = append(want, m)
			names = append(names, minuteName(m))
		}
	}
	read, err := l.config.Store.FieldsOf(ctx, names)
	if err != nil {
		return nil, fmt.Errorf("read the last hour: %w", err)
	}
	all := maps.Clone(l.closed.minutes)
	if all == nil {
		all = make(map[int64]*sum, seriesMinutes)
	}
	for i, m := range want {
		s := newSum()
		s.read(read[i])
		all[m] = s
	}
	maps.DeleteFunc(all, func(m int64, _ *sum) bool { return m < first || m > now })
	l.closed.minutes = maps.Clone(all)
	maps.DeleteFunc(l.closed.minutes, func(m int64, _ *sum) bool { return m > now-settleMinutes })
	return all, nil
}

func chart(minutes map[int64]*sum, first int64) Series {
	teams := make(map[string]*TeamSeries)
	limits := make(map[string]*LimitSeries)
	zeros := func() []int64 { return make([]int64, seriesMinutes) }
	for m, s := range minutes {
		at := m - first
		for p, t := range s.spent {
			team := teams[p.team]
			if team == nil {
				team = &TeamSeries{p.team, zeros(), zeros(), zeros()}
				teams[p.team] = team
			}
			team.Tokens[at] += t.input + t.output
			team.Reserved[at] += t.reserved
			team.Requests[at] += t.requests
		}
		for name, n := range s.refusals {
			limit := limits[name]
			if limit == nil {
				limit = &LimitSeries{name, zeros()}
				limits[name] = limit
			}
			limit.Count[at] += n
		}
	}
	out := Series{Start: time.Unix(first*60, 0).UTC(), Teams: []TeamSeries{}, Refusals: []LimitSeries{}}
	for _, name := range slices.Sorted(maps.Keys(teams)) {
		out.Teams = append(out.Teams, *teams[name])
	}
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		out.Refusals = append(out.Refusals, *limits[name])
	}
	return out
}

func comparePairs(a, b pair) int {
	return cmp.Or(cmp.Compare(a.team, b.team), cmp.Compare(a.model, b.model))
}
