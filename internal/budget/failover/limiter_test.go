package failover_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/budget/budgettest"
	"llmgw/internal/budget/failover"
	"llmgw/internal/budget/memstore"
	"llmgw/internal/budget/redisstore"
	"llmgw/internal/fleet"
	"llmgw/internal/redistest"
)

var gateways atomic.Int64

// limited is a Limiter over store, as the product wires it.
func limited(t *testing.T, store budget.Store, timeout time.Duration) *budgettest.Limited {
	name := fmt.Sprint("gw", gateways.Add(1))
	keeper := fleet.New(fleet.Config{Store: store, Instance: name, Logger: quiet})
	limiter := failover.New(failover.Config{Store: store, Keeper: keeper, Timeout: timeout, Logger: quiet})
	keeper.Start(limiter)
	var once sync.Once
	stop := func() {
		once.Do(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			if err := limiter.Close(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(stop)
	return &budgettest.Limited{Limiter: limiter, Store: store, Close: stop}
}

func TestALimiterKeepsTheContractInMemory(t *testing.T) {
	budgettest.RunLimiter(t, func(t *testing.T) *budgettest.Limited { return limited(t, memstore.New(nil), 0) })
}

func TestALimiterKeepsTheContractOnRedis(t *testing.T) {
	contractOnRedis(t, redistest.Start(t).Addr)
}

func TestALimiterKeepsTheContractOnACluster(t *testing.T) {
	var addrs []string
	for _, server := range redistest.StartCluster(t, 3, 0) {
		addrs = append(addrs, server.Addr)
	}
	contractOnRedis(t, addrs...)
}

func contractOnRedis(t *testing.T, addrs ...string) {
	store, err := redisstore.Open(redisstore.Options{Addrs: addrs, Prefix: "limiter", Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	budgettest.RunLimiter(t, func(t *testing.T) *budgettest.Limited { return limited(t, store, 5*time.Second) })
}
