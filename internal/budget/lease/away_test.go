package lease_test

import (
	"testing"
	"testing/synctest"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/budget/memstore"
)

// fall lets calls fail until the store counts as away.
func (g *gateway) fall() {
	g.under.down.Store(true)
	for probe := tpm(1_000_000); g.Up(); {
		id, _ := g.ask(line(probe, 1))
		g.end(id, 0)
	}
}

func TestNothingIsGrantedFromALeaseWhileTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, limit := newGateway(t, "one", memstore.New(time.Now)), monthly(1_000_000)
		limit.WhenStoreDown = budget.Closed
		lines := []budget.Line{line(limit, 100)}
		g.busy(lines, 0)
		if g.fall(); g.Leases() == 0 {
			t.Fatal("no lease is held when the store goes away")
		}
		if _, v, fromLease := g.asks(lines...); fromLease || v.Outcome != budget.Unavailable {
			t.Errorf("got %+v, from a lease %v, want what a closed limit says", v, fromLease)
		}
		g.under.down.Store(false)
	})
}

// A gateway's share of slots counts what its requests have, and not what a lease
// had for others.
func TestALeasesIdleSlotsAreNotCountedOnTheShareOfAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, slot := newGateway(t, "one", memstore.New(time.Now)), slots(400)
		g.alive.Store(10)
		lines := []budget.Line{line(slot, 1)}
		g.busy(lines, 1)
		g.askLeased(lines...)
		g.fall()
		time.Sleep(100 * time.Millisecond) // the lease is closed
		granted := 0
		for range 100 {
			if _, v := g.ask(lines...); v.Outcome == budget.Granted {
				granted++
			}
		}
		if granted != 39 { // of a tenth of 400
			t.Errorf("got %d granted, want 39 beside the one that is open", granted)
		}
		g.under.down.Store(false)
	})
}
