package failover_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"llmgw/internal/budget"
	"llmgw/internal/budget/failover"
	"llmgw/internal/budget/memstore"
	"llmgw/internal/fleet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// gateway is a Limiter with its Keeper, as the product wires them.
type gateway struct {
	failover.ByID
	keeper *fleet.Keeper
}

func start(store budget.Store, instance string, timeout time.Duration) *gateway {
	return startWith(store, fleet.Config{Store: store, Instance: instance, Logger: quiet}, timeout)
}

func startWith(store budget.Store, cfg fleet.Config, timeout time.Duration) *gateway {
	keeper := fleet.New(cfg)
	limiter := failover.New(failover.Config{Store: store, Keeper: keeper, Timeout: timeout, Logger: quiet})
	keeper.Start(limiter)
	return &gateway{ByID: failover.ByID{Limiter: limiter}, keeper: keeper}
}

func (g *gateway) stop(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := g.Close(ctx); err != nil {
		t.Error(err)
	}
}

func (g *gateway) reserve(id string, lines ...budget.Line) budget.Verdict {
	return g.Reserve(context.Background(), budget.Request{ID: id, Lines: lines})
}

func monthly(name string, amount int64) *budget.Limit {
	return &budget.Limit{
		Place: "team/a", Scope: budget.Team, Owner: "a", Name: name, Unit: budget.Tokens, Amount: amount,
		Period: budget.Month, Burst: amount, Bank: 4, UnboundedDebt: true, Algorithm: budget.CalendarUsage,
		Location: time.UTC, ResetDay: 1, Mode: budget.Enforce, WhenStoreDown: budget.Local, Tag: "a", Version: 1,
	}
}

func minutely(name string, unit budget.Unit, amount int64) *budget.Limit {
	l := &budget.Limit{
		Place: "team/a", Scope: budget.Team, Owner: "a", Name: name, Unit: unit, Amount: amount,
		Period: budget.Minute, Burst: amount, Bank: 4, MaxDebt: 10 * amount, Algorithm: budget.TokenBucket,
		Location: time.UTC, Mode: budget.Enforce, WhenStoreDown: budget.Local, Tag: "a", Version: 1,
	}
	if unit == budget.Concurrency {
		l.Algorithm, l.Period, l.Burst = budget.Slots, "", 0
	}
	return l
}

func line(l *budget.Limit, n int64) budget.Line { return budget.Line{Limit: l, Amount: n} }

// state is one counter as the store has it.
func state(t testing.TB, s budget.Store, l *budget.Limit) budget.LineState {
	t.Helper()
	states, _, err := s.Read(context.Background(), []budget.Line{line(l, 0)})
	if err != nil {
		t.Fatal(err)
	}
	return states[0]
}

// wantUsed checks that so much of l was used and nothing is open on it.
func wantUsed(t testing.TB, s budget.Store, l *budget.Limit, used int64) {
	t.Helper()
	st := state(t, s, l)
	if got := st.Capacity - st.Remaining; got != used || st.Open != 0 {
		t.Errorf("%s: got %d used and %d open, want %d and 0", l.Name, got, st.Open, used)
	}
}

func TestAGatewayInItsOwnProcessSettlesBeforeItReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		month, slots := monthly("month", 1000), minutely("slots", budget.Concurrency, 1)
		store := memstore.New(nil)
		g := start(store, "a", 0)
		for i := range 10 {
			id := fmt.Sprint(i)
			if v := g.reserve(id, line(month, 900), line(slots, 1)); v.Outcome != budget.Granted {
				t.Fatalf("request %d: got %+v, want granted: the one before has ended", i, v)
			}
			g.Settle(id, []int64{10, 1})
		}
		wantUsed(t, store, month, 100)
		wantUsed(t, store, slots, 0)
		g.stop(t)
	})
}

// A11: slots of streams whose clients have left are free at once.
func TestTheSlotsOfCancelledStreamsAreFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		month, slots := monthly("month", 1000), minutely("slots", budget.Concurrency, 2)
		g := start(memstore.New(nil), "a", 20*time.Millisecond)
		for round := range 5 {
			for i := range 2 {
				if v := g.reserve(fmt.Sprint(round, i), line(month, 10), line(slots, 1)); v.Outcome != budget.Granted {
					t.Fatalf("round %d: got %+v, want granted", round, v)
				}
			}
			if v := g.reserve("third", line(month, 10), line(slots, 1)); v.Outcome != budget.NoSlot {
				t.Errorf("got %+v, want no slot", v)
			}
			for i := range 2 {
				g.Settle(fmt.Sprint(round, i), []int64{3, 1})
			}
			synctest.Wait()
		}
		g.stop(t)
	})
}

