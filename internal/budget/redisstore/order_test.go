package redisstore

import (
	"testing"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/redistest"
)

// A Redis that is new has the script that reserves before the one that settles:
// called by name in one round trip, only the second would be applied.
func TestANewRedisTakesASettlementBeforeAReserveThatCameLater(t *testing.T) {
	s := openOn(t, redistest.Start(t), 5*time.Second)
	l := tpm(100)
	if v := reserve(t, s, request("first", l, 100)); v.Outcome != budget.Granted {
		t.Fatalf("the first: got %v", v.Outcome)
	}
	var failed error
	w, st := s.waiting(request("second", l, 100)), settlement("first", l, 0)
	s.batcher(s.prefix).call([]*settling{{
		id: st.ID, body: bodyOf(st.Lines, st.Used), done: func(_ budget.Settled, err error) { failed = err },
	}}, []*reserving{w})
	if failed != nil || w.err != nil {
		t.Fatalf("settle: %v, reserve: %v", failed, w.err)
	}
	if st := left(t, s, l); st.Remaining != 0 || st.Open != 100 {
		t.Errorf("%d are left and %d open, want the second to have the 100 of the first", st.Remaining, st.Open)
	}
}
