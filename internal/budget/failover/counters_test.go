package failover

import (
	"fmt"
	"testing"
	"time"

	"llmgw/internal/budget"
)

func TestCountersAreBoundedAndThoseWithSlotsStay(t *testing.T) {
	var c counters
	c.init()
	user := limit("user-slots", budget.Concurrency, 5, budget.Local)
	held := make([]budget.Line, 100)
	for i := range held {
		held[i] = budget.Line{Limit: user, Value: fmt.Sprint("held-", i), Amount: 1}
		c.hold(held[i], 1)
	}
	now := time.Now()
	for i := range 2 * maxCounters {
		c.see(budget.Line{Limit: user, Value: fmt.Sprint(i)}, budget.LineState{Remaining: 3}, now)
	}
	n := 0
	for i := range c.shards {
		n += len(c.shards[i].m)
	}
	if n > maxCounters+100 {
		t.Errorf("got %d counters, want at most %d", n, maxCounters)
	}
	for _, l := range held {
		if ok, _ := c.take(l, 1); ok {
			t.Fatalf("%s: its slot was forgotten", l.Value)
		}
	}
}

func TestASharesNumbersAreParts(t *testing.T) {
	for _, s := range []struct {
		what      string
		live      int64
		of, share budget.Limit
	}{
		{"a third of everything", 3,
			budget.Limit{Amount: 100, Burst: 50, Candidate: 31, MaxDebt: 1000},
			budget.Limit{Amount: 33, Burst: 16, Candidate: 10, MaxDebt: 333}},
		{"never less than 1", 9,
			budget.Limit{Amount: 2, Burst: 3, Candidate: 1, MaxDebt: 4},
			budget.Limit{Amount: 1, Burst: 1, Candidate: 1, MaxDebt: 1}},
		{"none of what there is none of", 3,
			budget.Limit{Amount: 30, UnboundedDebt: true},
			budget.Limit{Amount: 10, UnboundedDebt: true}},
		{"all, alone", 1,
			budget.Limit{Amount: 7, Burst: 8, Candidate: 9, MaxDebt: 10},
			budget.Limit{Amount: 7, Burst: 8, Candidate: 9, MaxDebt: 10}},
	} {
		sp := outage{live: s.live, shares: map[*budget.Limit]*budget.Limit{}}
		s.of.Algorithm, s.of.Period = budget.TokenBucket, budget.Minute
		got := sp.share(&s.of, budget.LineState{})
		if w := s.share; got.Amount != w.Amount || got.Burst != w.Burst || got.Candidate != w.Candidate || got.MaxDebt != w.MaxDebt || got.UnboundedDebt != w.UnboundedDebt {
			t.Errorf("%s: got %+v, want %+v", s.what, *got, s.share)
		}
	}
}

func TestCorrectionsThatWaitAreJoinedToTheStricter(t *testing.T) {
	var q corrections
	q.init()
	q.put(budget.Correction{Line: line(tpm, 0), AtMost: -1, Pause: time.Minute})
	q.put(budget.Correction{Line: line(tpm, 0), AtMost: 50})
	q.put(budget.Correction{Line: line(tpm, 0), AtMost: 70, Pause: time.Second})
	q.put(budget.Correction{Line: line(tpm, 0), AtMost: -1})
	got := q.take()
	if len(got) != 1 || got[0].AtMost != 50 || got[0].Pause != time.Minute {
		t.Errorf("got %+v, want one: at most 50, paused for a minute", got)
	}
	for i := range 2 * maxCorrections {
		q.put(budget.Correction{Line: budget.Line{Limit: tpm, Value: fmt.Sprint(i)}})
	}
	if got := len(q.take()); got != maxCorrections {
		t.Errorf("got %d waiting, want %d", got, maxCorrections)
	}
}
