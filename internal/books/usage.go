package books

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Query asks for usage: what was spent in [From, To).
type Query struct {
	From, To time.Time
	Per      string         // minute, hour, day or month; empty: the whole time at once
	Zone     *time.Location // whose hours, days and months; nil: UTC
	GroupBy  []string       // team, key, model, provider, user, tag:NAME, outcome
	// Where has for a name as in GroupBy the values that count. A name that is not
	// there counts all.
	Where map[string][]string
}

// BadQuery is an error of who asks.
type BadQuery string

func (e BadQuery) Error() string { return string(e) }

// Row is what one group spent in one period. What it is not grouped by is empty.
type Row struct {
	Time   time.Time // the local start of the period; zero: the whole time
	Groups []string  // in the order of GroupBy
	Sums
}

// Sums is what a row adds up.
type Sums struct {
	Requests, Refused, Input, CachedInput, CacheWrite, Output, Reasoning, Reserved, Charged int64
	USD                                                                                     Dollars
}

// mostPeriods bounds the periods of one query.
const mostPeriods = 10_000

// groupColumns are the columns of what can be grouped by, except facets.
var groupColumns = map[string]string{"team": "team", "key": "key_id", "model": "model", "provider": "provider", "outcome": "outcome"}

// facetOf is the facet that a name of GroupBy or Where needs; empty: none.
func facetOf(name string) (facet string, err error) {
	switch tag, isTag := strings.CutPrefix(name, facetTag); {
	case groupColumns[name] != "":
		return "", nil
	case name == facetUser || name == facetLimit || isTag && tag != "":
		return name, nil
	}
	return "", BadQuery(fmt.Sprintf("usage cannot be grouped by %.60q: it takes team, key, model, provider, user, tag:NAME and outcome", name))
}

// facet is the one facet that q needs; empty: none.
func (q *Query) facet() (string, error) {
	names := slices.Clone(q.GroupBy)
	for name := range q.Where {
		names = append(names, name)
	}
	one := ""
	for _, name := range names {
		facet, err := facetOf(name)
		if err != nil {
			return "", err
		}
		if facet != "" && one != "" && facet != one {
			return "", BadQuery(fmt.Sprintf("usage is kept by user or by one tag, not by %s and %s together", one, facet))
		}
		one = max(one, facet)
	}
	return one, nil
}

// period is one period of a query.
type period struct{ start, from, to time.Time }

// periods divides [from, to) as q says.
func (q *Query) periods() ([]period, error) {
	if !q.From.Before(q.To) {
		if q.To.Before(q.From) {
			return nil, BadQuery("to is before from")
		}
		return nil, nil
	}
	if q.Per == "" {
		return []period{{from: q.From, to: q.To}}, nil
	}
	var all []period
	start, next := localPeriod(q.From, q.Per, q.Zone)
	if next.IsZero() {
		return nil, BadQuery(fmt.Sprintf("per is %.40q: it takes minute, hour, day and month", q.Per))
	}
	for start.Before(q.To) {
		if len(all) == mostPeriods {
			return nil, BadQuery(fmt.Sprintf("the time has more than %d periods: ask for longer ones, or for a shorter time", mostPeriods))
		}
		p := period{start: start, from: start, to: next}
		if p.from.Before(q.From) {
			p.from = q.From
		}
		if p.to.After(q.To) {
			p.to = q.To
		}
		all = append(all, p)
		start, next = localPeriod(next, q.Per, q.Zone)
	}
	return all, nil
}

