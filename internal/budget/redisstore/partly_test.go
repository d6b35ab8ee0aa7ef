package redisstore

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/redistest"
)

// A node of a cluster that is away must not take from the others what they are
// to be told.
func TestOneNodeOfAClusterAway(t *testing.T) {
	servers := redistest.StartCluster(t, 3, 0)
	s, err := Open(Options{Addrs: []string{servers[0].Addr, servers[1].Addr, servers[2].Addr}, Prefix: "partly", Timeout: 80 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	here, there, node := twoNodes(t, s, servers)
	lines := []budget.Line{{Limit: here, Amount: 10}, {Limit: there, Amount: 20}}
	reserve(t, s, budget.Request{ID: "open", Epoch: "gw", Lines: lines})

	node.Pause()
	for n := int64(1); n <= 6; n++ { // whichever is told first
		if err := s.Report(within(t), []budget.Progress{{ID: "open", Lines: lines, Used: []int64{n, n}}}); err == nil {
			t.Error("a report with a node away: got no error")
		}
		if st := left(t, s, here); st.Open != 10-n {
			t.Errorf("the node that is not away: got %d open, want the %d that were not reported", st.Open, 10-n)
		}
	}
	post := budget.Request{ID: "post", Epoch: "gw", Lines: lines, Force: true}
	if _, err := s.Reserve(within(t), post); err == nil {
		t.Error("a post with a node away: got no error")
	}
	node.Resume()

	await(t, "the rest is posted", func() bool {
		_, err := s.Reserve(within(t), post)
		return err == nil
	})
	settled, err := s.Settle(context.Background(), []budget.Settlement{
		{ID: "post", Epoch: "gw", Lines: lines, Used: []int64{10, 20}}, {ID: "open", Epoch: "gw", Lines: lines, Used: []int64{0, 0}},
	})
	if err != nil || !settled[0].Known || !settled[1].Known {
		t.Errorf("settle: got %+v, %v, want both known", settled, err)
	}
	if a, b := left(t, s, here), left(t, s, there); a.Remaining != 90 || b.Remaining != 80 || a.Open+b.Open != 0 {
		t.Errorf("got %d and %d left, %d and %d open, want 90 and 80, and none", a.Remaining, b.Remaining, a.Open, b.Open)
	}
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// twoNodes makes two limits on different nodes, the second of which is asked
// later, and tells its node. Nodes have the slots in their order.
func twoNodes(t *testing.T, s *Store, servers []*redistest.Server) (first, second *budget.Limit, node *redistest.Server) {
	nodeOf := func(l *budget.Limit) *redistest.Server {
		slot := 0
		if _, err := fmt.Sscan(strings.TrimSpace(servers[0].Command(t, "cluster", "keyslot", s.base(tagOf(l)))), &slot); err != nil {
			t.Fatal(err)
		}
		return servers[slot*3/16384]
	}
	first = of(tpm(100), "a")
	for tag := 'b'; tag <= 'z'; tag++ {
		second = of(tpm(100), string(tag))
		if node = nodeOf(second); node != nodeOf(first) {
			return first, second, node
		}
	}
	t.Fatal("all tags are on one node")
	return nil, nil, nil
}
