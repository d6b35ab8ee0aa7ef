package lease_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/budget/lease"
	"llmgw/internal/budget/memstore"
)

// A lease that a long stream keeps open must not hide from the store what the
// others in it used beyond what they had reserved: it is spent, and a debt (S8).
func TestWhatIsUsedBeyondALeaseIsChargedWhileALongRequestKeepsItOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, "one", memstore.New(time.Now))
		limit := monthly(1_000_000)
		lines := []budget.Line{line(limit, 100), line(slots(400), 1)}
		g.busy(lines, 100, 1)
		used := int64(g.n) * 100
		long := g.askLeased(lines...)
		for range 3 { // in the lease, and after it was closed
			id, _ := g.ask(lines...)
			g.end(id, 150_000, 1)
			used += 150_000
			if s := g.state(limit); s.Remaining != 1_000_000-used-100 || s.Open != 100 {
				t.Errorf("read at once: got %d left and %d open, want %d and 100", s.Remaining, s.Open, 1_000_000-used-100)
			}
			time.Sleep(100 * time.Millisecond)
			if s := g.stored(limit); s.Remaining > 1_000_000-used-100 {
				t.Errorf("the store: got %d left, want %d at most", s.Remaining, 1_000_000-used-100)
			}
		}
		time.Sleep(2 * time.Second)
		if s := g.stored(limit); s.Remaining != 1_000_000-used-100 || s.Open != 100 {
			t.Errorf("with the long one open: got %d left and %d open, want %d and 100", s.Remaining, s.Open, 1_000_000-used-100)
		}
		g.end(long, 400_000, 1)
		used += 400_000
		time.Sleep(time.Second)
		if s := g.stored(limit); s.Remaining != 1_000_000-used || s.Open != 0 || g.Leases() != 0 {
			t.Errorf("at the end: got %d left, %d open, %d leases, want %d and nothing else", s.Remaining, s.Open, g.Leases(), 1_000_000-used)
		}
	})
}

// So it is with requests of a lease that was closed and keeps for them only what
// they reserved: each that ends above that is charged when it ends.
func TestWhatEndsAboveAClosedLeaseIsChargedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, limit, lines, used := spending(t, 100)
		var open []string
		for range 5 {
			id := g.askLeased(lines...)
			open = append(open, id)
		}
		time.Sleep(2 * time.Second)
		for i, id := range open {
			if i == 2 { // an answer is lost on the way
				g.under.down.Store(true)
			}
			g.end(id, 300)
			used += 300
			time.Sleep(100 * time.Millisecond)
			g.under.down.Store(false)
			time.Sleep(100 * time.Millisecond)
			left := int64(100 * (len(open) - 1 - i))
			if s := g.stored(limit); s.Remaining != 1_000_000-used-left || s.Open != left {
				t.Errorf("after %d: got %d left and %d open, want %d and %d", i+1, s.Remaining, s.Open, 1_000_000-used-left, left)
			}
		}
	})
}

// What a fenced gateway cannot reserve is charged when its lease ends (S16).
func TestWhatWasUsedBeyondALeaseOfAFencedGatewayIsChargedYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := memstore.New(time.Now)
		g := newGateway(t, "one", shared)
		limit := monthly(1_000_000)
		lines := []budget.Line{line(limit, 100)}
		g.busy(lines, 100)
		used := int64(g.n) * 100
		long, _ := g.ask(lines...)
		id, _ := g.ask(lines...)
		time.Sleep(100 * time.Millisecond)
		if _, err := shared.Reclaim(context.Background(), -time.Second, 100); err != nil { // everybody is silent
			t.Fatal(err)
		}
		g.end(id, 5000)
		time.Sleep(time.Second)
		g.end(long, 7000)
		time.Sleep(time.Second)
		if s := g.stored(limit); s.Remaining != 1_000_000-used-12_000 || g.Leases() != 0 {
			t.Errorf("got %d left and %d leases, want %d and none", s.Remaining, g.Leases(), 1_000_000-used-12_000)
		}
	})
}

// A store that stalls while a gateway stops is told all as soon as it answers.
func TestAGatewayThatStopsTellsAStoreThatComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, limit, lines, _ := spending(t, 100)
		for range 3 {
			id, _ := g.ask(lines...)
			g.end(id, 70)
		}
		long, _ := g.ask(lines...)
		over, _ := g.ask(lines...)
		used := int64(g.n-5)*100 + 3*70 + 90_000
		g.under.down.Store(true)
		g.end(over, 90_000)
		_ = long // it stays open
		go func() {
			time.Sleep(3 * time.Second)
			g.under.down.Store(false)
		}()
		if err := g.stop(time.Minute); err != nil {
			t.Errorf("when it is back: got %v", err)
		}
		if s := g.stored(limit); s.Remaining != 1_000_000-used || s.Open != 0 {
			t.Errorf("retired: got %d left and %d open, want %d and none", s.Remaining, s.Open, 1_000_000-used)
		}
	})
}

func TestAGatewayThatStopsWhileTheStoreIsAwaySaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _, lines, _ := spending(t, 100)
		id, _ := g.ask(lines...)
		g.under.down.Store(true)
		g.end(id, 70)
		if err := g.stop(time.Second); !errors.Is(err, lease.ErrUnsettled) {
			t.Errorf("got %v, want %v", err, lease.ErrUnsettled)
		}
	})
}
