package lease_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/budget/lease"
	"llmgw/internal/budget/memstore"
)

// counting is a store that counts its calls and fails when told to.
type counting struct {
	*memstore.Store
	reserves, reports, settles atomic.Int64
	down                       atomic.Bool
	slow                       time.Duration // of the answer to a lease
	lose                       func() bool   // an answer, though the call was applied; nil: none
	meanwhile                  func()        // happens before a read's answer comes; nil: nothing

	mu   sync.Mutex
	told []budget.Progress
}

var errDown = errors.New("down")

func (c *counting) Reserve(ctx context.Context, r budget.Request) (budget.Verdict, error) {
	c.reserves.Add(1)
	if c.down.Load() {
		return budget.Verdict{}, errDown
	}
	v, err := c.Store.Reserve(ctx, r)
	if strings.HasPrefix(r.ID, "lease-") {
		time.Sleep(c.slow)
	}
	if c.lost() {
		return budget.Verdict{}, errDown
	}
	return v, err
}

func (c *counting) Report(ctx context.Context, p []budget.Progress) error {
	c.reports.Add(1)
	if c.down.Load() {
		return errDown
	}
	c.mu.Lock()
	c.told = append(c.told, p...)
	c.mu.Unlock()
	if err := c.Store.Report(ctx, p); err != nil || !c.lost() {
		return err
	}
	return errDown
}

func (c *counting) Settle(ctx context.Context, s []budget.Settlement) ([]budget.Settled, error) {
	c.settles.Add(1)
	if c.down.Load() {
		return nil, errDown
	}
	settled, err := c.Store.Settle(ctx, s)
	if c.lost() {
		return nil, errDown
	}
	return settled, err
}

func (c *counting) Read(ctx context.Context, lines []budget.Line) ([]budget.LineState, time.Time, error) {
	states, at, err := c.Store.Read(ctx, lines)
	if c.meanwhile != nil {
		c.meanwhile()
	}
	return states, at, err
}

func (c *counting) lost() bool { return c.lose != nil && c.lose() }

// gateway is one process with leases on a store that several may share.
type gateway struct {
	t     *testing.T
	name  string
	under *counting
	*lease.Store
	n int
}

func newGateway(t *testing.T, name string, shared *memstore.Store) *gateway {
	under := &counting{Store: shared}
	g := &gateway{t: t, name: name, under: under, Store: lease.New(lease.Config{Store: under})}
	t.Cleanup(func() { _ = g.Close() })
	return g
}

func tpm(amount int64) *budget.Limit {
	return &budget.Limit{
		Place: "team/search", Scope: budget.Team, Owner: "search", Name: "tpm", Unit: budget.Tokens,
		Amount: amount, Period: budget.Minute, Burst: amount, Bank: 4, MaxDebt: 10 * amount,
		Algorithm: budget.TokenBucket, Mode: budget.Enforce, Tag: "search", Version: 1,
	}
}

func slots(amount int64) *budget.Limit {
	l := tpm(amount)
	l.Name, l.Unit, l.Period, l.Algorithm, l.Bank, l.MaxDebt = "slots", budget.Concurrency, "", budget.Slots, 0, 0
	return l
}

func monthly(amount int64) *budget.Limit {
	l := tpm(amount)
	l.Name, l.Unit, l.Period, l.Algorithm, l.Location, l.ResetDay = "monthly", budget.USD, budget.Month, budget.CalendarUsage, time.UTC, 1
	l.Bank, l.MaxDebt, l.UnboundedDebt = 0, 0, true
	return l
}

func line(l *budget.Limit, amount int64) budget.Line { return budget.Line{Limit: l, Amount: amount} }

// ask makes a request and returns its id and the answer.
func (g *gateway) ask(lines ...budget.Line) (string, budget.Verdict) {
	g.t.Helper()
	g.n++
	id := fmt.Sprintf("%s-%d", g.name, g.n)
	v, err := g.Reserve(context.Background(), budget.Request{ID: id, Epoch: budget.Epoch(g.name), Lines: lines})
	if err != nil {
		g.t.Fatalf("reserve %s: %v", id, err)
	}
	return id, v
}

// askLeased is ask for a request that a lease must grant.
func (g *gateway) askLeased(lines ...budget.Line) string {
	g.t.Helper()
	id, v := g.ask(lines...)
	if !v.Leased {
		g.t.Fatal("the request after a leased one is not")
	}
	return id
}

func (g *gateway) end(id string, lines []budget.Line, used ...int64) {
	g.t.Helper()
	s, err := g.Settle(context.Background(), []budget.Settlement{{ID: id, Epoch: budget.Epoch(g.name), Lines: lines, Used: used}})
	if err != nil || !s[0].Known {
		g.t.Fatalf("settle %s: got %+v, %v, want it known", id, s, err)
	}
}

