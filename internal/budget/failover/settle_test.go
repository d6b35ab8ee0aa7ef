package failover

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"llmgw/internal/budget"
)

// F9: the store is away when requests end, and only then.
func TestWhatEndsWhileTheStoreIsAwayIsSettledWhenItReturns(t *testing.T) {
	for what, f := range map[string]fault{
		"frozen": lost, "losing replies": replyLost, "late": late, "refusing": refused, "read-only": readonly,
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				for i := range 10 {
					w.reserve(fmt.Sprint(i), usual()...)
				}
				w.faults.all(f)
				for i := range 10 {
					start := time.Now()
					w.Settle(fmt.Sprint(i), used(int64(i)))
					if took := time.Since(start); took != 0 {
						t.Errorf("settling took %v, want it not to block", took)
					}
				}
				time.Sleep(time.Minute)
				if w.Up() {
					t.Error("got up, want down: the settlements failed")
				}
				if got := w.Unwritten(); got != 10 {
					t.Errorf("got %d unwritten, want 10", got)
				}
				w.rise()
				w.wantCharged(45, 10)
				if got := w.Unwritten(); got != 0 {
					t.Errorf("got %d unwritten, want 0", got)
				}
				w.end()
			})
		})
	}
}

// F10: 5,000 requests end while Redis is paused for a second.
func TestABurstOfSettlementsIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		big := limit("big", budget.Tokens, 1e9, budget.Local)
		w := newWorld(t, nil)
		for i := range 5000 {
			w.reserve(fmt.Sprint(i), line(big, 1000))
		}
		w.faults.all(lost)
		for i := range 5000 {
			w.Settle(fmt.Sprint(i), []int64{1})
		}
		time.Sleep(time.Second)
		w.rise()
		if got := w.ledger.charged(line(big, 0)); got != 5000 {
			t.Errorf("got %d charged, want 5000", got)
		}
		if got := w.ledger.open(); len(got) != 0 {
			t.Errorf("got %d open, want 0", len(got))
		}
		if got := w.ledger.settles; got > 5000/batchSize+20 {
			t.Errorf("got %d calls to settle 5000, want batches of %d", got, batchSize)
		}
		w.end()
	})
}

func TestAFullQueueDropsAndTellsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *Config) { c.Queue = 4 })
		for i := range 10 {
			w.reserve(fmt.Sprint(i), line(tpm, 10))
		}
		w.faults.all(lost)
		for i := range 10 {
			w.Settle(fmt.Sprint(i), []int64{5})
		}
		if got := w.seen.result("dropped"); got != 6 {
			t.Errorf("got %d dropped, want 6", got)
		}
		if got := strings.Count(w.log.String(), "is full"); got != 1 {
			t.Errorf("got %d lines about the full queue, want 1:\n%s", got, w.log)
		}
		if got := w.Open(); got != 4 {
			t.Errorf("got %d open, want the 4 whose end the store is yet to be told", got)
		}
		w.rise()
		if got := w.Open(); got != 0 {
			t.Errorf("got %d open once it has been told, want 0", got)
		}
		if got := w.ledger.charged(line(tpm, 0)); got != 4*5+6*10 {
			t.Errorf("got %d charged, want what was settled and, of the six dropped, what was reserved", got)
		}
		for _, id := range w.ledger.open() {
			if w.Has(id) {
				t.Errorf("%s was dropped and is still known: no comparison would end it", id)
			}
		}
		w.reserve("again", line(tpm, 10))
		w.Settle("again", []int64{5})
		synctest.Wait()
		if w.Has("again") {
			t.Error("the queue did not empty")
		}
		w.end()
	})
}

func TestASettlementThatTheStoreCannotMakeDoesNotBlockTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *Config) { c.Store = &picky{c.Store, "bad"} })
		w.reserve("bad", usual()...)
		for i := range 5 {
			w.reserve(fmt.Sprint(i), usual()...)
			w.Settle(fmt.Sprint(i), used(1))
		}
		w.Settle("bad", used(1))
		for i := range 90 {
			time.Sleep(time.Second)
			if v := w.reserve(fmt.Sprint("later-", i), usual()...); v.Degraded {
				t.Error("one bad settlement took the store out of use")
			}
			w.Settle(fmt.Sprint("later-", i), used(1))
		}
		w.rise()
		if got := w.ledger.charged(line(tpm, 0)); got != 5+90+100 {
			t.Errorf("got %d charged, want the others' use and what the bad one reserved", got)
		}
		if w.Has("bad") || !strings.Contains(w.log.String(), "cannot settle") {
			t.Error("the bad one was not given up and told")
		}
		w.end()
	})
}

// picky is a store that cannot settle one id.
type picky struct {
	budget.Store
	id string
}

func (p *picky) Enqueue(s budget.Settlement, done func(budget.Settled, error)) {
	settleSoon(p, s, done)
}

func (p *picky) Settle(ctx context.Context, list []budget.Settlement) ([]budget.Settled, error) {
	for _, s := range list {
		if s.ID == p.id {
			return nil, errors.New("ERR wrong number of args")
		}
	}
	return p.Store.Settle(ctx, list)
}

