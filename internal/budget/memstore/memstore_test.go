package memstore_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/budget/budgettest"
	"llmgw/internal/budget/memstore"
)

func TestTheMemoryStoreKeepsTheContract(t *testing.T) {
	budgettest.Run(t, func(t *testing.T) (budget.Store, budgettest.Advance) {
		now := time.Date(2027, 1, 15, 12, 0, 0, 0, time.UTC)
		s := memstore.New(func() time.Time { return now })
		t.Cleanup(func() { s.Close() })
		return s, func(d time.Duration) { now = now.Add(d) }
	})
}

// crowd is a limit with a counter for each user.
func crowd(amount int64) *budget.Limit {
	return &budget.Limit{
		Place: "team/a", Scope: budget.User, Name: "user-tpm", Unit: budget.Tokens, Amount: amount, Period: budget.Minute, Burst: amount,
		Bank: 4, MaxDebt: 10 * amount, Algorithm: budget.TokenBucket, Mode: budget.Enforce,
	}
}

// A crowd of users must not stay in memory after their counters are full again.
func TestS25_I1_AMillionUsersOverTimeDoNotStay(t *testing.T) {
	now := time.Date(2027, 1, 15, 12, 0, 0, 0, time.UTC)
	s := memstore.New(func() time.Time { return now })
	l := crowd(100)
	spend := func(user string) {
		t.Helper()
		id := strconv.FormatInt(now.UnixNano(), 36) + user
		lines := []budget.Line{{Limit: l, Value: user, Amount: 60}}
		if v, err := s.Reserve(context.Background(), budget.Request{ID: id, Epoch: "gw", Lines: lines}); err != nil || v.Outcome != budget.Granted {
			t.Fatalf("got %+v, %v, want it granted", v, err)
		}
		if _, err := s.Settle(context.Background(), []budget.Settlement{{ID: id, Epoch: "gw", Lines: lines, Used: []int64{60}}}); err != nil {
			t.Fatal(err)
		}
	}
	most, users := 0, 1_000_000
	if testing.Short() {
		users = 50_000
	}
	for i := range users {
		spend(strconv.Itoa(i))
		now = now.Add(time.Second)
		most = max(most, s.Counters())
	}
	if most > 200 { // 36 s to full: some dozens at a time
		t.Errorf("%d counters were kept at a time, want about as many as are not full", most)
	}
	spend("again")
	if states, _, err := s.Read(context.Background(), []budget.Line{{Limit: l, Value: "again"}}); err != nil || states[0].Remaining != 40 {
		t.Errorf("a counter in use: got %+v, %v, want 40 left", states, err)
	}
}

func TestTombstonesAreBoundedInNumber(t *testing.T) {
	now := time.Date(2027, 1, 15, 12, 0, 0, 0, time.UTC)
	s := memstore.New(func() time.Time { return now })
	for i := range 200_000 {
		id := strconv.Itoa(i)
		if _, err := s.Reserve(context.Background(), budget.Request{ID: id, Epoch: "gw"}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Settle(context.Background(), []budget.Settlement{{ID: id, Epoch: "gw", Used: []int64{0}}}); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.Records(); got > 1<<16+8 {
		t.Errorf("%d records are kept, want 65,536 at most", got)
	}
}
