package failover

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"llmgw/internal/budget"
)

const timeout = 20 * time.Millisecond

// Limits of the tests. The ledger refills nothing.
var (
	tpm   = limit("tpm", budget.Tokens, 1000, budget.Local)
	rpm   = limit("rpm", budget.Requests, 100, budget.Local)
	slots = limit("slots", budget.Concurrency, 12, budget.Local)
	money = limit("money", budget.USD, 500, budget.Closed)
	loose = limit("loose", budget.Tokens, 100, budget.Open)
	seats = limit("seats", budget.Concurrency, 10, budget.Closed)
	door  = limit("door", budget.Concurrency, 10, budget.Open)
)

func limit(name string, unit budget.Unit, amount int64, down budget.StorePolicy) *budget.Limit {
	l := &budget.Limit{
		Place: "team/a", Scope: budget.Team, Owner: "a", Name: name, Unit: unit, Amount: amount,
		Period: budget.Minute, Burst: amount, Bank: 4, MaxDebt: 10 * amount, Algorithm: budget.TokenBucket,
		Location: time.UTC, Mode: budget.Enforce, WhenStoreDown: down, Tag: "a", Version: 1,
	}
	if unit == budget.Concurrency {
		l.Algorithm, l.Period = budget.Slots, ""
	}
	return l
}

func line(l *budget.Limit, n int64) budget.Line { return budget.Line{Limit: l, Amount: n} }

// usual is what most requests of the tests ask for.
func usual() []budget.Line { return []budget.Line{line(tpm, 100), line(rpm, 1), line(slots, 1)} }

func used(n int64) []int64 { return []int64{n, 1, 1} }

// world is a Limiter over a ledger, with faults between.
type world struct {
	byID
	t      *testing.T
	ledger *ledger
	faults *faulty
	keeper *fixedKeeper
	log    *bytes.Buffer
	seen   *watcher
}

func newWorld(t *testing.T, change func(*Config)) *world {
	w := &world{t: t, ledger: newLedger(), log: new(bytes.Buffer), seen: new(watcher)}
	w.faults = &faulty{Store: w.ledger}
	w.keeper = &fixedKeeper{store: w.ledger, live: 3}
	cfg := Config{
		Store: w.faults, Keeper: w.keeper, Timeout: timeout,
		newShares: func(func() time.Time) budget.Store { return newLedger() },
		Logger:    slog.New(slog.NewTextHandler(w.log, nil)), Observer: w.seen,
	}
	if change != nil {
		change(&cfg)
	}
	w.byID.Limiter = New(cfg)
	return w
}

// end closes the Limiter and waits for calls that come late.
func (w *world) end() {
	w.t.Helper()
	w.faults.set(nil)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := w.Close(ctx); err != nil {
		w.t.Error(err)
	}
	w.faults.late.Wait()
}

func (w *world) reserve(id string, lines ...budget.Line) budget.Verdict {
	return w.Reserve(context.Background(), budget.Request{ID: id, Lines: lines})
}

// fall makes the store hang until the Limiter no longer asks it.
func (w *world) fall(how fault) {
	w.faults.all(how)
	for i := 0; w.Up(); i++ {
		w.reserve(fmt.Sprintf("fall-%d", i), line(money, 1))
	}
}

// rise lets the store answer and waits until it was told everything.
func (w *world) rise() {
	w.faults.set(nil)
	time.Sleep(10 * time.Second) // of the bubble
	synctest.Wait()
}

// watcher counts what an Observer is told.
type watcher struct {
	mu      sync.Mutex
	ups     []bool
	results map[string]int
	failed  map[string]int
}

func (o *watcher) StoreCall(op string, _ time.Duration, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failed == nil {
		o.failed = map[string]int{}
	}
	if err != nil {
		o.failed[op]++
	}
}

func (o *watcher) StoreUp(up bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ups = append(o.ups, up)
}

func (o *watcher) Reservations(result string, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.results == nil {
		o.results = map[string]int{}
	}
	o.results[result] += n
}

func (o *watcher) result(name string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.results[name]
}

func TestWhatIsUsedReplacesWhatWasReserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		v := w.reserve("r1", usual()...)
		if v.Outcome != budget.Granted || v.Degraded {
			t.Fatalf("got %+v, want granted by the store", v)
		}
		if got := w.Open(); got != 1 {
			t.Errorf("got %d open, want 1", got)
		}
		w.Settle("r1", used(30))
		synctest.Wait()
		w.wantCharged(30, 1)
		w.Settle("r1", used(30))
		w.Settle("r2", used(30))
		synctest.Wait()
		w.wantCharged(30, 1)
		if got := w.seen.result("settled"); got != 1 {
			t.Errorf("got %d settled, want 1", got)
		}
		w.end()
	})
}

