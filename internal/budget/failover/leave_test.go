package failover_test

import (
	"context"
	"testing"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/budget/redisstore"
)

// What the store has not acknowledged when the gateway ends is charged when a
// frozen Redis goes on: settled requests, what was decided without it, and the
// cancels of attempts without an answer.
func TestAFrozenRedisChargesWhatAGatewayLeftItAtItsEnd(t *testing.T) {
	server, _, g := onRedis(t)
	month, local, slots := monthly("month", 1e9), monthly("local", 1e9), minutely("slots", budget.Concurrency, 200)
	for _, id := range []string{"1", "2"} {
		if v := g.reserve(id, line(month, 1000), line(slots, 1)); v.Outcome != budget.Granted {
			t.Fatalf("got %+v, want granted", v)
		}
	}
	server.Pause()
	g.reserve("no answer", line(month, 1000), line(slots, 1))
	eventually(t, "the gateway notices", func() bool { return !g.Up() })
	g.reserve("local", line(local, 1000), line(slots, 1))
	for id, used := range map[string]int64{"1": 140, "2": 7, "no answer": 3, "local": 30} {
		g.Settle(id, []int64{used, 1})
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := g.Close(ctx); err == nil {
		t.Error("got no error though the store acknowledged nothing")
	}
	server.Resume()

	other, err := redisstore.Open(redisstore.Options{Addrs: []string{server.Addr}, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	eventually(t, "charged", func() bool {
		m, l := state(t, other, month), state(t, other, local)
		return m.Capacity-m.Remaining >= 147 && l.Capacity-l.Remaining >= 30 && m.Open == 0
	})
	wantUsed(t, other, month, 150)
	wantUsed(t, other, local, 30)
	wantUsed(t, other, slots, 0)
}
