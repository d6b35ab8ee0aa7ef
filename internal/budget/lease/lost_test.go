package lease_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/budget/failover"
	"llmgw/internal/budget/memstore"
)

// Every fifth answer of the store is lost, whatever it was to: afterwards what
// was used is charged, once, and nothing is open.
func TestLostAnswersLoseAndInventNothing(t *testing.T) {
	granted := int64(0)
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			random, mu := rand.New(rand.NewPCG(seed, 1)), sync.Mutex{}
			roll := func(n int) int {
				mu.Lock()
				defer mu.Unlock()
				return random.IntN(n)
			}
			g := newGatewayWith(t, "one", memstore.New(time.Now), failover.Config{Failures: 100}) // it is never down
			g.under.lose = func() bool { return roll(5) == 0 }
			month, slot := monthly(1_000_000_000), slots(400)
			lines := []budget.Line{line(month, 100), line(slot, 1)}
			var used int64
			var open sync.WaitGroup
			for n := range 1000 {
				time.Sleep(time.Duration(roll(10)) * time.Millisecond)
				id := fmt.Sprintf("%d.%d", seed, n)
				v := g.request(budget.Request{ID: id, Lines: lines})
				spent, took := int64(roll(150)), time.Duration(roll(300))*time.Millisecond
				if roll(50) == 0 {
					took = 4 * time.Second
				}
				if v.Outcome != budget.Granted {
					continue
				}
				used += spent
				open.Go(func() {
					time.Sleep(took)
					g.end(id, spent, 1)
				})
			}
			open.Wait()
			time.Sleep(10 * time.Second)
			granted += g.Granted()
			if s := g.stored(month); s.Remaining != month.Amount-used || s.Open != 0 {
				t.Errorf("seed %d: got %d charged and %d open, want %d and none", seed, month.Amount-s.Remaining, s.Open, used)
			}
			if s := g.stored(slot); s.Open != 0 || g.Leases() != 0 {
				t.Errorf("seed %d: got %d slots taken and %d leases, want none", seed, s.Open, g.Leases())
			}
		})
	}
	if granted < 2000 {
		t.Errorf("%d of 20000 were granted from leases: too few to show anything", granted)
	}
}
