package failover_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"llmgw/internal/budget"
	"llmgw/internal/budget/redisstore"
	"llmgw/internal/redistest"
)

// LOADING: a Redis that reads its data in answers so until it has them all.
func TestARedisThatLoadsItsDataIsAwayUntilItHasThem(t *testing.T) {
	server := redistest.Start(t, "--enable-debug-command", "yes", "--loading-process-events-interval-bytes", "1024")
	store, err := redisstore.Open(redisstore.Options{Addrs: []string{server.Addr}, Timeout: storeTimeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() }) //nolint:errcheck // a test's
	g := start(store, "a", storeTimeout)
	month, slots := monthly("month", 1e9), minutely("slots", budget.Concurrency, 200)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, ReadTimeout: time.Minute})
	defer client.Close() //nolint:errcheck // a test's
	ctx := context.Background()
	for i := range 1000 {
		client.Set(ctx, fmt.Sprint("other:", i), "data", 0)
	}
	if err := client.ConfigSet(ctx, "key-load-delay", "500").Err(); err != nil { // µs for each key
		t.Fatal(err)
	}

	l := run(g, 8, line(month, 10), line(slots, 1))
	after(100 * time.Millisecond)
	if err := client.Do(ctx, "debug", "reload").Err(); err != nil { // writes its data, and reads them
		t.Error(err)
	}
	eventually(t, "Redis is used again", g.Up)
	after(100 * time.Millisecond)
	l.end()
	drained(t, g)
	l.wantQuick(t)
	if l.degraded.Load() == 0 {
		t.Error("nothing was decided without Redis: the test tests nothing")
	}
	wantNothingOpen(t, store, g)
	wantUsed(t, store, month, l.used.Load())
	wantUsed(t, store, slots, 0)
	g.stop(t)
}

// twice is a store that each call reaches a second time, a moment later.
type twice struct{ budget.Store }

func again(call func(ctx context.Context)) {
	time.AfterFunc(time.Millisecond, func() { call(context.Background()) })
}

func (s twice) Reserve(ctx context.Context, r budget.Request) (budget.Verdict, error) {
	v, err := s.Store.Reserve(ctx, r)
	if v.Outcome == budget.Granted { // a refused id may be asked again, and was not
		again(func(ctx context.Context) { s.Store.Reserve(ctx, r) }) //nolint:errcheck // nobody waits for it
	}
	return v, err
}

func (s twice) Settle(ctx context.Context, list []budget.Settlement) ([]budget.Settled, error) {
	again(func(ctx context.Context) { s.Store.Settle(ctx, list) }) //nolint:errcheck // nobody waits for it
	return s.Store.Settle(ctx, list)
}

func (s twice) Report(ctx context.Context, list []budget.Progress) error {
	again(func(ctx context.Context) { s.Store.Report(ctx, list) }) //nolint:errcheck // nobody waits for it
	return s.Store.Report(ctx, list)
}

// Repeated: whatever reaches Redis twice, in whatever order, counts once.
func TestCallsThatReachRedisTwiceCountOnce(t *testing.T) {
	server := redistest.Start(t)
	store, err := redisstore.Open(redisstore.Options{Addrs: []string{server.Addr}, Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() }) //nolint:errcheck // a test's
	g := start(twice{store}, "a", 5*time.Second)
	month, slots := monthly("month", 1e9), minutely("slots", budget.Concurrency, 200)
	l := run(g, 16, line(month, 10), line(slots, 1))
	after(500 * time.Millisecond)
	l.end()
	drained(t, g)
	if l.granted.Load() == 0 || l.degraded.Load() > 0 {
		t.Errorf("got %d granted and %d without Redis", l.granted.Load(), l.degraded.Load())
	}
	wantNothingOpen(t, store, g)
	wantUsed(t, store, month, l.used.Load())
	wantUsed(t, store, slots, 0)
	g.stop(t)
}
