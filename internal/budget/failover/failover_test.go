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
	*Limiter
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
	w.Limiter = New(cfg)
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

func TestARequestNeverWaitsLongerThanTheTimeout(t *testing.T) {
	for what, f := range map[string]fault{
		"the call is lost": lost, "the reply is lost": replyLost, "the call is late": late,
		"the connection is refused": refused, "the store is read-only": readonly,
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
				n := int64(min(21, 1000/3/100, 12/3)) // the shares: 333 tokens, 4 slots
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

func TestEachTransitionIsToldOnce(t *testing.T) {
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

func TestALimitsPolicyDecidesWhileTheStoreIsDown(t *testing.T) {
	shadow := limit("shadow", budget.Tokens, 10, budget.Closed)
	shadow.Mode = budget.Shadow
	for _, s := range []struct {
		what    string
		lines   []budget.Line
		outcome budget.Outcome
		binding int
	}{
		{"a closed limit refuses", []budget.Line{line(tpm, 1), line(money, 1)}, budget.Unavailable, 1},
		{"an open limit grants, however much", []budget.Line{line(loose, 1e6)}, budget.Granted, -1},
		{"a local limit grants its share, 1000/3", []budget.Line{line(tpm, 333)}, budget.Granted, -1},
		{"a local limit waits for the store with what exceeds its share", []budget.Line{line(tpm, 334)}, budget.Unavailable, 0},
		{"what can never fit the whole limit never does", []budget.Line{line(tpm, 1001)}, budget.NeverFits, 0},
		{"a closed limit in shadow refuses nothing", []budget.Line{line(shadow, 1), line(tpm, 1)}, budget.Granted, -1},
		{"nothing asked is granted", nil, budget.Granted, -1},
	} {
		t.Run(s.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				w.fall(refused)
				v := w.reserve("r", s.lines...)
				if v.Outcome != s.outcome || v.Binding != s.binding || !v.Degraded || len(v.Lines) != len(s.lines) {
					t.Errorf("got %+v, want outcome %v by line %d, degraded", v, s.outcome, s.binding)
				}
				w.Settle("r", make([]int64, len(s.lines)))
				w.end()
			})
		})
	}
}

func TestAShareStartsFromWhatWasLastSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.reserve("before", line(tpm, 700)) // 300 left: 100 for each of three
		w.Settle("before", []int64{700})
		synctest.Wait()
		w.fall(lost)
		if v := w.reserve("r1", line(tpm, 60)); v.Outcome != budget.Granted || v.Lines[0].Remaining != 40 {
			t.Errorf("got %+v, want granted with 40 left", v)
		}
		if v := w.reserve("r2", line(tpm, 60)); v.Outcome != budget.Exceeded || v.Binding != 0 {
			t.Errorf("got %+v, want exceeded", v)
		}
		w.Settle("r1", []int64{20})
		if v := w.reserve("r3", line(tpm, 80)); v.Outcome != budget.Granted {
			t.Errorf("got %+v, want granted: what r1 did not use is back", v)
		}
		w.Settle("r3", []int64{80})
		w.rise()
		w.wantCharged(800, 0)
		w.end()
	})
}

func TestTheShareOfSlotsCountsThoseTheStoreGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		for i := range 3 {
			w.reserve(fmt.Sprint("before-", i), usual()...)
		}
		w.fall(lost)
		if v := w.reserve("r1", usual()...); v.Outcome != budget.Granted || v.Lines[2].Remaining != 0 {
			t.Errorf("got %+v, want the fourth and last of 12/3 slots", v)
		}
		if v := w.reserve("r2", usual()...); v.Outcome != budget.NoSlot || v.Binding != 2 {
			t.Errorf("got %+v, want no slot", v)
		}
		w.Settle("before-0", used(10))
		if v := w.reserve("r3", usual()...); v.Outcome != budget.Granted {
			t.Errorf("got %+v, want the slot that was settled", v)
		}
		if v := w.reserve("r4", line(tpm, 333), line(rpm, 1), line(slots, 1)); v.Outcome != budget.Exceeded || v.Binding != 0 {
			t.Errorf("got %+v, want the rate named, not the slot", v)
		}
		for _, id := range []string{"before-1", "before-2", "r1", "r3"} {
			w.Settle(id, used(10))
		}
		w.rise()
		w.wantCharged(50, 5)
		w.end()
	})
}

func TestARefusalWithoutTheStoreTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.fall(lost)
		for i := range 20 {
			if v := w.reserve(fmt.Sprint("big-", i), line(slots, 1), line(tpm, 900)); v.Outcome == budget.Granted {
				t.Errorf("got %+v, want refused", v)
			}
			if v := w.reserve(fmt.Sprint("closed-", i), line(slots, 1), line(tpm, 300), line(money, 1)); v.Outcome == budget.Granted {
				t.Errorf("got %+v, want refused", v)
			}
		}
		if v := w.reserve("r1", line(tpm, 333), line(slots, 1)); v.Outcome != budget.Granted || v.Lines[1].Remaining != 3 {
			t.Errorf("got %+v, want the whole share and the first of four slots", v)
		}
		w.Settle("r1", []int64{0, 1})
		w.rise()
		w.wantCharged(0, 0)
		w.end()
	})
}

func TestAnIDTriedAgainIsNotCancelledWithItsLostAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.faults.all(replyLost)
		w.reserve("r1", line(money, 5))
		w.faults.set(nil)
		if v := w.reserve("r1", line(money, 5)); v.Outcome != budget.Granted || !v.Repeated {
			t.Errorf("got %+v, want granted, and charged once", v)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := fmt.Sprint(w.ledger.open()); got != "[r1]" {
			t.Errorf("got %v open, want r1", got)
		}
		if got := w.Unwritten(); got != 0 {
			t.Errorf("got %d unwritten, want 0", got)
		}
		w.Settle("r1", []int64{4})
		synctest.Wait()
		if got := w.ledger.charged(line(money, 0)); got != 4 {
			t.Errorf("got %d charged, want 4", got)
		}
		w.end()
	})
}

func TestWhatIsOpenWhenTheStoreReturnsHoldsItsPlaceThere(t *testing.T) {
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

func TestACallWithoutAnAnswerCountsAsNotGranted(t *testing.T) {
	for what, f := range map[string]fault{
		"the reply is lost": replyLost, "it is applied 100 ms late": barelyLate, "it is applied half a second late": late, "ten seconds late": veryLate,
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				w.faults.all(f)
				v := w.reserve("r1", line(money, 100))
				w.faults.set(nil)
				if v.Outcome != budget.Unavailable {
					t.Errorf("got %+v, want unavailable", v)
				}
				if !w.Up() {
					t.Error("got down after one failure, want up")
				}
				time.Sleep(20 * time.Second)
				synctest.Wait()
				if got := w.ledger.charged(line(money, 0)); got != 0 {
					t.Errorf("got %d charged, want 0", got)
				}
				w.wantCharged(0, 0)
				w.end()
			})
		})
	}
}