func TestClosingWritesEverythingAndRetires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.reserve("r1", usual()...)
		w.reserve("r2", usual()...)
		w.fall(lost)
		w.Settle("r1", used(10))
		w.reserve("r3", usual()...)
		w.Settle("r3", used(5))
		go func() {
			time.Sleep(3 * time.Second)
			w.faults.set(nil)
		}()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := w.Close(ctx); err != nil {
			t.Error(err)
		}
		if got := w.ledger.charged(line(tpm, 0)); got != 10+5+100 {
			t.Errorf("got %d charged, want 115: r2 is still open", got)
		}
		if got := fmt.Sprint(w.ledger.retired); got != "[gw.0]" {
			t.Errorf("got %v retired, want the epoch", got)
		}
		if v := w.reserve("r4", line(loose, 1)); v.Outcome != budget.Unavailable || v.Binding != 0 || len(v.Lines) != 1 {
			t.Errorf("got %+v after closing, want unavailable, by its first line", v)
		}
		w.Settle("r2", used(1)) // too late, and without effect
	})
}

func TestClosingSaysHowManyCouldNotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.reserve("r1", usual()...)
		w.reserve("r2", usual()...)
		w.faults.all(lost)
		w.Settle("r1", used(10))
		w.Settle("r2", used(10))
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		start := time.Now()
		err := w.Close(ctx)
		if err == nil || !strings.Contains(err.Error(), "2 settlements could not be written") || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want an error that counts two", err)
		}
		if took := time.Since(start); took > 6*time.Second {
			t.Errorf("closing took %v, want what its context allows", took)
		}
	})
}

func TestReportsAreSentTogetherAndOnlyOfWhatChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		for _, id := range []string{"r1", "r2", "quiet"} {
			w.reserve(id, usual()...)
		}
		for n := range int64(50) {
			w.Report("r1", used(n))
			w.Report("r2", used(2*n))
			w.Report("nobody", used(n))
		}
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if got := w.faults.count("report"); got != 1 {
			t.Errorf("got %d calls, want 1", got)
		}
		got := map[string]string{}
		for _, p := range w.ledger.reports {
			got[p.ID] = fmt.Sprint(p.Used)
		}
		if want := map[string]string{"r1": "[49 1 1]", "r2": "[98 1 1]"}; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %v, want %v", got, want)
		}
		w.faults.all(lost)
		w.Report("r1", used(60))
		time.Sleep(4 * time.Second)
		w.faults.set(nil)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if last := w.ledger.reports[len(w.ledger.reports)-1]; last.ID != "r1" || last.Used[0] != 60 {
			t.Errorf("got %+v last, want r1's 60 although the first try was lost", last)
		}
		for _, id := range []string{"r1", "r2", "quiet"} {
			w.Settle(id, used(1))
		}
		w.end()
	})
}

// queued is a store that takes settlements in the order of its calls.
type queued struct {
	*faulty
	settlements chan func()
	done        sync.WaitGroup
}

func (q *queued) Enqueue(s budget.Settlement, done func(budget.Settled, error)) {
	q.settlements <- func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		out, err := q.Settle(ctx, []budget.Settlement{s})
		if err != nil {
			out = make([]budget.Settled, 1)
		}
		done(out[0], err)
	}
}

func (q *queued) serve() {
	for settle := range q.settlements {
		settle()
	}
}

func TestAStoreThatQueuesSettlementsIsGivenThemOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q *queued
		w := newWorld(t, func(c *Config) {
			q = &queued{faulty: c.Store.(*faulty), settlements: make(chan func(), 100)}
			c.Store = q
		})
		q.done.Go(q.serve)
		for i := range 5 {
			w.reserve(fmt.Sprint(i), usual()...)
			w.Settle(fmt.Sprint(i), used(2))
		}
		synctest.Wait()
		w.wantCharged(10, 5)
		if got := w.ledger.settles; got != 5 {
			t.Errorf("got %d calls, want 5", got)
		}

		w.reserve("r1", usual()...)
		w.reserve("r2", usual()...)
		w.faults.all(lost)
		w.Settle("r1", used(3)) // fails, and is settled by the worker
		time.Sleep(time.Minute)
		if w.Up() {
			t.Fatal("got up, want down")
		}
		calls := w.faults.count("settle")
		w.Settle("r2", used(4)) // is not even tried
		synctest.Wait()
		if got := w.faults.count("settle"); got != calls {
			t.Errorf("got %d calls while the store is down, want none", got-calls)
		}
		w.rise()
		w.wantCharged(17, 7)
		w.end()
		close(q.settlements)
		q.done.Wait()
	})
}

func TestWhatHasEndedIsNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.reserve("r1", usual()...)
		w.Report("r1", used(5))
		w.Settle("r1", used(6))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := w.faults.count("report"); got != 0 {
			t.Errorf("got %d reports, want none", got)
		}
		w.end()
	})
}
