package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/budget/failover"
)

// Outage plays quick requests at one of nodes gateways whose store is away,
// under a limit of amount an hour for all of them, and returns how many that
// gateway admits by the policy.
func Outage(policy budget.StorePolicy, nodes int, amount int64, requests int) (int, error) {
	limit := &budget.Limit{
		Place: "team/simulated", Scope: budget.Team, Owner: "simulated", Name: "limit", Unit: budget.Requests, Amount: amount, Period: budget.Hour,
		Burst: amount, Bank: 4, MaxDebt: 10 * amount, Algorithm: budget.TokenBucket, Mode: budget.Enforce, WhenStoreDown: policy, Tag: "simulated",
	}
	if err := budget.Validate(limit); err != nil {
		return 0, fmt.Errorf("simulate an outage: %w", err)
	}
	l := failover.New(failover.Config{
		Store: away{}, Keeper: alone{live: max(1, nodes)}, Timeout: time.Second, Probe: time.Hour, Logger: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()                            // nothing is waited for at the end:
	defer func() { _ = l.Close(ctx) }() // there is no store to write to
	admitted := 0
	for i := range requests {
		_, v := l.Reserve(context.Background(), budget.Request{ID: strconv.Itoa(i), Lines: []budget.Line{{Limit: limit, Amount: 1}}})
		if v.Outcome == budget.Granted {
			admitted++
		}
	}
	return admitted, nil
}

// errAway is all that a store says that is away.
var errAway = errors.New("sim: the store is away")

// away is a store that does not answer.
type away struct{}

func (away) Reserve(context.Context, budget.Request) (budget.Verdict, error) {
	return budget.Verdict{}, errAway
}
func (away) Settle(context.Context, []budget.Settlement) ([]budget.Settled, error) {
	return nil, errAway
}
func (away) Enqueue(_ budget.Settlement, done func(budget.Settled, error)) {
	done(budget.Settled{}, errAway)
}
func (away) Report(context.Context, []budget.Progress) error { return errAway }
func (away) Read(context.Context, []budget.Line) ([]budget.LineState, time.Time, error) {
	return nil, time.Time{}, errAway
}
func (away) Correct(context.Context, []budget.Correction) error { return errAway }
func (away) Heartbeat(context.Context, budget.Epoch) (budget.Beat, error) {
	return budget.Beat{}, errAway
}
func (away) Reclaim(context.Context, time.Duration, int) (budget.Reclaimed, error) {
	return budget.Reclaimed{}, errAway
}
func (away) Retire(context.Context, budget.Epoch) error { return errAway }
func (away) OpenIDs(context.Context, budget.Epoch) (map[string]time.Duration, error) {
	return nil, errAway
}
func (away) Close() error { return nil }

// alone is a gateway that last knew of live gateways.
type alone struct{ live int }

func (alone) Epoch() budget.Epoch             { return "simulated" }
func (alone) Renew(budget.Epoch) budget.Epoch { return "simulated" }
func (a alone) Live() int                     { return a.live }
func (alone) Now() time.Time                  { return time.Unix(1, 0) } // it stands still
func (alone) Observe(_, _, _ time.Time)       {}
func (alone) Beat()                           {}
func (alone) Retire(context.Context) error    { return nil }
