package budget

import (
	"math"
	"testing"
	"time"
)

func TestTheLineThatBindsIsTheOneThatWaitsLongest(t *testing.T) {
	enforced, shadow := &Limit{Mode: Enforce}, &Limit{Mode: Shadow}
	s := time.Second
	for _, c := range []struct {
		what    string
		states  []LineState
		shadow  int // this line is in shadow; -1: none
		out     Outcome
		binding int
		wait    time.Duration
	}{
		{"nothing refuses", []LineState{{}, {}}, -1, Granted, -1, 0},
		{"one refuses", []LineState{{}, {Outcome: Exceeded, Wait: s}}, -1, Exceeded, 1, s},
		{"the longer wait", []LineState{{Outcome: Exceeded, Wait: s}, {Outcome: Spent, Wait: 2 * s}, {Outcome: Exceeded, Wait: s}}, -1, Spent, 1, 2 * s},
		{"of equals the first", []LineState{{Outcome: Exceeded, Wait: s}, {Outcome: HeldBack, Wait: s}}, -1, Exceeded, 0, s},
		{"a slot last", []LineState{{Outcome: NoSlot}, {Outcome: Exceeded, Wait: s}, {Outcome: NoSlot}}, -1, Exceeded, 1, s},
		{"a slot alone", []LineState{{}, {Outcome: NoSlot}, {Outcome: NoSlot}}, -1, NoSlot, 1, 0},
		{"what never fits first", []LineState{{Outcome: Spent, Wait: s}, {Outcome: NeverFits}, {Outcome: NeverFits}, {Outcome: Spent, Wait: 9 * s}}, -1, NeverFits, 1, 0},
		{"a shadow line does not count", []LineState{{Outcome: NeverFits}, {Outcome: Exceeded, Wait: s}}, 0, Exceeded, 1, s},
	} {
		r := &Request{}
		for i := range c.states {
			l := enforced
			if i == c.shadow {
				l = shadow
			}
			r.Lines = append(r.Lines, Line{Limit: l})
		}
		out, binding, wait := Decide(r, c.states)
		if out != c.out || binding != c.binding || wait != c.wait {
			t.Errorf("%s: got %v of line %d after %v, want %v of line %d after %v", c.what, out, binding, wait, c.out, c.binding, c.wait)
		}
		for _, free := range []*Request{{Lines: r.Lines, Shadow: true}, {Lines: r.Lines, Force: true}} {
			if out, _, _ := Decide(free, c.states); out != Granted {
				t.Errorf("%s, in shadow or by force: got %v, want it granted", c.what, out)
			}
		}
	}
}

func TestMillisecondsAndDurationsConvertWithoutLosingAWait(t *testing.T) {
	for d, want := range map[time.Duration]int64{0: 0, 1: 1, time.Millisecond: 1, time.Millisecond + 1: 2, 3 * time.Second: 3000} {
		if got := CeilMS(d); got != want {
			t.Errorf("%v: got %d ms, want %d", d, got, want)
		}
	}
	if got := Millis(MaxExact); got != math.MaxInt64 {
		t.Errorf("a wait beyond every duration: got %v", got)
	}
	if got := Millis(1500); got != 1500*time.Millisecond {
		t.Errorf("got %v, want 1.5s", got)
	}
}

func TestARequestWithAnAmountBeyondCountingIsNotValid(t *testing.T) {
	for amount, want := range map[int64]bool{-1: false, 0: true, MaxExact: true, MaxExact + 1: false} {
		r := &Request{Lines: []Line{{Amount: 1}, {Amount: amount}}}
		if got := r.Valid(); got != want {
			t.Errorf("%d: got %v, want %v", amount, got, want)
		}
	}
}
