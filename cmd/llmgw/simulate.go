package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/sim"
)

// simulate plays limits on virtual time for the user's own numbers.
func simulate(args []string, io streams) int {
	f := flags("simulate", io)
	q := sim.Question{Leases: []int64{10, 100}, Policies: []budget.StorePolicy{budget.Open, budget.Closed, budget.Local}}
	f.IntVar(&q.Nodes, "nodes", 10, "gateways that share the limit")
	f.Int64Var(&q.Limit, "limit", 100, "requests per second, for all of them")
	f.IntVar(&q.Load, "load", 300, "requests per second that clients send")
	syncs := f.String("sync", "20ms,100ms,200ms,500ms", "intervals of counters that are synchronised now and then")
	m := &q.Minute
	f.Int64Var(&m.Amount, "tpm", 60_000, "tokens a minute, of a limit that large requests and held reservations meet")
	f.Int64Var(&m.Large, "large", 50_000, "tokens of a large request under --tpm")
	pressure := f.Float64("pressure", 1.2, "what small requests under --tpm ask for together, in times the rate")
	f.Int64Var(&m.Reserve, "reserve", 1000, "tokens that a request under --tpm reserves")
	f.Int64Var(&m.Use, "use", 500, "tokens that it then uses")
	runs := f.Duration("runs", time.Minute, "how long it holds what it reserved")
	policy := f.String("policy", "", "while Redis is away: open, closed or local; all of them without it")
	if code, stop := parsed(f, args, 0, 0, io); stop {
		return code
	}
	m.Pressure, m.RunsMS = int64(math.Round(1000**pressure)), runs.Milliseconds()
	for _, s := range strings.Split(*syncs, ",") {
		d, err := time.ParseDuration(strings.TrimSpace(s))
		if err != nil || d < time.Millisecond {
			return problem(io, fmt.Errorf("--sync: %q is not a duration of at least 1ms", s))
		}
		q.Sync = append(q.Sync, d.Milliseconds())
	}
	switch p := budget.StorePolicy(*policy); p {
	case "":
	case budget.Open, budget.Closed, budget.Local:
		q.Policies = []budget.StorePolicy{p}
	default:
		return problem(io, fmt.Errorf("--policy: %q is not open, closed or local", p))
	}
	if err := q.Print(io.out); err != nil {
		return problem(io, err)
	}
	return exitOK
}
