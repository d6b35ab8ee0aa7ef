package failover

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"llmgw/internal/budget"
)

func TestS30_ALimitsPolicyDecidesWhileTheStoreIsDown(t *testing.T) {
	shadow := limit("shadow", budget.Tokens, 10, budget.Closed)
	shadow.Mode = budget.Shadow
	for _, s := range []struct {
		what    string
		lines   []budget.Line
		outcome budget.Outcome
		binding int
	}{
		{"a closed limit refuses", []budget.Line{line(tpm, 1), line(money, 1)}, budget.Unavailable, 1},
		{"a closed limit of slots refuses", []budget.Line{line(tpm, 1), line(seats, 1)}, budget.Unavailable, 1},
		{"of several closed limits one is named", []budget.Line{line(seats, 1), line(money, 1)}, budget.Unavailable, 0},
		{"an open limit of slots grants", []budget.Line{line(door, 1)}, budget.Granted, -1},
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

func TestS31_AShareStartsFromWhatWasLastSeen(t *testing.T) {
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

// What another gateway's newer file has put in force is what is shared out when the
// store goes away, until this gateway has a newer file itself.
func TestAShareIsOfTheAmountInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		more, own := *tpm, *tpm
		more.Amount, more.Burst = 3000, 3000
		own.Amount, own.Burst, own.Version = 600, 600, tpm.Version+1
		w.ledger.newer = map[string]*budget.Limit{counterName(line(tpm, 0)): &more}
		w.reserve("before", line(tpm, 1))
		w.Settle("before", []int64{1})
		if d := w.Drifted(); len(d) != 1 {
			t.Errorf("got %v, want the one limit to have drifted", d)
		}
		synctest.Wait()
		w.fall(lost)
		v := w.reserve("r1", line(tpm, 900))
		if st := v.Lines[0]; v.Outcome != budget.Granted || st.Capacity != 1000 || st.Amount != 3000 || st.Burst != 3000 {
			t.Errorf("got %+v, want a third of 3000", v)
		}
		if v := w.reserve("r2", line(tpm, 2900)); v.Outcome != budget.Unavailable {
			t.Errorf("got %+v, want unavailable: the store may grant it", v)
		}
		v = w.reserve("r3", line(&own, 250))
		if st := v.Lines[0]; v.Outcome != budget.Unavailable || own.Drifts(st) {
			t.Errorf("got %+v, want a third of the newer file's 600 to be too little", v)
		}
		if v := w.reserve("r4", line(&own, 700)); v.Outcome != budget.NeverFits {
			t.Errorf("got %+v, want never: it is more than the newer file has", v)
		}
		w.Settle("r1", []int64{900})
		w.rise()
		w.end()
	})
}

// Whatever refuses, a line tells what this gateway would still grant of it, and
// not what all gateways had together: the rest is the others'.
func TestWhileTheStoreIsDownLinesTellWhatThisGatewayGrants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.reserve("before", line(tpm, 700), line(money, 1)) // 300 left: 100 for each of three
		w.fall(lost)
		w.reserve("here", line(tpm, 30), line(slots, 1)) // 70 and 3 of 12/3 left here
		for _, s := range []struct {
			what    string
			lines   []budget.Line
			outcome budget.Outcome
			left    []int64
		}{
			{"a closed limit", []budget.Line{line(tpm, 1), line(slots, 1), line(money, 1)}, budget.Unavailable, []int64{70, 3, 0}},
			{"too little in the share", []budget.Line{line(tpm, 71), line(slots, 1)}, budget.Exceeded, []int64{70, 3}},
			{"more than a share can ever have", []budget.Line{line(tpm, 334), line(slots, 1)}, budget.Unavailable, []int64{70, 3}},
			{"more than the limit can ever have", []budget.Line{line(tpm, 1001), line(slots, 1)}, budget.NeverFits, []int64{70, 3}},
		} {
			v := w.reserve(s.what, s.lines...)
			if v.Outcome != s.outcome {
				t.Errorf("%s: got %+v, want outcome %v", s.what, v, s.outcome)
			}
			for i, want := range s.left {
				if got := v.Lines[i].Remaining; got != want {
					t.Errorf("%s: got %d left of line %d, want %d", s.what, got, i, want)
				}
				if l := v.Lines[i]; l.Outcome == budget.Unavailable && (l.Wait <= 0 || l.Reset <= 0) {
					t.Errorf("%s: got %+v, want line %d not to have all at once what it has nothing of", s.what, l, i)
				}
			}
		}
		if v := w.reserve("rest", line(tpm, 70)); v.Outcome != budget.Granted || v.Lines[0].Remaining != 0 {
			t.Errorf("got %+v, want the 70 that were told", v)
		}
		for _, id := range []string{"before", "here", "rest"} {
			w.Settle(id, []int64{0, 0})
		}
		w.rise()
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

func TestCorrectionsReachTheStoreAndTheShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.Correct(budget.Correction{Line: line(tpm, 0), AtMost: 600})
		w.Correct(budget.Correction{Line: line(tpm, 0), AtMost: 800})
		synctest.Wait()
		if got := w.ledger.charged(line(tpm, 0)); got != 400 {
			t.Errorf("got %d charged, want 400: the level is at most 600", got)
		}
		w.fall(lost)
		w.Correct(budget.Correction{Line: line(tpm, 0), AtMost: 90})
		if v := w.reserve("r1", line(tpm, 31)); v.Outcome != budget.Exceeded {
			t.Errorf("got %+v, want exceeded: a third of 90 is 30", v)
		}
		w.Correct(budget.Correction{Line: line(tpm, 0), AtMost: -1, Pause: time.Minute})
		if v := w.reserve("r2", line(tpm, 1)); v.Outcome != budget.Exceeded {
			t.Errorf("got %+v, want exceeded: paused", v)
		}
		w.end()
	})
}

// F1: no goroutine and no record for each request while the store is down.
func TestAnOutageDoesNotGrowTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.fall(lost)
		synctest.Wait()
		before := runtime.NumGoroutine()
		for i := range 10_000 {
			id := fmt.Sprint(i)
			w.reserve(id, usual()...)
			w.Settle(id, used(0))
		}
		if after := runtime.NumGoroutine(); after > before {
			t.Errorf("got %d goroutines after an outage of 10,000 requests, %d before", after, before)
		}
		if got := w.Unwritten(); got > 20 {
			t.Errorf("got %d things to write, want them summed by counter", got)
		}
		w.end()
	})
}

func TestAForcedReservationIsGrantedAndChargedWithoutTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.fall(lost)
		for i := range 6 { // of four slots
			v := w.Reserve(context.Background(), budget.Request{
				ID: fmt.Sprint(i), Force: true, Lines: []budget.Line{line(tpm, 900), line(money, 5), line(slots, 1)},
			})
			if v.Outcome != budget.Granted {
				t.Errorf("got %+v, want granted: forced", v)
			}
			w.Settle(fmt.Sprint(i), []int64{10, 5, 1})
			w.Reserve(context.Background(), budget.Request{ID: fmt.Sprint("held-", i), Force: true, Lines: []budget.Line{line(slots, 1)}})
		}
		for i := range 6 {
			w.Settle(fmt.Sprint("held-", i), []int64{1})
		}
		w.rise()
		w.wantCharged(60, 0)
		if got := w.ledger.charged(line(money, 0)); got != 30 {
			t.Errorf("got %d charged of the closed limit, want 30", got)
		}
		w.end()
	})
}

func TestALevelThatMustHaveRefilledCountsAsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.reserve("before", line(tpm, 1000))
		w.Settle("before", []int64{1000})
		time.Sleep(time.Hour) // the ledger says that this refills it
		w.fall(lost)
		if v := w.reserve("r1", line(tpm, 333)); v.Outcome != budget.Granted {
			t.Errorf("got %+v, want the whole share", v)
		}
		w.Settle("r1", []int64{0})
		w.end()
	})
}

func TestFailuresOneByOneShareOneSpell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		alone := func(id string, n int64) budget.Verdict {
			w.faults.all(lost)
			v := w.reserve(id, line(tpm, n))
			w.faults.set(nil)
			w.Settle(id, []int64{n})
			synctest.Wait()
			w.reserve("between-"+id, line(rpm, 1))
			w.Settle("between-"+id, []int64{0})
			time.Sleep(100 * time.Millisecond)
			return v
		}
		if v := alone("r1", 300); v.Outcome != budget.Granted {
			t.Errorf("got %+v, want granted of a share of 333", v)
		}
		if v := alone("r2", 200); v.Outcome != budget.Exceeded {
			t.Errorf("got %+v, want exceeded: the share does not start anew", v)
		}
		time.Sleep(2 * time.Second)
		if v := alone("r3", 200); v.Outcome != budget.Granted {
			t.Errorf("got %+v, want granted: that trouble is over", v)
		}
		if !w.Up() {
			t.Error("got down, want up")
		}
		w.rise()
		w.wantCharged(500, 0)
		w.end()
	})
}

// A store that answers probes and fails all the rest is asked less and less.
func TestAStoreThatKeepsFallingIsProbedLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *Config) { c.Store = &flapping{c.Store} })
		for i := range 3000 {
			w.reserve(fmt.Sprint(i), line(money, 1))
			time.Sleep(10 * time.Millisecond)
		}
		w.seen.mu.Lock()
		got := len(w.seen.ups)
		w.seen.mu.Unlock()
		if got > 80 {
			t.Errorf("got %d transitions in 30 s, want about two a second at most", got)
		}
		w.end()
	})
}

// flapping is a store that grants nothing but probes.
type flapping struct{ budget.Store }

func (f *flapping) Reserve(ctx context.Context, r budget.Request) (budget.Verdict, error) {
	if !strings.HasPrefix(r.ID, "probe-") {
		return budget.Verdict{}, errors.New("ERR no such function")
	}
	return f.Store.Reserve(ctx, r)
}
