package lease_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/budget/failover"
	"llmgw/internal/budget/lease"
	"llmgw/internal/budget/memstore"
)

// counting is a store that counts its calls and fails when told to.
type counting struct {
	*memstore.Store
	reserves, reports, settles atomic.Int64
	down                       atomic.Bool
	slow                       time.Duration // of the answer to a lease
	late                       time.Duration // of the answer to a report
	lose                       func() bool   // an answer, though the call was applied; nil: none
	meanwhile                  func()        // happens before a read's answer comes; nil: nothing

	mu   sync.Mutex
	told []budget.Progress

	stopped atomic.Bool // its gateway is
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
	err := c.Store.Report(ctx, p)
	if time.Sleep(c.late); err != nil || !c.lost() {
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

func (c *counting) Enqueue(s budget.Settlement, done func(budget.Settled, error)) {
	settled, err := c.Settle(context.Background(), []budget.Settlement{s})
	if err != nil {
		done(budget.Settled{}, err)
		return
	}
	done(settled[0], nil)
}

func (c *counting) Heartbeat(ctx context.Context, e budget.Epoch) (budget.Beat, error) {
	if c.down.Load() {
		return budget.Beat{}, errDown
	}
	return c.Store.Heartbeat(ctx, e)
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
	t    *testing.T
	name string
	keeper
	under *counting
	*lease.Limiter
	n    int
	mu   sync.Mutex
	held map[string]*budget.Reservation
}

// keeper is a gateway's place among the others, which beat says.
type keeper struct {
	store       budget.Store
	name        string
	life, alive atomic.Int64
}

func (k *keeper) Epoch() budget.Epoch {
	if n := k.life.Load(); n > 0 {
		return budget.Epoch(fmt.Sprintf("%s.%d", k.name, n))
	}
	return budget.Epoch(k.name)
}

func (k *keeper) Renew(fenced budget.Epoch) budget.Epoch {
	if k.Epoch() == fenced {
		k.life.Add(1)
	}
	return k.Epoch()
}

func (k *keeper) Live() int                               { return int(max(1, k.alive.Load())) }
func (k *keeper) Now() time.Time                          { return time.Now() }
func (k *keeper) Observe(time.Time, time.Time, time.Time) {}
func (k *keeper) Beat()                                   {}
func (k *keeper) Retire(ctx context.Context) error        { return k.store.Retire(ctx, k.Epoch()) }

func newGateway(t *testing.T, name string, shared *memstore.Store) *gateway {
	return newGatewayWith(t, name, shared, failover.Config{})
}

func newGatewayWith(t *testing.T, name string, shared *memstore.Store, cfg failover.Config) *gateway {
	g := &gateway{t: t, name: name, under: &counting{Store: shared}, held: map[string]*budget.Reservation{}}
	g.keeper.store, g.keeper.name = g.under, name
	cfg.Store, cfg.Keeper, cfg.Timeout, cfg.Logger = g.under, &g.keeper, 20*time.Millisecond, slog.New(slog.DiscardHandler)
	g.Limiter = lease.New(failover.New(cfg), lease.Config{})
	t.Cleanup(func() { g.stop(time.Minute) })
	return g
}

// stop ends the gateway within d, once.
func (g *gateway) stop(d time.Duration) (err error) {
	if g.under.stopped.CompareAndSwap(false, true) {
		ctx, cancel := context.WithTimeout(context.Background(), d)
		defer cancel()
		err = g.Close(ctx)
	}
	return err
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
	id, v, _ := g.asks(lines...)
	return id, v
}

// asks is ask that returns whether a lease has granted it, too.
func (g *gateway) asks(lines ...budget.Line) (string, budget.Verdict, bool) {
	g.n++
	id, before := fmt.Sprintf("%s-%d", g.name, g.n), g.Granted()
	v := g.request(budget.Request{ID: id, Lines: lines})
	return id, v, g.Granted() > before
}

func (g *gateway) request(r budget.Request) budget.Verdict {
	held, v := g.Limiter.Reserve(context.Background(), r)
	if (held != nil) != (v.Outcome == budget.Granted) {
		g.t.Errorf("reserve %s: got %+v and a reservation %v", r.ID, v, held)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held[r.ID] = held
	return v
}

// of is the reservation id.
func (g *gateway) of(id string) *budget.Reservation {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.held[id]
}

// askLeased is ask for a request that a lease must grant.
func (g *gateway) askLeased(lines ...budget.Line) string {
	g.t.Helper()
	id, _, leased := g.asks(lines...)
	if !leased {
		g.t.Fatal("the request after a leased one is not")
	}
	return id
}

func (g *gateway) end(id string, used ...int64) { g.of(id).Settle(used) }

// busy makes a hundred requests a second, each of the lines, used as told, until
// one is granted from a lease.
func (g *gateway) busy(lines []budget.Line, used ...int64) {
	g.t.Helper()
	for range 500 {
		id, _, leased := g.asks(lines...)
		g.end(id, used...)
		if leased {
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
			id, _, leased := g.asks(lines...)
			if leased {
				t.Fatal("ten requests a second are granted from a lease")
			}
			g.end(id, 10)
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
			g.end(id, 40, 1)
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
		open, v, leased := g.asks(lines...)
		if !leased {
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
		g.end(open, 300)
		if s := g.state(budgeted); s.Remaining != 1_000_000_000-used-300 || s.Open != 0 {
			t.Errorf("read: got %d left and %d open, want %d and none", s.Remaining, s.Open, 1_000_000_000-used-300)
		}
		time.Sleep(time.Second)
		if s := g.stored(budgeted); s.Remaining != 1_000_000_000-used-300 || s.Open != 0 {
			t.Errorf("the store, later: got %d left and %d open, want %d and none", s.Remaining, s.Open, 1_000_000_000-used-300)
		}
	})
}
