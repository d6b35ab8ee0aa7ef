package lease_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/budget/budgettest"
	"llmgw/internal/budget/failover"
	"llmgw/internal/budget/lease"
	"llmgw/internal/budget/memstore"
	"llmgw/internal/budget/redisstore"
	"llmgw/internal/fleet"
	"llmgw/internal/redistest"
)

var instances atomic.Int64

// leased is a Limiter with leases over store, as the product wires it, but that
// a caller is busy at once.
func leased(t *testing.T, store budget.Store, granted *atomic.Int64) *budgettest.Limited {
	name, quiet := fmt.Sprint("gw", instances.Add(1)), slog.New(slog.DiscardHandler)
	keeper := fleet.New(fleet.Config{Store: store, Instance: name, Logger: quiet})
	beneath := failover.New(failover.Config{Store: store, Keeper: keeper, Timeout: 5 * time.Second, Logger: quiet})
	l := lease.New(beneath, lease.Config{Busy: 1, Steady: 1, Window: 5 * time.Millisecond})
	keeper.Start(beneath)
	var once sync.Once
	stop := func() {
		once.Do(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			if err := l.Close(ctx); err != nil {
				t.Error(err)
			}
			granted.Add(l.Granted())
		})
	}
	t.Cleanup(stop)
	busy := func(lines []budget.Line, used []int64) []int64 {
		charged := make([]int64, len(lines))
		for n, before := 0, l.Granted(); l.Granted() == before; n++ {
			held, v := l.Reserve(context.Background(), budget.Request{ID: fmt.Sprintf("%s.busy.%d", lines[0].Limit.Owner, n), Lines: lines})
			if v.Outcome != budget.Granted {
				t.Fatalf("got %+v, want it granted", v)
			}
			held.Settle(used)
			for i := range used {
				charged[i] += used[i]
			}
		}
		return charged
	}
	return &budgettest.Limited{Limiter: l, Store: store, Busy: busy, Close: stop}
}

func TestALimiterWithLeasesKeepsTheContractInMemory(t *testing.T) {
	runLeased(t, func() budget.Store { return memstore.New(nil) })
}

// runLeased runs the contract, and checks that leases took part in it.
func runLeased(t *testing.T, open func() budget.Store) {
	var granted atomic.Int64
	budgettest.RunLimiter(t, func(t *testing.T) *budgettest.Limited { return leased(t, open(), &granted) })
	if n := granted.Load(); n < 1000 {
		t.Errorf("%d requests were granted from leases: too few to show anything", n)
	}
}

func TestALimiterWithLeasesKeepsTheContractOnRedis(t *testing.T) {
	leasedOnRedis(t, redistest.Start(t).Addr)
}

func TestALimiterWithLeasesKeepsTheContractOnACluster(t *testing.T) {
	var addrs []string
	for _, server := range redistest.StartCluster(t, 3, 0) {
		addrs = append(addrs, server.Addr)
	}
	leasedOnRedis(t, addrs...)
}

func leasedOnRedis(t *testing.T, addrs ...string) {
	store, err := redisstore.Open(redisstore.Options{Addrs: addrs, Prefix: "leased", Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	runLeased(t, func() budget.Store { return store })
}
