package failover

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"llmgw/internal/budget"
)

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

func TestAFencedEpochIsRenewedAndTheRequestTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.ledger.fenced["gw.0"] = true
		v := w.reserve("r1", usual()...)
		if v.Outcome != budget.Granted || v.Degraded {
			t.Errorf("got %+v, want granted by the store", v)
		}
		if got := w.keeper.Epoch(); got != "gw.1" {
			t.Errorf("got epoch %s, want gw.1", got)
		}
		if got := w.faults.count("reserve"); got != 2 {
			t.Errorf("got %d calls, want 2", got)
		}
		w.Settle("r1", used(1))
		synctest.Wait()
		w.wantCharged(1, 1)
		w.end()
	})
}

func TestARequestThatComesTooLateByTheStoresClockAsksForTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *Config) { c.Keeper = &slowClock{c.Keeper.(*fixedKeeper)} })
		if v := w.reserve("r1", line(money, 1)); v.Outcome != budget.Unavailable {
			t.Errorf("got %+v, want what a closed limit says without the store", v)
		}
		if w.keeper.beats != 1 {
			t.Errorf("got %d beats asked for, want 1", w.keeper.beats)
		}
		if !w.Up() || w.Unwritten() != 0 {
			t.Error("an answer was taken for a failure")
		}
		w.end()
	})
}

// slowClock is a keeper that is an hour behind.
type slowClock struct{ *fixedKeeper }

func (k *slowClock) Now() time.Time { return k.fixedKeeper.Now().Add(-time.Hour) }

// A process that has too much to do must not lose its limits by it: nothing is
// granted without the store, and the store counts as up.
func TestAnOverloadOfThisProcessIsNoOutageOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.faults.all(overload)
		for i := range 10 {
			if v := w.reserve(fmt.Sprint("r", i), line(loose, 1)); v.Outcome != budget.Unavailable {
				t.Errorf("an open limit: got %+v, want unavailable", v)
			}
		}
		if !w.Up() {
			t.Error("got down, want up")
		}
		w.faults.set(nil)
		if v := w.reserve("after", line(money, 1)); v.Outcome != budget.Granted {
			t.Errorf("got %+v, want granted", v)
		}
		w.Settle("after", []int64{1})
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := w.ledger.open(); len(got) != 0 {
			t.Errorf("got %v open, want none", got)
		}
		w.end()
	})
}

func TestWhatCannotBeAskedIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.reserve("r1", line(tpm, 10))
		for what, n := range map[string]int64{"an id with another amount": 11, "a negative amount": -1, "an absurd amount": 1 << 60} {
			if v := w.reserve("r1", line(tpm, n)); v.Outcome != budget.Unavailable || v.Binding != 0 || len(v.Lines) != 1 {
				t.Errorf("%s: got %+v, want unavailable, by its first line", what, v)
			}
		}
		if !w.Up() {
			t.Error("got down, want up: the store has answered")
		}
		w.Settle("r1", []int64{10})
		w.end()
	})
}

func TestAClientThatLeavesDoesNotEndItsReservationsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		v := w.Reserve(ctx, budget.Request{ID: "r1", Lines: usual()})
		if v.Outcome != budget.Granted || v.Degraded {
			t.Errorf("got %+v, want the store's answer", v)
		}
		w.Settle("r1", used(1))
		synctest.Wait()
		w.wantCharged(1, 1)
		w.end()
	})
}

func TestAnAbsurdAmountIsRefusedByAnOpenLimitToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.fall(lost)
		if v := w.reserve("r1", line(loose, -1)); v.Outcome != budget.Unavailable {
			t.Errorf("got %+v, want unavailable", v)
		}
		w.end()
	})
}
