package proxy

import (
	"testing"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/charge"
)

func waitable(name string) budget.Line {
	l := teamTPM()
	l.Name, l.Wait, l.MaxWait = name, true, time.Minute
	return budget.Line{Limit: l, Amount: 1}
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
		p := &plan{Plan: charge.Plan{Lines: s.lines}, maxWait: s.client}
		if got, _ := patience(p, budget.Verdict{Lines: s.states}); got != s.want {
			t.Errorf("%s: got %v, want %v", s.what, got, s.want)
		}
	}
}
