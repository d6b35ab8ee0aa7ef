package books

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// seriesMinutes is how far back Series goes.
const seriesMinutes = 60

// Series is the last hour, minute by minute. The last minute is the current one.
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
	Requests []int64 `json:"requests"` // that were not refused
}

// LimitSeries is how often one limit refused in each minute.
type LimitSeries struct {
	Limit string  `json:"limit"` // such as team/search/tpm
	Count []int64 `json:"count"`
}

// Series returns the last hour.
func (b *Books) Series(ctx context.Context) (Series, error) {
	now := b.config.Now()
	first := floor(now.UnixMilli(), minute) - (seriesMinutes-1)*minute
	out := Series{Start: time.UnixMilli(first).UTC(), Teams: []TeamSeries{}, Refusals: []LimitSeries{}}
	q := Query{From: out.Start, To: now.Add(time.Minute), Per: "minute", GroupBy: []string{"team"}}
	spent, err := b.Usage(ctx, q)
	if err != nil {
		return Series{}, fmt.Errorf("read the last hour: %w", err)
	}
	q.GroupBy = []string{facetLimit}
	refused, err := b.Usage(ctx, q)
	if err != nil {
		return Series{}, fmt.Errorf("read the last hour: %w", err)
	}
	zeros := func() []int64 { return make([]int64, seriesMinutes) }
	teams, limits := map[string]TeamSeries{}, map[string]LimitSeries{}
	for _, r := range spent {
		team, at := r.Groups[0], min((r.Time.UnixMilli()-first)/minute, seriesMinutes-1)
		if _, known := teams[team]; !known {
			teams[team] = TeamSeries{team, zeros(), zeros(), zeros()}
		}
		s := teams[team]
		s.Tokens[at] += r.Input + r.Output
		s.Reserved[at] += r.Reserved
		s.Requests[at] += r.Requests - r.Refused
	}
	for _, r := range refused {
		limit, at := r.Groups[0], min((r.Time.UnixMilli()-first)/minute, seriesMinutes-1)
		if limit == "" {
			continue // of requests that no limit refused
		}
		if _, known := limits[limit]; !known {
			limits[limit] = LimitSeries{limit, zeros()}
		}
		limits[limit].Count[at] += r.Requests
	}
	for _, name := range slices.Sorted(maps.Keys(teams)) {
		out.Teams = append(out.Teams, teams[name])
	}
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		out.Refusals = append(out.Refusals, limits[name])
	}
	return out, nil
}
