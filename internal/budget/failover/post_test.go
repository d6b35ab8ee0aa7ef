package failover

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"llmgw/internal/budget"
)

func TestS31_WhatIsOpenWhenTheStoreReturnsHoldsItsPlaceThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.fall(lost)
		w.reserve("r1", usual()...)
		w.reserve("r2", usual()...)
		w.Settle("r2", used(40))
		w.rise()
		if got := fmt.Sprint(w.ledger.open()); got != "[r1~local]" {
			t.Errorf("got %v open, want r1~local", got)
		}
		if !w.Has("r1~local") {
			t.Error("the limiter does not know its own reservation by the store's id")
		}
		if got := w.ledger.charged(line(slots, 0)); got != 1 {
			t.Errorf("got %d slots taken, want 1", got)
		}
		w.Settle("r1", used(70))
		synctest.Wait()
		w.wantCharged(110, 2)
		w.end()
	})
}

func TestMuchTrafficWhileTheStoreComesAndGoesIsAccounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		big := limit("big", budget.Tokens, 1e9, budget.Local)
		w := newWorld(t, nil)
		var group sync.WaitGroup
		for c := range 16 {
			group.Go(func() {
				for i := range 100 {
					id := fmt.Sprint(c, "-", i)
					if v := w.reserve(id, line(big, 1000), line(slots, 1)); v.Outcome == budget.Granted {
						time.Sleep(time.Duration(1+(c*7+i)%13) * time.Millisecond)
						w.Settle(id, []int64{7, 1})
					} else {
						time.Sleep(time.Millisecond)
					}
				}
			})
		}
		for range 10 {
			time.Sleep(60 * time.Millisecond)
			w.faults.all(lost)
			time.Sleep(100 * time.Millisecond)
			w.faults.set(nil)
		}
		group.Wait()
		w.rise()
		want := 7 * int64(w.seen.result("settled"))
		if got := w.ledger.charged(line(big, 0)); got != want || want == 0 {
			t.Errorf("got %d charged, want %d", got, want)
		}
		w.wantCharged(0, 0)
		w.end()
	})
}

func TestWhatAShadowLimitWouldHaveRefusedIsNotOwed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shadow := limit("shadow", budget.Tokens, 300, budget.Local)
		shadow.Mode = budget.Shadow
		w := newWorld(t, nil)
		w.fall(lost)
		for _, id := range []string{"r1", "r2"} { // the share is 100
			if v := w.reserve(id, line(shadow, 80)); v.Outcome != budget.Granted {
				t.Errorf("got %+v, want granted: it is a shadow", v)
			}
			w.Settle(id, []int64{80})
		}
		w.rise()
		if got := w.ledger.charged(line(shadow, 0)); got != 80 {
			t.Errorf("got %d charged, want 80: the second would have been refused", got)
		}
		w.end()
	})
}

func TestARequestThatUsedNothingOwesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.fall(refused)
		before := w.Unwritten()
		w.reserve("r1", usual()...)
		w.Settle("r1", []int64{0, 0, 1})
		if got := w.Unwritten(); got != before {
			t.Errorf("got %d more to write, want none", got-before)
		}
		w.end()
	})
}

func TestAPostIsMadeInAnEpochThatMayReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.faults.all(lost)
		w.reserve("r1", usual()...)
		w.reserve("r2", usual()...)
		w.Settle("r2", used(5))
		w.ledger.fence("gw.0")
		w.faults.set(nil)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := w.keeper.Epoch(); got != "gw.1" {
			t.Errorf("got epoch %s, want gw.1", got)
		}
		if got := fmt.Sprint(w.ledger.open()); got != "[r1~local]" {
			t.Errorf("got %v open, want r1~local", got)
		}
		w.Settle("r1", used(5))
		synctest.Wait()
		w.wantCharged(10, 2)
		w.end()
	})
}

func TestAPostIsChargedOnceHoweverLongItsAnswerIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store *postLoser
		w := newWorld(t, func(c *Config) {
			store = &postLoser{Store: c.Store, t: t}
			c.Store = store
		})
		store.ledger = w.ledger
		w.fall(lost)
		w.reserve("r1", line(tpm, 100))
		w.Settle("r1", []int64{70})
		w.rise()
		if store.lost != 3 {
			t.Errorf("got %d answers lost, want 3", store.lost)
		}
		w.wantCharged(70, 0)
		w.end()
	})
}

// postLoser loses the first two settlements of a post, and the answer to the
// third; by the fourth, the store has forgotten it.
type postLoser struct {
	budget.Store
	t      *testing.T
	ledger *ledger
	lost   int
}

func (p *postLoser) Enqueue(s budget.Settlement, done func(budget.Settled, error)) {
	settleSoon(p, s, done)
}

func (p *postLoser) Settle(ctx context.Context, list []budget.Settlement) ([]budget.Settled, error) {
	if p.lost == 3 || !strings.HasPrefix(list[0].ID, "post-") {
		return p.Store.Settle(ctx, list)
	}
	if crash := p.ledger.records[list[0].ID].crash; crash != budget.ChargeFull {
		p.t.Errorf("got crash charge %s of a post, want all of it: it was spent", crash)
	}
	if p.lost++; p.lost == 3 {
		if _, err := p.Store.Settle(ctx, list); err != nil {
			p.t.Error(err)
		}
		p.ledger.forget()
	}
	<-ctx.Done()
	return nil, ctx.Err()
}
