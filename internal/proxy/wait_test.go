package proxy

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"llmgw/internal/budget"
)

func waitable(name string) budget.Line {
	l := teamTPM()
	l.Name, l.Wait, l.MaxWait = name, true, time.Minute
	return budget.Line{Limit: l, Amount: 1}
}

func isFirst(t *ticket) bool {
	select {
	case <-t.first:
		return true
	default:
		return false
	}
}

func TestOnlyTheFirstOfALineAsks(t *testing.T) {
	r := newWaitroom()
	c := counterOf(waitable("tpm"))
	a, b, d := r.join(c, 10), r.join(c, 10), r.join(c, 10)
	if !isFirst(a) || isFirst(b) || isFirst(d) {
		t.Fatal("want the first alone to ask")
	}
	r.leave(c, b) // leaving from the middle is free
	if isFirst(d) {
		t.Fatal("the third asks while the first still waits")
	}
	r.leave(c, a)
	if !isFirst(d) {
		t.Fatal("the third does not ask though all before it left")
	}
	r.leave(c, d)
	r.leave(c, d) // twice is harmless
	if r.waiting != 0 || len(r.queues) != 0 {
		t.Errorf("got %d waiting in %d lines after all left", r.waiting, len(r.queues))
	}
}

func TestTheRoomIsBoundedOverAllLines(t *testing.T) {
	r := newWaitroom()
	if r.join(counterOf(waitable("a")), 2) == nil || r.join(counterOf(waitable("b")), 2) == nil {
		t.Fatal("want room for two")
	}
	if r.join(counterOf(waitable("c")), 2) != nil {
		t.Error("got a third place in a room for two")
	}
}

func TestANewcomerDoesNotOvertake(t *testing.T) {
	r := newWaitroom()
	tpm, rpm := waitable("tpm"), waitable("rpm")
	if _, queued := r.ahead([]budget.Line{tpm, rpm}); queued {
		t.Fatal("nobody waits and a newcomer is sent to wait")
	}
	r.join(counterOf(rpm), 10)
	c, queued := r.ahead([]budget.Line{tpm, rpm})
	if !queued || c != counterOf(rpm) {
		t.Errorf("got %v, %v, want the line that others wait in", c, queued)
	}
	if _, queued := r.ahead([]budget.Line{tpm}); queued {
		t.Error("a request that does not draw on the limit is sent to wait for it")
	}
}

func TestWhatComesBackWakesTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newWaitroom()
		line := waitable("slots")
		ticket := r.join(counterOf(line), 10)
		began := time.Now()
		go func() {
			time.Sleep(time.Second)
			r.wake([]budget.Line{line})
		}()
		if err := ticket.sleep(context.Background(), time.Minute); err != nil {
			t.Fatal(err)
		}
		if got := time.Since(began); got != time.Second {
			t.Errorf("woke after %v, want the second after which a slot came back", got)
		}
	})
}

func TestALeavingClientEndsItsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		ticket := newWaitroom().join(counterOf(waitable("tpm")), 1)
		began := time.Now()
		if err := ticket.sleep(ctx, time.Hour); err == nil || time.Since(began) != 2*time.Second {
			t.Errorf("got %v after %v, want the client's end after 2s", err, time.Since(began))
		}
	})
}

func TestPatienceIsTheShortestOfWhatRefuses(t *testing.T) {
	wait := func(d time.Duration) budget.Line {
		l := waitable("l")
		limit := *l.Limit
		limit.MaxWait = d
		limit.Wait = d > 0
		return budget.Line{Limit: &limit}
	}
	over := budget.LineState{Outcome: budget.Exceeded, Wait: time.Second}
	for _, s := range []struct {
		what   string
		lines  []budget.Line
		states []budget.LineState
		client time.Duration
		want   time.Duration
	}{
		{"one that waits", []budget.Line{wait(10 * time.Second)}, []budget.LineState{over}, -1, 10 * time.Second},
		{"the shorter of two", []budget.Line{wait(10 * time.Second), wait(3 * time.Second)}, []budget.LineState{over, over}, -1, 3 * time.Second},
		{"what fits has no say", []budget.Line{wait(10 * time.Second), wait(0)}, []budget.LineState{over, {}}, -1, 10 * time.Second},
		{"one that rejects", []budget.Line{wait(10 * time.Second), wait(0)}, []budget.LineState{over, over}, -1, 0},
		{"the client's word shortens", []budget.Line{wait(10 * time.Second)}, []budget.LineState{over}, 2 * time.Second, 2 * time.Second},
		{"and never lengthens", []budget.Line{wait(10 * time.Second)}, []budget.LineState{over}, time.Hour, 10 * time.Second},
		{"what never fits is not waited for", []budget.Line{wait(10 * time.Second)}, []budget.LineState{{Outcome: budget.NeverFits}}, -1, 0},
	} {
		p := &plan{lines: s.lines, maxWait: s.client}
		if got, _ := patience(p, budget.Verdict{Lines: s.states}); got != s.want {
			t.Errorf("%s: got %v, want %v", s.what, got, s.want)
		}
	}
}

func TestThousandsAreParted(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := grouped(n); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
