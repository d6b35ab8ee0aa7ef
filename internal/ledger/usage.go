package ledger

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Row is what was spent by one group. What it is not grouped by is empty.
// What was refused, invalid, or answered without a provider is no usage.
type Row struct {
	Team            string  `json:"team"`
	Model           string  `json:"model"` // as the client named it
	Requests        int64   `json:"requests"`
	InputTokens     int64   `json:"input_tokens"`
	CachedInput     int64   `json:"cached_input_tokens"`
	OutputTokens    int64   `json:"output_tokens"`
	ReasoningTokens int64   `json:"reasoning_tokens"`
	USD             Dollars `json:"usd"`
}

// Dollars is an amount of money in millionths of a dollar; in JSON it is an
// exact decimal of dollars.
type Dollars int64

// UnmarshalJSON implements json.Unmarshaler: it reads what MarshalJSON wrote.
func (d *Dollars) UnmarshalJSON(text []byte) error {
	whole, frac, _ := strings.Cut(string(text), ".")
	if len(frac) > 6 {
		return fmt.Errorf("%s is finer than a micro-dollar", text)
	}
	n, err := strconv.ParseInt(whole+frac+"000000"[len(frac):], 10, 64)
	*d = Dollars(n)
	return err
}

// MarshalJSON implements json.Marshaler.
func (d Dollars) MarshalJSON() ([]byte, error) {
	sign, n := "", uint64(d)
	if d < 0 {
		sign, n = "-", -n
	}
	whole, frac := n/1_000_000, n%1_000_000
	text := sign + strconv.FormatUint(whole, 10)
	if frac > 0 {
		digits := strconv.FormatUint(1_000_000+frac, 10)[1:]
		for digits[len(digits)-1] == '0' {
			digits = digits[:len(digits)-1]
		}
		text += "." + digits
	}
	return []byte(text), nil
}

// The groups of Usage.
const (
	ByTeam  = "team"
	ByModel = "model"
)

// Usage adds up what all gateways spent in [from, to), grouped by groupBy, in
// the order of their names. Minutes count as a whole. Beyond two days hours do,
// for the time in which they begin, so that spans that meet count none twice;
// nothing is known beyond 400 days. What this gateway has in memory is
// stored first; the others' last second may be missing. It returns an error
// for an unknown group, or when the store cannot be asked.
func (l *Ledger) Usage(ctx context.Context, from, to time.Time, groupBy []string) ([]Row, error) {
	for _, by := range groupBy {
		if by != ByTeam && by != ByModel {
			return nil, fmt.Errorf("usage cannot be grouped by %q, only by team and model", by)
		}
	}
	if err := l.Flush(ctx); err != nil {
		return nil, err
	}
	maps, err := l.config.Store.FieldsOf(ctx, span(from, to, l.config.Now()))
	if err != nil {
		return nil, fmt.Errorf("read usage: %w", err)
	}
	all := newSum()
	for _, fields := range maps {
		all.read(fields)
	}
	return all.rows(groupBy), nil
}

// Group adds up rows that are by team and model, as Usage groups them.
func Group(rows []Row, groupBy []string) []Row {
	all := newSum()
	for _, r := range rows {
		all.at(pair{r.Team, r.Model}).add(totals{
			requests: r.Requests, input: r.InputTokens, cached: r.CachedInput, output: r.OutputTokens, reasoning: r.ReasoningTokens, microUSD: int64(r.USD),
		})
	}
	return all.rows(groupBy)
}

func (s *sum) rows(groupBy []string) []Row {
	groups := newSum()
	for p, t := range s.spent {
		if !slices.Contains(groupBy, ByTeam) {
			p.team = ""
		}
		if !slices.Contains(groupBy, ByModel) {
			p.model = ""
		}
		groups.at(p).add(*t)
	}
	order := slices.SortedFunc(maps.Keys(groups.spent), comparePairs)
	rows := make([]Row, 0, len(order))
	for _, p := range order {
		t := groups.spent[p]
		rows = append(rows, Row{
			Team: p.team, Model: p.model, Requests: t.requests,
			InputTokens: t.input, CachedInput: t.cached,
			OutputTokens: t.output, ReasoningTokens: t.reasoning,
			USD: Dollars(t.microUSD),
		})
	}
	return rows
}

// span lists the maps that make up [from, to): minutes, or hours where they fit.
// Where minutes are gone, the hours that begin in it.
func span(from, to, now time.Time) []string {
	if !from.Before(to) {
		return nil
	}
	minute := div60(from.Unix())
	end := div60(to.Add(time.Minute - 1).Unix()) // exclusive
	end = min(end, div60(now.Unix())+60)         // beyond: nothing yet
	minute = max(minute, div60(now.Add(-hoursKept).Unix()))
	minutesFrom := 60 * (div60(div60(now.Add(-minutesKept).Unix())) + 1) // all minutes of this hour are there

	var names []string
	for minute < end {
		hour := div60(minute)
		begins := minute == hour*60
		switch {
		case begins && (minute+60 <= end || minute < minutesFrom):
			names = append(names, hourName(hour))
			minute += 60
		case minute < minutesFrom:
			minute = (hour + 1) * 60
		default:
			names = append(names, minuteName(minute))
			minute++
		}
	}
	return names
}

// div60 is n ÷ 60, rounded down: seconds to minutes, minutes to hours.
func div60(n int64) int64 {
	q := n / 60
	if n%60 < 0 {
		q--
	}
	return q
}
