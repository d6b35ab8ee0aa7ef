package config

import (
	"fmt"
	"slices"
	"time"

	"llmgw/internal/budget"
)

// writtenLimit is a limit as the file has it: what is read only once the unit
// is known, and what is not said at all.
type writtenLimit struct {
	amount, burst, maxDebt, candidate *node
	start, onExceed                   string
}

// limit reads one limit and fills in all that it does not say.
func (d *decoder) limit(n *node, p place) *budget.Limit {
	l := &budget.Limit{
		Place: p.String(), Scope: p.scope, Owner: p.owner, Tag: p.tag, Version: d.version,
	}
	w := writtenLimit{start: "full", onExceed: "reject"}
	before := len(d.problems)
	d.object(n, fields{
		"name":  set(d, &l.Name, name),
		"scope": set(d, &l.Scope, oneOf(p.scopes()...)),
		"unit": set(d, &l.Unit, oneOf(budget.Tokens, budget.InputTokens, budget.OutputTokens,
			budget.Requests, budget.USD, budget.Concurrency)),
		"amount":          keep(&w.amount),
		"per":             set(d, &l.Period, period),
		"timezone":        set(d, &l.Location, zone),
		"reset_day":       set(d, &l.ResetDay, small(1, 31)),
		"burst":           keep(&w.burst),
		"bank":            set(d, &l.Bank, whole(1, 1000)),
		"max_debt":        keep(&w.maxDebt),
		"start":           set(d, &w.start, oneOf("full", "empty")),
		"algorithm":       set(d, &l.Algorithm, oneOf(budget.TokenBucket, budget.CalendarUsage, budget.SlidingWindow, budget.SlidingLog)),
		"mode":            set(d, &l.Mode, oneOf(budget.Enforce, budget.Shadow)),
		"candidate":       func(n *node) { d.object(n, fields{"amount": keep(&w.candidate)}); d.need(n, "a candidate", "amount") },
		"when_store_down": set(d, &l.WhenStoreDown, oneOf(budget.Open, budget.Closed, budget.Local)),
		"on_exceed":       set(d, &w.onExceed, oneOf("reject", "wait")),
		"max_wait":        set(d, &l.MaxWait, duration(time.Millisecond, time.Hour)),
	})
	d.need(n, "a limit", "name", "unit", "amount")
	l.StartEmpty = w.start == "empty"
	l.Wait = w.onExceed == "wait"
	if l.Unit == "" {
		return l
	}
	d.amounts(l, w)
	if len(d.problems) == before {
		d.complete(l, n)
	}
	if len(d.problems) == before {
		d.countable(l, n)
	}
	if len(d.problems) == before {
		d.limits = append(d.limits, placedLimit{l, n, p.meets})
	}
	return l
}

// period reads a period: a name, or a length such as 10m or 5h.
func period(s string) (budget.Period, error) {
	p, err := oneOf(budget.Second, budget.Minute, budget.Hour, budget.Day, budget.Week, budget.Month, budget.Quarter, budget.Year)(s)
	if err != nil && budget.Period(s).Length() > 0 {
		return budget.Period(s), nil
	}
	if err != nil {
		return "", fmt.Errorf("%w, or a length such as 10m or 5h", err)
	}
	return p, nil
}

// amounts reads the amounts of a limit whose unit is known.
func (d *decoder) amounts(l *budget.Limit, w writtenLimit) {
	read := amount
	if l.Unit == budget.USD {
		read = dollars
	}
	for _, a := range []struct {
		n     *node
		dst   *int64
		least int64
	}{
		{w.amount, &l.Amount, 1},
		{w.burst, &l.Burst, 1},
		{w.maxDebt, &l.MaxDebt, 0},
		{w.candidate, &l.Candidate, 1},
	} {
		if a.n != nil {
			set(d, a.dst, read(a.least))(a.n)
		}
	}
}

// complete refuses the keys that the limit's algorithm has no use for, and fills
// in the defaults.
func (d *decoder) complete(l *budget.Limit, n *node) {
	if l.Unit != budget.Concurrency && l.Period == "" {
		d.need(n, "a limit", "per")
		return
	}
	if debt := n.value("max_debt"); debt != nil && l.MaxDebt == 0 {
		l.MaxDebt = budget.NoDebt
	}
	*l = l.WithDefaults()
	d.completeWait(l, n)
	if l.Unit == budget.Concurrency {
		d.refuseKeys(n, "unit: concurrency", "per", "timezone", "reset_day", "burst", "bank", "max_debt", "start", "algorithm")
		return
	}
	if l.Period.Calendar() && l.Algorithm == budget.TokenBucket {
		d.fail(n.at("algorithm"), "a token_bucket is per second, minute, hour or a length: per %s it can be calendar, sliding_window or sliding_log", l.Period)
		return
	}
	if !l.Period.Calendar() && l.Algorithm == budget.CalendarUsage {
		d.fail(n.at("algorithm"), "a calendar budget is per day, week, month, quarter or year: per %s it can be token_bucket, sliding_window or sliding_log", l.Period)
		return
	}
	d.checkResetDay(l, n)
	d.refuseKeys(n, "algorithm: "+string(l.Algorithm), unused(l.Algorithm)...)
}

// unused are the keys that an algorithm has no use for.
func unused(a budget.Algorithm) []string {
	switch a {
	case budget.TokenBucket:
		return []string{"timezone", "reset_day"}
	case budget.CalendarUsage:
		return []string{"burst", "bank"}
	default:
		return []string{"timezone", "reset_day", "burst", "bank"}
	}
}

// refuseKeys fails for each of the keys that n has.
func (d *decoder) refuseKeys(n *node, what string, keys ...string) {
	for _, e := range n.entries {
		if slices.Contains(keys, e.key.text) {
			d.fail(e.key, "%s has no use for %q", what, e.key.text)
		}
	}
}

// checkResetDay keeps the day within the period.
func (d *decoder) checkResetDay(l *budget.Limit, n *node) {
	day := n.value("reset_day")
	switch {
	case day == nil:
	case l.Period == budget.Day:
		d.fail(day, "a day has no reset_day")
	case l.Period == budget.Week && l.ResetDay > 7:
		d.fail(day, "the reset_day of a week is 1 (Monday) to 7")
	}
}

// completeWait checks that waiting has an end.
func (d *decoder) completeWait(l *budget.Limit, n *node) {
	if l.Wait && l.MaxWait == 0 {
		d.fail(n.at("on_exceed"), "on_exceed: wait needs max_wait")
	}
	if !l.Wait && l.MaxWait != 0 {
		d.fail(n.at("max_wait"), "max_wait is for on_exceed: wait")
	}
}

// countable checks that all of the limit's arithmetic stays exact.
func (d *decoder) countable(l *budget.Limit, n *node) {
	err := budget.Validate(l)
	if err == nil {
		return
	}
	what := err.Error()
	for _, key := range []string{"amount", "burst", "max_debt", "bank"} {
		if v := n.at(key); v.raw != v.text {
			what = "its amounts cannot be counted exactly" // err has their values
		}
	}
	d.fail(n.at("amount"), "this limit cannot be: %s", what)
}
