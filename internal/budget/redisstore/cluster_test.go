package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/budget/budgettest"
	"llmgw/internal/redistest"
)

// openCluster makes a store on a cluster.
func openCluster(t *testing.T, servers []*redistest.Server) *Store {
	t.Helper()
	var addrs []string
	for _, server := range servers {
		addrs = append(addrs, server.Addr)
	}
	s, err := Open(Options{Addrs: addrs, Prefix: fmt.Sprint("c", prefixes.Add(1)), Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if !s.cluster {
		t.Fatal("several addresses are not taken for a cluster")
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// of is l under another tag, which is in another slot of the cluster.
func of(l *budget.Limit, tag string) *budget.Limit {
	c := *l
	c.Place, c.Tag = "team/"+tag, tag
	return &c
}

func TestAClusterKeepsTheContract(t *testing.T) {
	servers := redistest.StartCluster(t, 3, 0)
	budgettest.Run(t, func(t *testing.T) (budget.Store, budgettest.Advance) {
		s := openCluster(t, servers)
		now := time.Date(2027, 1, 15, 12, 0, 0, 0, time.UTC)
		s.SetClock(now)
		return s, func(d time.Duration) {
			now = now.Add(d)
			s.SetClock(now)
		}
	})
	t.Run("S32 lines of several slots are all taken or none", func(t *testing.T) { severalSlots(t, openCluster(t, servers)) })
	t.Run("S32 a crash between the slots is reclaimed", func(t *testing.T) { crashBetween(t, openCluster(t, servers)) })
	t.Run("S32 what a gateway forgot is ended in all slots", func(t *testing.T) { forgotten(t, openCluster(t, servers)) })
}

func severalSlots(t *testing.T, s *Store) {
	ctx := context.Background()
	a, b, c := of(tpm(100), "a"), of(tpm(1000), "b"), of(tpm(50), "c")
	lines := func(n int64) []budget.Line {
		return []budget.Line{{Limit: b, Amount: n}, {Limit: c, Amount: n}, {Limit: a, Amount: n}}
	}
	r := budget.Request{ID: "one", Epoch: "gw", Lines: lines(40)}
	if v := reserve(t, s, r); v.Outcome != budget.Granted || v.Lines[0].Remaining != 960 || v.Lines[1].Remaining != 10 || v.Lines[2].Remaining != 60 {
		t.Fatalf("got %+v, want it granted, with 960, 10 and 60 left", v)
	}
	if v := reserve(t, s, r); !v.Repeated {
		t.Errorf("again: got %+v, want it repeated", v)
	}
	v := reserve(t, s, budget.Request{ID: "two", Epoch: "gw", Lines: lines(45)})
	if v.Outcome != budget.Exceeded || v.Binding != 1 || v.Lines[2].Remaining != 60 || v.Lines[0].Remaining != 960 || v.Lines[0].Open != 40 {
		t.Errorf("got %+v, want line 1 exceeded and the others as before", v)
	}
	s.calls.Wait() // the cancellation
	for l, want := range map[*budget.Limit]int64{a: 60, b: 960, c: 10} {
		if got := left(t, s, l); got.Remaining != want || got.Open != 40 {
			t.Errorf("%s: got %d left and %d open, want %d and 40", l.Place, got.Remaining, got.Open, want)
		}
	}
	if _, err := s.Reserve(ctx, budget.Request{ID: "one", Epoch: "gw", Lines: lines(41)}); !errors.Is(err, budget.ErrConflict) {
		t.Errorf("other amounts: got %v, want %v", err, budget.ErrConflict)
	}
	other := lines(40)
	other[0].Amount = 41 // b's, which is asked after a
	if _, err := s.Reserve(ctx, budget.Request{ID: "one", Epoch: "gw", Lines: other}); !errors.Is(err, budget.ErrConflict) {
		t.Errorf("another amount in a later slot: got %v, want %v", err, budget.ErrConflict)
	}
	s.calls.Wait()
	if got := left(t, s, a).Open; got != 40 {
		t.Errorf("a after a conflict elsewhere: got %d open, want 40", got)
	}
	if err := s.Report(ctx, []budget.Progress{{ID: "one", Lines: r.Lines, Used: []int64{1, 2, 3}}}); err != nil {
		t.Fatal(err)
	}
	if got := left(t, s, a).Open; got != 37 {
		t.Errorf("a after the report: got %d open, want 37", got)
	}
	got, err := s.Settle(ctx, []budget.Settlement{{ID: "one", Epoch: "gw", Lines: r.Lines, Used: []int64{10, 20, 30}}})
	if err != nil || !got[0].Known {
		t.Errorf("settle: got %+v, %v, want it known", got, err)
	}
	for l, want := range map[*budget.Limit]int64{a: 70, b: 990, c: 30} {
		if got := left(t, s, l); got.Remaining != want || got.Open != 0 {
			t.Errorf("%s: got %d left and %d open, want %d and none", l.Place, got.Remaining, got.Open, want)
		}
	}
}

func crashBetween(t *testing.T, s *Store) {
	ctx := context.Background()
	a, b := of(tpm(100), "a"), of(tpm(100), "b")
	reserve(t, s, request("half", a, 40)) // the gateway died before it asked b
	reserve(t, s, budget.Request{ID: "whole", Epoch: "gw", Lines: []budget.Line{{Limit: a, Amount: 10}, {Limit: b, Amount: 10}}})
	s.SetClock(time.Now().Add(time.Minute))
	got, err := s.Reclaim(ctx, 10*time.Second, 100)
	if err != nil || got.Epochs != 1 || got.Records != 3 || got.More {
		t.Errorf("got %+v, %v, want the records of both slots", got, err)
	}
	for _, l := range []*budget.Limit{a, b} {
		if st := left(t, s, l); st.Remaining != 100 || st.Open != 0 {
			t.Errorf("%s: got %d left and %d open, want all and none", l.Place, st.Remaining, st.Open)
		}
		if _, err := s.Reserve(ctx, request("ghost", l, 1)); !errors.Is(err, budget.ErrFenced) {
			t.Errorf("%s: got %v, want %v", l.Place, err, budget.ErrFenced)
		}
	}
}

func forgotten(t *testing.T, s *Store) {
	ctx := context.Background()
	a, b := of(tpm(100), "a"), of(tpm(100), "b")
	reserve(t, s, budget.Request{ID: "lost", Epoch: "gw", Lines: []budget.Line{{Limit: a, Amount: 10}, {Limit: b, Amount: 10}}, CrashCharge: budget.ChargeNone})
	ids, err := s.OpenIDs(ctx, "gw")
	if _, ok := ids["lost"]; err != nil || len(ids) != 1 || !ok {
		t.Fatalf("open: got %v, %v, want it alone", ids, err)
	}
	got, err := s.Settle(ctx, []budget.Settlement{{ID: "lost", Epoch: "gw"}})
	if err != nil || !got[0].Known {
		t.Errorf("settle: got %+v, %v, want it known", got, err)
	}
	for _, l := range []*budget.Limit{a, b} {
		if st := left(t, s, l); st.Remaining != 100 || st.Open != 0 {
			t.Errorf("%s: got %d left and %d open, want all and none", l.Place, st.Remaining, st.Open)
		}
	}
}

// An operator moves a slot to another node. Until it is there Redis makes no call
// that has keys of both; then all is as it was.
func TestASlotThatMovesTakesItsCountersAlong(t *testing.T) {
	servers := redistest.StartCluster(t, 3, 0)
	s := openCluster(t, servers)
	here, there := of(tpm(100), "a"), of(tpm(100), "b")
	both := []budget.Line{{Limit: here, Amount: 40}, {Limit: there, Amount: 40}}
	reserve(t, s, budget.Request{ID: "before", Epoch: "gw", Lines: both})

	from := masterOf(t, servers, s.rulesOf(here).key(""))
	to := servers[(slices.Index(servers, from)+1)%len(servers)]
	slot := from.Command(t, "cluster", "keyslot", s.rulesOf(here).key(""))
	to.Command(t, "cluster", "setslot", slot, "importing", from.Command(t, "cluster", "myid"))
	from.Command(t, "cluster", "setslot", slot, "migrating", to.Command(t, "cluster", "myid"))
	if v, err := s.Reserve(context.Background(), request("during", here, 70)); err == nil && v.Outcome == budget.Granted {
		t.Errorf("while the slot moves: got %+v, want 70 of 60 not granted", v)
	}
	keys := strings.Fields(from.Command(t, "cluster", "getkeysinslot", slot, "100"))
	from.Command(t, append([]string{"migrate", "127.0.0.1", strconv.Itoa(to.Port), "", "0", "5000", "keys"}, keys...)...)
	for _, server := range servers {
		server.Command(t, "cluster", "setslot", slot, "node", to.Command(t, "cluster", "myid"))
	}

	if v := reserve(t, s, request("after", here, 60)); v.Outcome != budget.Granted || v.Lines[0].Remaining != 0 {
		t.Errorf("got %+v, want the 60 that are left granted", v)
	}
	settled, err := s.Settle(context.Background(), []budget.Settlement{{ID: "before", Epoch: "gw", Lines: both, Used: []int64{10, 10}}})
	if err != nil || !settled[0].Known {
		t.Errorf("settle: got %+v, %v, want it known", settled, err)
	}
	if a, b := left(t, s, here), left(t, s, there); a.Remaining != 30 || a.Open != 60 || b.Remaining != 90 || b.Open != 0 {
		t.Errorf("got %d and %d left, %d and %d open, want 30 and 90, 60 and none", a.Remaining, b.Remaining, a.Open, b.Open)
	}
}

// What the new master has not seen is lost; what it has seen is settled there.
func TestS29_ASentinelLeadsToTheNewMaster(t *testing.T) {
	master, replica := redistest.Start(t), redistest.Start(t)
	replica.Replicate(t, master)
	sentinel := redistest.StartSentinel(t, "main", master)
	sentinel.Await(t, fmt.Sprint(replica.Port), "sentinel", "replicas", "main")
	s, err := Open(Options{Addrs: []string{sentinel.Addr}, MasterName: "main", Timeout: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	l := tpm(100)
	reserve(t, s, request("before", l, 40))
	master.Command(t, "wait", "1", "5000")
	master.Kill()
	sentinel.Await(t, fmt.Sprint(replica.Port), "sentinel", "get-master-addr-by-name", "main")

	ids := 0
	await(t, "the new master decides", func() bool {
		ids++
		v, err := s.Reserve(context.Background(), request(fmt.Sprint("after", ids), l, 1))
		return err == nil && v.Outcome == budget.Granted
	})
	if _, err := s.Settle(context.Background(), []budget.Settlement{settlement("before", l, 10)}); err != nil {
		t.Fatal(err)
	}
	if got := left(t, s, l); got.Remaining > 90 || got.Remaining < 80 { // what was replicated is known
		t.Errorf("got %d left, want 90 less the few asked for since", got.Remaining)
	}
}