func TestTurnsWithProvidersAreNotCountedAsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		pace := *tpm
		pace.Scope, pace.Place, pace.Owner = budget.Provider, "provider/sim", "sim"
		w.reserve("r1", usual()...)
		w.reserve("r1/1", line(&pace, 10))
		if got := w.Open(); got != 1 {
			t.Errorf("got %d open, want 1", got)
		}
		w.Settle("r1/1", []int64{10})
		w.Settle("r1", used(30))
		synctest.Wait()
		if got := w.seen.result("settled"); got != 1 {
			t.Errorf("got %d settled, want 1", got)
		}
		if got := w.ledger.charged(line(&pace, 0)); got != 10 {
			t.Errorf("got %d charged to the provider, want 10", got)
		}
		w.wantCharged(30, 1)
		w.end()
	})
}

// wantCharged checks that so many tokens and requests are charged, that nothing
// is open anywhere and no slot is taken.
func (w *world) wantCharged(tokens, requests int64) {
	w.t.Helper()
	if got := w.ledger.charged(line(tpm, 0)); got != tokens {
		w.t.Errorf("got %d tokens charged, want %d", got, tokens)
	}
	if got := w.ledger.charged(line(rpm, 0)); got != requests {
		w.t.Errorf("got %d requests charged, want %d", got, requests)
	}
	if got := w.ledger.charged(line(slots, 0)); got != 0 {
		w.t.Errorf("got %d slots taken, want 0", got)
	}
	if got := w.ledger.open(); len(got) != 0 {
		w.t.Errorf("got %v open in the store, want none", got)
	}
	if got := w.Open(); got != 0 {
		w.t.Errorf("got %d open, want 0", got)
	}
}

func TestS30_ARequestNeverWaitsLongerThanTheTimeout(t *testing.T) {
	for what, f := range map[string]fault{
		"the call is lost": lost, "the reply is lost": replyLost, "the call is late": late,
		"the connection is refused": refused, "the store is read-only": readonly,
		"the store is loading": loading, "the store's memory is full": oom, "a script runs": busy, "a slot has moved": moved,
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				w.faults.all(f)
				for i := range 20 {
					start := time.Now()
					w.reserve(fmt.Sprint(i), usual()...)
					took := time.Since(start)
					if took > timeout || i >= 3 && took > 0 {
						t.Errorf("request %d took %v, want at most %v, and nothing once the store is down", i, took, timeout)
					}
				}
				if w.Up() {
					t.Error("got up, want down")
				}
				if v := w.reserve("last", usual()...); !v.Degraded {
					t.Error("got a verdict that is not degraded")
				}
				for i := range 20 {
					w.Settle(fmt.Sprint(i), used(10))
				}
				w.Settle("last", used(10))
				w.rise()
				var n int64 = min(21, 1000/3/100, 12/3) // the shares: 333 tokens, 4 slots
				w.wantCharged(10*n, n)
				w.end()
			})
		})
	}
}

func TestCallsThatFailTogetherCountAsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.faults.all(lost)
		for round := range 3 {
			if !w.Up() {
				t.Fatalf("got down after %d times, want 3", round)
			}
			var group sync.WaitGroup
			for i := range 50 {
				group.Go(func() { w.reserve(fmt.Sprint(round, "-", i), line(money, 1)) })
			}
			group.Wait()
		}
		if w.Up() {
			t.Error("got up after three times, want down")
		}
		w.end()
	})
}

func TestCallsThatFailNowAndThenDoNotBringTheStoreDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		for round := range 4 {
			for try := range 2 {
				w.faults.all(lost)
				w.reserve(fmt.Sprint(round, "-", try), line(money, 1))
			}
			w.faults.all(none)
			w.reserve(fmt.Sprint(round), line(money, 0))
			w.Settle(fmt.Sprint(round), []int64{0})
			if !w.Up() {
				t.Fatalf("got down after %d times two failures and an answer, want up", round+1)
			}
		}
		w.end()
	})
}

func TestS30_EachTransitionIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.fall(lost)
		for i := range 100 {
			w.reserve(fmt.Sprint(i), usual()...)
			time.Sleep(17 * time.Millisecond)
		}
		w.rise()
		if got, want := fmt.Sprint(w.seen.ups), "[true false true]"; got != want {
			t.Errorf("got %v, want %v", got, want)
		}
		for _, text := range []string{"does not answer", "answers again"} {
			if got := strings.Count(w.log.String(), text); got != 1 {
				t.Errorf("got %d lines with %q, want 1:\n%s", got, text, w.log)
			}
		}
		for i := range 100 {
			w.Settle(fmt.Sprint(i), used(0))
		}
		w.end()
	})
}