// busy makes a hundred requests a second, each of the lines, used as told, until
// one is granted from a lease.
func (g *gateway) busy(lines []budget.Line, used ...int64) {
	g.t.Helper()
	for range 500 {
		id, v := g.ask(lines...)
		g.end(id, lines, used...)
		if v.Leased {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	g.t.Fatal("500 requests in five seconds, and no lease")
}

// spending is a gateway alone that has a lease of a budget of a million: each
// request so far was for 100 of it and used so much, together spent.
func spending(t *testing.T, used int64) (g *gateway, limit *budget.Limit, lines []budget.Line, spent int64) {
	t.Helper()
	g, limit = newGateway(t, "one", memstore.New(time.Now)), monthly(1_000_000)
	lines = []budget.Line{line(limit, 100)}
	g.busy(lines, used)
	return g, limit, lines, int64(g.n) * used
}

func (g *gateway) state(l *budget.Limit) budget.LineState {
	g.t.Helper()
	states, _, err := g.Read(context.Background(), []budget.Line{line(l, 0)})
	if err != nil {
		g.t.Fatalf("read %s: %v", l.Name, err)
	}
	return states[0]
}

func (g *gateway) stored(l *budget.Limit) budget.LineState {
	g.t.Helper()
	states, _, err := g.under.Read(context.Background(), []budget.Line{line(l, 0)})
	if err != nil {
		g.t.Fatalf("read %s: %v", l.Name, err)
	}
	return states[0]
}

func TestAQuietCallerIsAskedForOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, "one", memstore.New(time.Now))
		lines := []budget.Line{line(tpm(1_000_000), 10)}
		for range 100 {
			id, v := g.ask(lines...)
			if v.Leased {
				t.Fatal("ten requests a second are granted from a lease")
			}
			g.end(id, lines, 10)
			time.Sleep(100 * time.Millisecond)
		}
		if got := g.under.reserves.Load(); got != 100 {
			t.Errorf("reserves: got %d, want one for each of the 100 requests", got)
		}
	})
}

func TestABusyCallerSavesCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, "one", memstore.New(time.Now))
		limit, slot := tpm(60_000_000), slots(1000)
		lines := []budget.Line{line(limit, 100), line(slot, 1)}
		g.busy(lines, 40, 1)
		before := g.under.reserves.Load() + g.under.reports.Load() + g.under.settles.Load()
		const n = 10_000 // in ten seconds
		for range n {
			id, v := g.ask(lines...)
			if v.Outcome != budget.Granted {
				t.Fatalf("got outcome %d, want it granted", v.Outcome)
			}
			g.end(id, lines, 40, 1)
			time.Sleep(time.Millisecond)
		}
		calls := g.under.reserves.Load() + g.under.reports.Load() + g.under.settles.Load() - before
		if perRequest := float64(calls) / n; perRequest > 0.04 {
			t.Errorf("calls for each request: got %.3f, want 0.04 at most", perRequest)
		}
		time.Sleep(time.Second)
		if g.Leases() != 0 {
			t.Errorf("leases after a second of silence: got %d, want none", g.Leases())
		}
		if s := g.stored(limit); s.Open != 0 {
			t.Errorf("open: got %d, want 0", s.Open)
		}
		if s := g.stored(slot); s.Remaining != 1000 {
			t.Errorf("free slots: got %d, want 1000", s.Remaining)
		}
	})
}

func TestWhatIsLeasedIsShownAsFreeHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, "one", memstore.New(time.Now))
		budgeted := monthly(1_000_000_000)
		lines := []budget.Line{line(budgeted, 1000)}
		g.busy(lines, 700)
		used := int64(g.n) * 700
		open, v := g.ask(lines...)
		if !v.Leased {
			t.Fatal("the request after a leased one is not")
		}
		if got, want := v.Lines[0].Remaining, 1_000_000_000-used-1000; got != want {
			t.Errorf("remaining in the verdict: got %d, want %d", got, want)
		}
		if s := g.state(budgeted); s.Remaining != 1_000_000_000-used-1000 || s.Open != 1000 {
			t.Errorf("read: got %d left and %d open, want %d and 1000", s.Remaining, s.Open, 1_000_000_000-used-1000)
		}
		if s := g.stored(budgeted); s.Remaining >= 1_000_000_000-used-1000 {
			t.Errorf("the store: got %d left, want less by what is leased", s.Remaining)
		}
		g.end(open, lines, 300)
		if s := g.state(budgeted); s.Remaining != 1_000_000_000-used-300 || s.Open != 0 {
			t.Errorf("read: got %d left and %d open, want %d and none", s.Remaining, s.Open, 1_000_000_000-used-300)
		}
		time.Sleep(time.Second)
		if s := g.stored(budgeted); s.Remaining != 1_000_000_000-used-300 || s.Open != 0 {
			t.Errorf("the store, later: got %d left and %d open, want %d and none", s.Remaining, s.Open, 1_000_000_000-used-300)
		}
	})
}