// D12: what is open comes to nothing, whatever the requests' outcomes were.
func TestD12_TenThousandMixedOutcomesLeaveNothingOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		month, slots := monthly("month", 1e9), minutely("slots", budget.Concurrency, 40)
		store := memstore.New(nil)
		g := start(store, "a", 20*time.Millisecond)
		var total, refused int64
		var mu sync.Mutex
		var group sync.WaitGroup
		for c := range 50 {
			rng := rand.New(rand.NewPCG(7, uint64(c)))
			group.Go(func() {
				for i := range 200 {
					id := fmt.Sprint(c, "-", i)
					if v := g.reserve(id, line(month, 1000), line(slots, 1)); v.Outcome != budget.Granted {
						mu.Lock()
						refused++
						mu.Unlock()
						time.Sleep(time.Millisecond)
						continue
					}
					used := []int64{0, 1, 500, 1000, 5000}[rng.IntN(5)]
					time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
					if rng.IntN(3) == 0 {
						g.Report(id, []int64{used / 2, 1})
					}
					g.Settle(id, []int64{used, 1})
					if rng.IntN(10) == 0 {
						g.Settle(id, []int64{used, 1}) // a deferred second end
					}
					mu.Lock()
					total += used
					mu.Unlock()
				}
			})
		}
		group.Wait()
		synctest.Wait()
		wantUsed(t, store, month, total)
		wantUsed(t, store, slots, 0)
		if g.Open() != 0 || g.Unwritten() != 0 {
			t.Errorf("got %d open and %d unwritten, want none", g.Open(), g.Unwritten())
		}
		if refused == 0 || total == 0 {
			t.Errorf("got %d refused and %d used: the test tests nothing", refused, total)
		}
		g.stop(t)
	})
}

func TestTheNumberOfOpenReservationsIsBounded(t *testing.T) {
	store := memstore.New(nil)
	keeper := fleet.New(fleet.Config{Store: store, Instance: "a", Logger: quiet})
	g := &gateway{keeper: keeper}
	g.Limiter = failover.New(failover.Config{Store: store, Keeper: keeper, MaxOpen: 3, Logger: quiet})
	keeper.Start(g)
	month := monthly("month", 1000)
	for i := range 3 {
		if v := g.reserve(fmt.Sprint(i), line(month, 10)); v.Outcome != budget.Granted {
			t.Fatalf("reservation %d: got %+v, want it granted", i, v)
		}
	}
	if v := g.reserve("3", line(month, 10)); v.Outcome != budget.Unavailable || v.Binding != 0 {
		t.Errorf("one too many: got %+v, want it unavailable", v)
	}
	g.Settle("0", []int64{10})
	if v := g.reserve("4", line(month, 10)); v.Outcome != budget.Granted {
		t.Errorf("after one has ended: got %+v, want it granted", v)
	}
	for _, id := range []string{"1", "2", "4"} {
		g.Settle(id, []int64{10})
	}
	wantUsed(t, store, month, 40)
	g.stop(t)
}

// cut is a store that a gateway can be cut off from, as by a partition or a
// long pause of the process.
type cut struct {
	budget.Store
	off atomic.Bool
}

var errCut = errors.New("no route to host")

func (c *cut) Reserve(ctx context.Context, r budget.Request) (budget.Verdict, error) {
	if c.off.Load() {
		return budget.Verdict{}, errCut
	}
	return c.Store.Reserve(ctx, r)
}

func (c *cut) Settle(ctx context.Context, s []budget.Settlement) ([]budget.Settled, error) {
	if c.off.Load() {
		return nil, errCut
	}
	return c.Store.Settle(ctx, s)
}

func (c *cut) Enqueue(s budget.Settlement, done func(budget.Settled, error)) {
	if c.off.Load() {
		done(budget.Settled{}, errCut)
		return
	}
	c.Store.Enqueue(s, done)
}