// localPeriod is the period of a zone that t is in. Zero times: there is none such.
func localPeriod(t time.Time, per string, zone *time.Location) (start, next time.Time) {
	if zone == nil {
		zone = time.UTC
	}
	t = t.In(zone)
	year, month, day := t.Date()
	switch per {
	case "minute":
		start = t.Truncate(time.Minute)
		return start, start.Add(time.Minute)
	case "hour": // those of a zone may begin at a half
		start = t.Add(-time.Duration(t.Minute())*time.Minute - time.Duration(t.Second())*time.Second - time.Duration(t.Nanosecond()))
		return start, start.Add(time.Hour)
	case "day":
		return time.Date(year, month, day, 0, 0, 0, 0, zone), time.Date(year, month, day+1, 0, 0, 0, 0, zone)
	case "month":
		return time.Date(year, month, 1, 0, 0, 0, 0, zone), time.Date(year, month+1, 1, 0, 0, 0, 0, zone)
	}
	return time.Time{}, time.Time{}
}

// span is a time of one table whose rows belong to a period.
type span struct {
	period   int
	from, to int64
}

// spans divides periods among the tables: days where whole UTC days lie in a
// period, quarters and minutes around them. Where finer rows are kept no more, the
// coarser ones count for the period in which they begin.
func (b *Books) spans(periods []period) [][]span {
	out := make([][]span, len(tables))
	kept := []int64{b.keptSince(b.config.Keep.Minutes), b.keptSince(b.config.Keep.Hours)}
	put := func(table, p int, from, to int64) {
		if from < to {
			out[table] = append(out[table], span{p, from, to})
		}
	}
	var divide func(table, p int, from, to int64)
	divide = func(table, p int, from, to int64) {
		if table == 0 || from >= to {
			put(table, p, from, to)
			return
		}
		size := tables[table].span
		if gone := min(to, kept[table-1]); from < gone {
			put(table, p, ceil(from, size), ceil(gone, size))
			divide(table, p, gone, to)
			return
		}
		start, end := ceil(from, size), floor(to, size)
		if start >= end {
			divide(table-1, p, from, to)
			return
		}
		put(table, p, start, end)
		divide(table-1, p, from, start)
		divide(table-1, p, end, to)
	}
	for i, p := range periods {
		divide(len(tables)-1, i, ceil(p.from.UnixMilli(), minute), ceil(p.to.UnixMilli(), minute))
	}
	return out
}

// keptSince is the time from which on what is kept for that long is there whole.
func (b *Books) keptSince(keep time.Duration) int64 {
	if keep == 0 {
		return 0
	}
	return ceil(b.config.Now().Add(-keep).UnixMilli(), oneDay)
}

func ceil(at, size int64) int64 { return -floor(-at, size) }

// Usage adds up what was spent, in the order of time and groups. Minutes count as
// a whole, for the time in which they begin. It returns a BadQuery if q cannot be
// answered, and another error if the database cannot.
func (b *Books) Usage(ctx context.Context, q Query) ([]Row, error) {
	facet, err := q.facet()
	if err != nil {
		return nil, err
	}
	periods, err := q.periods()
	if err != nil || len(periods) == 0 {
		return nil, err
	}
	if err := b.Flush(ctx); err != nil {
		return nil, err
	}
	spans := b.spans(periods)
	found := map[string]*Row{}
	if err := b.addUp(ctx, &q, facet, periods, spans, found); err != nil {
		return nil, err
	}
	_, filtered := q.Where[facet]
	if facet != "" && !filtered { // what has no such name
		rest := map[string]*Row{}
		if err := b.addUp(ctx, &q, "", periods, spans, rest); err != nil {
			return nil, err
		}
		for _, r := range found {
			groups := slices.Clone(r.Groups)
			groups[slices.Index(q.GroupBy, facet)] = ""
			if of := rest[rowKey(r.Time, groups)]; of != nil {
				of.add(r.Sums, -1)
			}
		}
		for k, r := range rest {
			if r.Sums != (Sums{}) && r.Requests > 0 {
				found[k] = r
			}
		}
	}
	rows := make([]Row, 0, len(found))
	for _, r := range found {
		rows = append(rows, *r)
	}
	slices.SortFunc(rows, func(a, b Row) int {
		if c := a.Time.Compare(b.Time); c != 0 {
			return c
		}
		return slices.Compare(a.Groups, b.Groups)
	})
	return rows, nil
}

