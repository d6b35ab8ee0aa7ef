package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/redistest"
)

// perUser is a limit of requests a second with a counter for each user.
func perUser() *budget.Limit {
	return &budget.Limit{
		Place: "team/a", Scope: budget.User, Owner: "a", Name: "user-rps", Unit: budget.Requests, Amount: 5, Period: budget.Second,
		Burst: 5, Bank: 4, MaxDebt: 50, Algorithm: budget.TokenBucket, Mode: budget.Enforce, Tag: "a",
	}
}

// patience is how long a request may be on its way, on a machine that stalls.
const patience = 3 * time.Second

// visit lets each of so many users make one request.
func visit(t *testing.T, s *Store, users int) {
	t.Helper()
	l := perUser()
	var next atomic.Int64
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			for i := next.Add(1); i <= int64(users); i = next.Add(1) {
				r := budget.Request{ID: strconv.FormatInt(i, 10), Epoch: "gw", NotAfter: time.Now().Add(patience),
					Lines: []budget.Line{{Limit: l, Value: fmt.Sprintf("%036d", i), Amount: 1}}} // as long as a UUID
				v, err := s.Reserve(context.Background(), r)
				if err != nil || v.Outcome != budget.Granted {
					t.Errorf("user %d: got %+v, %v, want it granted", i, v.Outcome, err)
					return
				}
				if _, err := s.Settle(context.Background(), []budget.Settlement{{ID: r.ID, Epoch: "gw", Lines: r.Lines, Used: []int64{1}}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// A crowd of users must not stay in Redis. A counter is kept until it would be
// full, and a minute longer; without that minute the test sees them go.
func TestS25_ACrowdOfUsersDoesNotStay(t *testing.T) {
	p, ok := mutated("local KEEP = 60000", "local KEEP = 1")
	if !ok {
		t.Fatal("no script keeps counters for a minute")
	}
	s := openOn(t, redistest.Start(t), 5*time.Second)
	s.scripts = p
	users := 2 * oracleSteps
	most, keys := int64(0), func() int64 { return s.client.DBSize(context.Background()).Val() }
	stop, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		for tick := time.NewTicker(20 * time.Millisecond); ; {
			select {
			case <-stop:
				tick.Stop()
				return
			case <-tick.C:
				most = max(most, keys())
			}
		}
	}()
	began := time.Now()
	visit(t, s, users)
	close(stop)
	<-watched
	t.Logf("%d users in %v, at most %d keys", users, time.Since(began), most)
	await(t, "all are gone but the gateway", func() bool { return keys() <= 1 })
}

// As they are, the scripts give each counter the time until it is full and a
// minute, and a settled record the time that its request had at most; so what a crowd leaves is bounded
// by how fast it comes.
func TestS25_ACounterOutlivesItsUseByAMinute(t *testing.T) {
	r := redistest.Start(t)
	s := openOn(t, r, 5*time.Second)
	visit(t, s, 1000)
	counters := 0
	for _, key := range strings.Fields(r.Command(t, "keys", "*")) {
		ttl := s.client.PTTL(context.Background(), key).Val()
		switch {
		case strings.Contains(key, ":c:"):
			counters++
			if ttl <= 0 || ttl > 61*time.Second {
				t.Errorf("%s is kept for %v, want the fifth of a second until it is full and a minute", key, ttl)
			}
		case strings.Contains(key, ":r:") && ttl > patience:
			t.Errorf("%s is kept for %v, want %v at most", key, ttl, patience)
		}
	}
	if counters != 1000 {
		t.Errorf("got %d counters, want one for each user", counters)
	}
}
