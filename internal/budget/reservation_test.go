package budget

import (
	"context"
	"fmt"
	"slices"
	"testing"
)

// endings is a Limiter that grants everything and remembers how it ended.
type endings struct {
	ended     []string
	meanwhile func() // happens while a request is decided
}

type oneEnd struct {
	all *endings
	id  string
}

func (e oneEnd) Sent([]int64)        {}
func (e oneEnd) Report([]int64)      {}
func (e oneEnd) Settle(used []int64) { e.all.ended = append(e.all.ended, fmt.Sprint(e.id, used)) }

func (e *endings) Reserve(_ context.Context, r Request) (*Reservation, Verdict) {
	if e.meanwhile != nil {
		e.meanwhile()
	}
	held := new(Reservation)
	held.Open(e, oneEnd{e, r.ID}, r)
	return held, Verdict{Binding: -1}
}

func (e *endings) Correct(Correction) {}

func TestWhatAnExtensionIsGrantedAfterTheEndGoesBack(t *testing.T) {
	l := &endings{}
	held, _ := l.Reserve(context.Background(), Request{ID: "r|tag", Lines: []Line{{Amount: 10}}})
	if v := held.Extend(context.Background(), []int64{5}); v.Outcome != Granted {
		t.Errorf("got %+v, want it granted", v)
	}
	l.meanwhile = func() { held.Settle([]int64{17}) }
	if v := held.Extend(context.Background(), []int64{5}); v.Outcome == Granted {
		t.Errorf("after the end: got %+v, want it refused", v)
	}
	if want := []string{"r|tag[10]", "r+1|tag[7]", "r+2|tag[0]"}; !slices.Equal(l.ended, want) {
		t.Errorf("got %v, want %v", l.ended, want)
	}
}