func (s *Sums) add(o Sums, sign int64) {
	a, b := s.sums(), o.sums()
	a.add(b, sign)
	*s = sumsOf(a)
}

func (s *Sums) sums() sums {
	return sums{s.Requests, s.Refused, s.Input, s.CachedInput, s.CacheWrite, s.Output, s.Reasoning, s.Reserved, s.Charged, int64(s.USD)}
}

func sumsOf(s sums) Sums {
	return Sums{s.Requests, s.Refused, s.Input, s.CachedInput, s.CacheWrite, s.Output, s.Reasoning, s.Reserved, s.Charged, Dollars(s.MicroUSD)}
}

func rowKey(t time.Time, groups []string) string {
	return strconv.FormatInt(t.UnixMilli(), 10) + "\x00" + strings.Join(groups, "\x00")
}

// addUp adds the rows of a facet in all tables to found.
func (b *Books) addUp(ctx context.Context, q *Query, facet string, periods []period, spans [][]span, found map[string]*Row) error {
	for i, table := range tables {
		if len(spans[i]) == 0 {
			continue
		}
		statement, args := usageSQL(q, table.name, facet, spans[i])
		rows, err := b.db.QueryContext(ctx, statement, args...)
		if err != nil {
			return fmt.Errorf("read usage: %w", err)
		}
		if err := collect(rows, q, periods, found); err != nil {
			return fmt.Errorf("read usage: %w", err)
		}
	}
	return nil
}

// usageSQL is the statement that adds up a table over spans.
func usageSQL(q *Query, table, facet string, spans []span) (string, []any) {
	var s strings.Builder
	s.WriteString("WITH p(n, s, e) AS (VALUES ")
	for i, sp := range spans {
		if i > 0 {
			s.WriteByte(',')
		}
		fmt.Fprintf(&s, "(%d,CAST(%d AS BIGINT),CAST(%d AS BIGINT))", sp.period, sp.from, sp.to)
	}
	s.WriteString(") SELECT p.n")
	for _, name := range q.GroupBy {
		s.WriteString(", " + groupExpression(name, facet))
	}
	for _, c := range sumColumns {
		s.WriteString(", CAST(sum(t." + c + ") AS BIGINT)")
	}
	s.WriteString(" FROM p JOIN " + table + " t ON t.facet = $1 AND t.at >= p.s AND t.at < p.e")
	args := []any{facet}
	for _, name := range sortedNames(q.Where) {
		marks := make([]string, len(q.Where[name]))
		for i, v := range q.Where[name] {
			args = append(args, v)
			marks[i] = "$" + strconv.Itoa(len(args))
		}
		if len(marks) == 0 {
			marks = []string{"NULL"} // nothing counts
		}
		s.WriteString(" AND " + groupExpression(name, facet) + " IN (" + strings.Join(marks, ", ") + ")")
	}
	s.WriteString(" GROUP BY 1")
	for i := range q.GroupBy {
		s.WriteString(", " + strconv.Itoa(i+2))
	}
	return s.String(), args
}

// groupExpression is where a name of GroupBy stands.
func groupExpression(name, facet string) string {
	if c := groupColumns[name]; c != "" {
		return "t." + c
	}
	if facet == "" {
		return "''"
	}
	return "t.value"
}

func sortedNames(m map[string][]string) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// collect reads rows to their end.
func collect(rows *sql.Rows, q *Query, periods []period, found map[string]*Row) error {
	defer func() { _ = rows.Close() }() // Err says all
	for rows.Next() {
		var n int
		var s sums
		groups := make([]string, len(q.GroupBy))
		into := []any{&n}
		for i := range groups {
			into = append(into, &groups[i])
		}
		for _, f := range s.fields() {
			into = append(into, f)
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		k := rowKey(periods[n].start, groups)
		if found[k] == nil {
			found[k] = &Row{Time: periods[n].start, Groups: groups}
		}
		found[k].add(sumsOf(s), 1)
	}
	return rows.Err()
}
