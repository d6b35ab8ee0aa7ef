// Package sim plays limits on virtual time, before anybody deploys them: the
// five classic algorithms against one load, fleets of gateways that share a
// limit in different ways, and an absent store. What decides is the product's
// own arithmetic (budget.Counter) and its own failover; only time and load are
// simulated. Nothing here serves requests.
//
// sim.go is the limiter, the loads and what is measured of a run; algorithms.go
// compares algorithms, minute.go what becomes of large requests and of held
// reservations under a limit of tokens a minute, fleet.go ways to share a limit,
// race.go what a limiter does that reads before it writes, outage.go an absent
// store, and table.go prints.
package sim

import (
	"fmt"
	"slices"

	"llmgw/internal/budget"
)

// Limiter is one limit's counter on virtual time, in milliseconds. It is used
// by one goroutine.
type Limiter struct {
	rules   budget.Rules
	counter budget.Counter
	bounds  func(now int64) budget.Bounds
}

// NewLimiter returns a limiter of l, a limit that budget.Validate accepts, as it
// is at time 0.
func NewLimiter(l *budget.Limit) (*Limiter, error) {
	if err := budget.Validate(l); err != nil {
		return nil, fmt.Errorf("simulate %s: %w", l.Name, err)
	}
	m := &Limiter{rules: budget.RulesOf(l), bounds: func(now int64) budget.Bounds { return budget.BoundsOf(l, now) }}
	m.counter = budget.New(m.rules, m.bounds(0), 0)
	return m, nil
}

// FixedWindow returns the oldest limiter of all, which no configuration offers:
// amount in each window, counted from its start. It is the calendar's
// arithmetic with periods of one length.
func FixedWindow(amount, windowMS int64) *Limiter {
	m := &Limiter{
		rules: budget.RulesOf(&budget.Limit{Algorithm: budget.CalendarUsage, Amount: amount}),
		bounds: func(now int64) budget.Bounds {
			start := now - now%windowMS
			return budget.Bounds{Start: start, End: start + windowMS, Next: start + 2*windowMS}
		},
	}
	m.counter = budget.New(m.rules, m.bounds(0), 0)
	return m
}

// Allow decides one request of cost at now, which must not run backwards, and
// charges it if it is granted.
func (m *Limiter) Allow(now, cost int64) bool {
	hold, ok := m.Reserve(now, cost, now)
	if ok {
		m.counter.Settle(hold, cost, now)
	}
	return ok
}

// Reserve decides one request of cost at now, which is to end at ends, and holds
// cost for it if it is granted.
func (m *Limiter) Reserve(now, cost, ends int64) (budget.Hold, bool) {
	m.counter.Advance(m.rules, m.bounds(now), now)
	if out, _ := m.counter.Judge(cost, now); out != budget.Granted {
		return budget.Hold{}, false
	}
	return m.counter.Take(cost, ends, now), true
}

// Settle ends at now what Reserve granted: used replaces what was held.
func (m *Limiter) Settle(now int64, hold budget.Hold, used int64) {
	m.counter.Advance(m.rules, m.bounds(now), now)
	m.counter.Settle(hold, used, now)
}

// Left is what the limiter still has at now.
func (m *Limiter) Left(now int64) int64 {
	m.counter.Advance(m.rules, m.bounds(now), now)
	return m.counter.Remaining(now)
}

// Charge takes cost whatever is left, as a debt if need be: what others spent.
func (m *Limiter) Charge(now, cost int64) {
	m.counter.Advance(m.rules, m.bounds(now), now)
	m.counter.Overrun(cost, now)
}

// Result is what a run let through.
type Result struct {
	Offered  int
	Admitted int
	// Worst is the most that was admitted in any half-open interval of a second.
	Worst int
}

// measure summarises the times (ms, in order) of what was admitted.
func measure(offered int, admitted []int64) Result {
	r := Result{Offered: offered, Admitted: len(admitted)}
	first := 0
	for i, t := range admitted {
		for admitted[first] <= t-second {
			first++
		}
		r.Worst = max(r.Worst, i-first+1)
	}
	return r
}

const second = 1000 // in ms

// play offers a request of cost 1 at each time of a trace.
func play(m *Limiter, trace []int64) Result {
	var admitted []int64
	for _, t := range trace {
		if m.Allow(t, 1) {
			admitted = append(admitted, t)
		}
	}
	return measure(len(trace), admitted)
}

// Spaced is a trace of n requests, evenly spread over length ms from start.
func Spaced(start, length, n int64) []int64 {
	trace := make([]int64, n)
	for i := range trace {
		trace[i] = start + int64(i)*length/n
	}
	return trace
}

// Merge puts traces in order of time.
func Merge(traces ...[]int64) []int64 {
	all := slices.Concat(traces...)
	slices.Sort(all)
	return all
}

// Steady is a trace of perSecond requests a second, evenly spread over seconds.
func Steady(perSecond int, seconds int) []int64 {
	return Spaced(0, int64(seconds)*second, int64(perSecond)*int64(seconds))
}