func (c *cut) Report(ctx context.Context, p []budget.Progress) error {
	if c.off.Load() {
		return errCut
	}
	return c.Store.Report(ctx, p)
}

func (c *cut) Heartbeat(ctx context.Context, e budget.Epoch) (budget.Beat, error) {
	if c.off.Load() {
		return budget.Beat{}, errCut
	}
	return c.Store.Heartbeat(ctx, e)
}

func (c *cut) Reclaim(ctx context.Context, silence time.Duration, limit int) (budget.Reclaimed, error) {
	if c.off.Load() {
		return budget.Reclaimed{}, errCut
	}
	return c.Store.Reclaim(ctx, silence, limit)
}

// D14: a stream that is longer than any lease keeps its hold, for its gateway
// lives; D13: when that dies, others take it back. S16, S19: if it was alive
// after all, it takes a new epoch, and only what it used beyond what it had
// reported is still charged.
func TestS19_D13_D14_AHoldLastsAsLongAsItsGateway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		month, slots := monthly("month", 1000), minutely("slots", budget.Concurrency, 1)
		store := memstore.New(nil)
		link := &cut{Store: store}
		g := start(link, "a", 20*time.Millisecond)
		other := start(store, "b", 20*time.Millisecond)
		g.reserve("stream", line(month, 400), line(slots, 1))
		for minute := range 120 {
			time.Sleep(time.Minute)
			g.Report("stream", []int64{int64(minute), 1})
			if v := other.reserve(fmt.Sprint(minute), line(month, 1), line(slots, 1)); v.Outcome != budget.NoSlot {
				t.Fatalf("minute %d: got %+v, want the slot held", minute, v)
			}
		}
		time.Sleep(5 * time.Second) // the last report is sent
		link.off.Store(true)
		time.Sleep(5 * time.Second)
		if v := other.reserve("during", line(month, 1), line(slots, 1)); v.Outcome != budget.NoSlot {
			t.Errorf("got %+v, want the slot held: the gateway may be slow", v)
		}
		time.Sleep(15 * time.Second)
		if v := other.reserve("after", line(month, 1), line(slots, 1)); v.Outcome != budget.Granted {
			t.Errorf("got %+v, want the slot of the dead gateway", v)
		}
		other.Settle("after", []int64{1, 1})
		synctest.Wait()
		wantUsed(t, store, month, 119+1+1) // reported, as much as came since the report before, and "after"
		wantUsed(t, store, slots, 0)

		fenced := g.keeper.Epoch()
		link.off.Store(false)
		time.Sleep(2 * time.Second)
		if got := g.keeper.Epoch(); got == fenced {
			t.Errorf("got the fenced epoch %s, want a new one", got)
		}
		if v := g.reserve("again", line(month, 1), line(slots, 1)); v.Outcome != budget.Granted || v.Degraded {
			t.Errorf("got %+v, want granted by the store", v)
		}
		g.Settle("again", []int64{1, 1})
		g.Settle("stream", []int64{150, 1})
		synctest.Wait()
		wantUsed(t, store, month, 150+1+1)
		wantUsed(t, store, slots, 0)
		other.stop(t)
		g.stop(t)
	})
}

func BenchmarkReserveAndSettleInProcess(b *testing.B) {
	g := start(memstore.New(nil), "a", 0)
	defer g.stop(b)
	benchmark(b, g)
}

func BenchmarkReserveAndSettleBehindADeadline(b *testing.B) {
	g := start(memstore.New(nil), "a", 20*time.Millisecond)
	defer g.stop(b)
	benchmark(b, g)
}

func benchmark(b *testing.B, g *gateway) {
	gw, team, slots := minutely("all", budget.Tokens, 1<<40), monthly("month", 1<<40), minutely("slots", budget.Concurrency, 1e6)
	used := []int64{60, 60, 1}
	degraded := 0
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		id := "request-" + strconv.Itoa(i)
		lines := []budget.Line{line(gw, 100), line(team, 100), line(slots, 1)}
		v := g.Reserve(context.Background(), budget.Request{ID: id, Lines: lines})
		if v.Outcome != budget.Granted {
			b.Fatalf("got %+v, want granted", v)
		}
		if v.Degraded {
			degraded++ // a busy machine: it did not come back in time
		}
		g.Settle(id, used)
	}
	b.ReportMetric(float64(degraded), "degraded")
}
