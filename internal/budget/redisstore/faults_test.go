package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/redistest"
	"llmgw/internal/testenv"
)

// tpm is a bucket that refills so slowly that no test sees it.
func tpm(amount int64) *budget.Limit {
	return &budget.Limit{
		Place: "team/a", Scope: budget.Team, Owner: "a", Name: "tpm", Unit: budget.Tokens, Amount: 1, Period: budget.Hour,
		Burst: amount, Bank: 4, MaxDebt: 10 * amount, Algorithm: budget.TokenBucket, Mode: budget.Enforce, Tag: "a",
	}
}

func request(id string, l *budget.Limit, amount int64) budget.Request {
	return budget.Request{ID: id, Epoch: "gw", Lines: []budget.Line{{Limit: l, Amount: amount}}}
}

func settlement(id string, l *budget.Limit, used int64) budget.Settlement {
	return budget.Settlement{ID: id, Epoch: "gw", Lines: []budget.Line{{Limit: l}}, Used: []int64{used}}
}

// openOn makes a store on a server of its own.
func openOn(t *testing.T, r *redistest.Server, timeout time.Duration) *Store {
	t.Helper()
	s, err := Open(Options{Addrs: []string{r.Addr}, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func reserve(t *testing.T, s *Store, r budget.Request) budget.Verdict {
	t.Helper()
	v, err := s.Reserve(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// left is what is left of l and open on it, once nothing waits any more.
func left(t *testing.T, s *Store, l *budget.Limit) budget.LineState {
	t.Helper()
	states, _, err := s.Read(context.Background(), []budget.Line{{Limit: l}})
	if err != nil {
		t.Fatal(err)
	}
	return states[0]
}

func TestS26_ARedisThatEvictsKeysIsRefused(t *testing.T) {
	for _, policy := range []string{"allkeys-lru", "allkeys-random", "volatile-ttl"} {
		r := redistest.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", policy)
		s, err := Open(Options{Addrs: []string{r.Addr}})
		if err == nil {
			s.Close()
			t.Fatalf("%s: opened, want an error", policy)
		}
		for _, want := range []string{policy, "noeviction"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: the error does not say %q: %v", policy, want, err)
			}
		}
	}
}

func TestARedisThatDoesNotLetUsInIsToldAtTheStart(t *testing.T) {
	guarded, open := redistest.Start(t, "--requirepass", "hush"), redistest.Start(t)
	for what, o := range map[string]Options{
		"no password":       {Addrs: []string{guarded.Addr}},
		"another password":  {Addrs: []string{guarded.Addr}, Password: "loud"},
		"an unknown user":   {Addrs: []string{guarded.Addr}, Username: "llmgw", Password: "hush"},
		"a database beyond": {Addrs: []string{open.Addr}, DB: 1000},
	} {
		s, err := Open(o)
		if err == nil {
			s.Close()
		}
		if !errors.Is(err, errBarred) || strings.Contains(fmt.Sprint(err), "loud") {
			t.Errorf("%s: got %v, want %v", what, err, errBarred)
		}
	}
	s, err := Open(Options{Addrs: []string{guarded.Addr}, Password: "hush"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestARedisIsFitFromVersion7OnAndIfItEvictsNothing(t *testing.T) {
	for info, want := range map[string]error{
		"redis_version:6.2.14\r\nmaxmemory_policy:noeviction\r\n":  errOld,
		"redis_version:7.0.0\r\nmaxmemory_policy:noeviction\r\n":   nil,
		"redis_version:10.1.0\r\nmaxmemory_policy:noeviction\r\n":  nil,
		"redis_version:7.2.4\r\nmaxmemory_policy:volatile-lru\r\n": errEvicts,
		"redis_version:7.2.4\r\nmaxmemory_policy:allkeys-lfu\r\n":  errEvicts,
		"": nil,
	} {
		if err := fit(info); !errors.Is(err, want) {
			t.Errorf("%q: got %v, want %v", info, err, want)
		}
	}
}

func TestS26_ARedisThatComesLaterIsCheckedBeforeItsFirstUse(t *testing.T) {
	r := redistest.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	r.Kill()
	s := openOn(t, r, time.Second)
	if _, err := s.Reserve(context.Background(), request("r1", tpm(100), 10)); err == nil {
		t.Fatal("reserved without a Redis")
	}
	r.Restart(t)
	if _, err := s.Reserve(context.Background(), request("r2", tpm(100), 10)); !errors.Is(err, errEvicts) {
		t.Errorf("got %v, want %v", err, errEvicts)
	}
	if _, err := s.Heartbeat(context.Background(), "gw"); !errors.Is(err, errEvicts) {
		t.Errorf("heartbeat: got %v, want %v", err, errEvicts)
	}
}

func TestS27_OutOfMemoryReservesFailAndSettlesWork(t *testing.T) {
	r := redistest.Start(t, "--maxmemory-policy", "noeviction")
	s := openOn(t, r, time.Second)
	l := tpm(100)
	reserve(t, s, request("r1", l, 60))
	r.Command(t, "config", "set", "maxmemory", "1")

	if _, err := s.Reserve(context.Background(), request("r2", l, 10)); err == nil || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("reserve: got %v, want Redis's OOM", err)
	}
	got, err := s.Settle(context.Background(), []budget.Settlement{settlement("r1", l, 20)})
	if err != nil || !got[0].Known {
		t.Errorf("settle: got %+v, %v, want it known", got, err)
	}
	if _, err := s.Heartbeat(context.Background(), "gw"); err != nil {
		t.Errorf("heartbeat: %v", err)
	}
	if got := left(t, s, l); got.Remaining != 80 || got.Open != 0 {
		t.Errorf("got %d left and %d open, want 80 and 0", got.Remaining, got.Open)
	}
}

func TestS28_AnErrorInsideAScriptWritesNothing(t *testing.T) {
	s := open(t)
	l := tpm(100)
	other := *l
	other.Name = "other"
	r := request("r1", l, 10)
	r.Lines = append(r.Lines, budget.Line{Limit: &other, Amount: 10})

	server.Command(t, "set", s.rulesOf(&other).key(""), "what no script wrote")
	if _, err := s.Reserve(context.Background(), r); err == nil {
		t.Error("a counter that cannot be read was read")
	}
	server.Command(t, "del", s.rulesOf(&other).key(""))
	server.Command(t, "set", s.prefix+":open:gw", "not an index")
	r.ID = "r2"
	if _, err := s.Reserve(context.Background(), r); err == nil {
		t.Error("an index that is none was written")
	}
	server.Command(t, "del", s.prefix+":open:gw")
	for _, l := range []*budget.Limit{l, &other} {
		if got := left(t, s, l); got.Remaining != 100 || got.Open != 0 {
			t.Errorf("%s: got %d left and %d open, want 100 and none", l.Name, got.Remaining, got.Open)
		}
	}
	if ids, err := s.OpenIDs(context.Background(), "gw"); err != nil || len(ids) != 0 {
		t.Errorf("open: got %v, %v, want none", ids, err)
	}
	r.ID = "r3"
	reserve(t, s, r)
}

func TestScriptsThatRedisLostAreSentAgain(t *testing.T) {
	s := open(t)
	l := tpm(1000)
	for i := range 20 {
		id := strconv.Itoa(i)
		reserve(t, s, request(id, l, 10))
		server.Command(t, "script", "flush")
		if got, err := s.Settle(context.Background(), []budget.Settlement{settlement(id, l, 5)}); err != nil || !got[0].Known {
			t.Fatalf("settle: got %+v, %v, want it known", got, err)
		}
		// Both in one call, with one, the other or no script there.
		switch i % 3 {
		case 0:
			server.Command(t, "script", "flush")
		case 1:
			server.Command(t, "script", "flush")
			server.Command(t, "script", "load", s.scripts.reserve.text)
		}
		s.Enqueue(settlement("unknown"+id, l, 0), func(_ budget.Settled, err error) {
			if err != nil {
				t.Errorf("settle: %v", err)
			}
		})
		reserve(t, s, request("x"+id, l, 1))
	}
	if got := left(t, s, l); got.Remaining != 1000-20*6 || got.Open != 20 {
		t.Errorf("got %d left and %d open, want 880 and 20", got.Remaining, got.Open)
	}
}

func TestACallerWhoseContextEndsLeavesAtOnceAndIsCancelled(t *testing.T) {
	r := redistest.Start(t)
	s := openOn(t, r, 10*time.Second)
	l := tpm(100)
	reserve(t, s, request("first", l, 1))
	s.calls.Wait()
	r.Pause()
	ctx, cancel := context.WithCancel(context.Background())
	errs := make(chan error)
	go func() {
		_, err := s.Reserve(ctx, request("sent", l, 60))
		errs <- err
	}()
	inFlight(t, s)
	go func() {
		_, err := s.Reserve(ctx, request("queued", l, 30))
		errs <- err
	}()
	queued(t, s, 1)
	cancel()
	for range 2 {
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
	}
	r.Resume()
	reserve(t, s, request("last", l, 1)) // after the call and its cancellation
	if got := left(t, s, l); got.Remaining != 98 || got.Open != 2 {
		t.Errorf("got %d left and %d open, want 98 and 2", got.Remaining, got.Open)
	}
	ids, err := s.OpenIDs(context.Background(), "gw")
	if err != nil || len(ids) != 2 {
		t.Errorf("open: got %v, %v, want first and last", ids, err)
	}
}

// inFlight waits until all that waited is in a call.
func inFlight(t *testing.T, s *Store) {
	t.Helper()
	batcher := s.batcher(s.prefix)
	await(t, "the call is in flight", func() bool {
		batcher.mu.Lock()
		defer batcher.mu.Unlock()
		return batcher.running && len(batcher.reserves)+len(batcher.settles) == 0
	})
}

// queued waits until n reserves wait for the next call.
func queued(t *testing.T, s *Store, n int) {
	t.Helper()
	batcher := s.batcher(s.prefix)
	await(t, "others wait", func() bool {
		batcher.mu.Lock()
		defer batcher.mu.Unlock()
		return len(batcher.reserves) == n
	})
}

func TestTheCallsGoOnWhenAllWhoWaitedForTheNextOneHaveLeft(t *testing.T) {
	r := redistest.Start(t)
	s := openOn(t, r, 10*time.Second)
	l := tpm(100)
	reserve(t, s, request("first", l, 1))
	for name, call := range map[string]func() error{
		"a reserve": func() error {
			_, err := s.Reserve(context.Background(), request("sent", l, 1))
			return err
		},
		"a settlement": func() error {
			_, err := s.Settle(context.Background(), []budget.Settlement{settlement("first", l, 1)})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s.calls.Wait()
			r.Pause()
			sent := make(chan error)
			go func() { sent <- call() }()
			inFlight(t, s)
			ctx, leave := context.WithCancel(context.Background())
			left := make(chan error)
			go func() {
				_, err := s.Reserve(ctx, request("queued", l, 30))
				left <- err
			}()
			queued(t, s, 1)
			leave()
			if err := <-left; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want %v", err, context.Canceled)
			}
			r.Resume()
			if err := <-sent; err != nil {
				t.Error(err)
			}
			s.calls.Wait()
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			if _, err := s.Reserve(ctx, request("next to "+name, l, 1)); err != nil {
				t.Errorf("got %v, want the next caller answered", err)
			}
		})
	}
}

func TestS30_ACallThatTimedOutIsCancelledWithTheNext(t *testing.T) {
	r := redistest.Start(t)
	s := openOn(t, r, 50*time.Millisecond)
	l := tpm(100)
	reserve(t, s, request("first", l, 1))
	r.Pause()
	if _, err := s.Reserve(context.Background(), request("lost", l, 60)); err == nil {
		t.Fatal("granted by a Redis that stands still")
	}
	r.Resume()
	// Redis now reads the call that was given up, and applies it. What follows
	// on a new connection cancels it, before or after.
	await(t, "the store answers again", func() bool {
		_, err := s.Reserve(context.Background(), request("next", l, 1))
		return err == nil || errors.Is(err, budget.ErrTooLate)
	})
	await(t, "what was lost is given back", func() bool {
		ids, err := s.OpenIDs(context.Background(), "gw")
		_, lost := ids["lost"]
		return err == nil && !lost
	})
	if got := left(t, s, l); got.Remaining < 98 {
		t.Errorf("got %d left, want what was lost given back", got.Remaining)
	}
}

// await waits for what another goroutine or process does in its own time.
func await(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); {
		if time.Now().After(deadline) {
			t.Fatalf("after 30 s still not: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestSettlementsOfACallThatFailedTellTheirCallers(t *testing.T) {
	r := redistest.Start(t)
	s := openOn(t, r, 50*time.Millisecond)
	l := tpm(100)
	reserve(t, s, request("r1", l, 60))
	r.Kill()
	errs := make(chan error)
	s.Enqueue(settlement("r1", l, 1), func(_ budget.Settled, err error) { errs <- err })
	if err := <-errs; err == nil {
		t.Error("got no error")
	}
	if _, err := s.Settle(context.Background(), []budget.Settlement{settlement("r1", l, 1)}); err == nil {
		t.Error("settle: got no error")
	}
}

func TestT7_ALostStoreBeginsAnewWithFullCounters(t *testing.T) {
	r := redistest.Start(t)
	s := openOn(t, r, time.Second)
	l := tpm(100)
	reserve(t, s, request("r1", l, 60))
	r.Command(t, "flushall")
	if got := left(t, s, l); got.Remaining != 100 { // T7: at most B − level is added
		t.Errorf("got %d left, want 100", got.Remaining)
	}
	got, err := s.Settle(context.Background(), []budget.Settlement{settlement("r1", l, 90)})
	if err != nil || got[0].Known {
		t.Errorf("settle: got %+v, %v, want it unknown", got, err)
	}
	if _, err := s.Heartbeat(context.Background(), "gw"); err != nil {
		t.Fatal(err)
	}
	reserve(t, s, request("r2", l, 100))
}

func TestACloseLetsWaitingCallsEnd(t *testing.T) {
	testenv.Program(t, "redis-server")
	s, err := Open(Options{Addrs: []string{server.Addr}, Prefix: "closing", Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	l := tpm(1000)
	var told sync.WaitGroup
	for i := range 300 {
		told.Add(1)
		s.Enqueue(settlement(strconv.Itoa(i), l, 0), func(_ budget.Settled, err error) {
			defer told.Done()
			if err != nil {
				t.Errorf("settle: %v", err)
			}
		})
	}
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	told.Wait()
	if _, err := s.Reserve(context.Background(), request("r1", l, 1)); err == nil {
		t.Error("a closed store reserves")
	}
	late := make(chan error)
	s.Enqueue(settlement("r1", l, 0), func(_ budget.Settled, err error) { late <- err })
	if err := <-late; err == nil {
		t.Error("a closed store settles")
	}
}

func TestManyCallersOfManyBatchesLoseNothing(t *testing.T) {
	s := open(t)
	l := tpm(100_000)
	slot := &budget.Limit{Place: "team/a", Name: "slots", Unit: budget.Concurrency, Amount: 1000, Algorithm: budget.Slots, Tag: "a"}
	var all sync.WaitGroup
	for c := range 32 {
		all.Go(func() {
			for i := range 50 {
				r := request(fmt.Sprintf("%d-%d", c, i), l, 10)
				r.Lines = append(r.Lines, budget.Line{Limit: slot, Amount: 1})
				ctx, cancel := context.WithCancel(context.Background())
				if i%7 == 0 {
					cancel() // leaves before, during or after the call
				}
				v, err := s.Reserve(ctx, r)
				cancel()
				if err != nil {
					continue
				}
				if v.Outcome != budget.Granted {
					t.Errorf("got %+v, want it granted", v)
				}
				s.Enqueue(budget.Settlement{ID: r.ID, Epoch: "gw", Lines: r.Lines, Used: []int64{1, 1}}, func(got budget.Settled, err error) {
					if err != nil || !got.Known {
						t.Errorf("settle: got %+v, %v, want it known", got, err)
					}
				})
			}
		})
	}
	all.Wait()
	s.calls.Wait()
	got := left(t, s, l)
	if got.Open != 0 || left(t, s, slot).Open != 0 {
		t.Errorf("%d tokens and %d slots are open, want none", got.Open, left(t, s, slot).Open)
	}
	if keys := server.Command(t, "zcard", s.prefix+":open:gw"); keys != "0" {
		t.Errorf("%s records are open, want none", keys)
	}
}

func TestS25_EveryKeyExpires(t *testing.T) {
	s := open(t)
	l := tpm(100)
	reserve(t, s, request("open", l, 60))
	reserve(t, s, request("done", l, 10))
	if _, err := s.Settle(context.Background(), []budget.Settlement{settlement("done", l, 10), settlement("unknown", l, 0)}); err != nil {
		t.Fatal(err)
	}
	for _, key := range strings.Fields(server.Command(t, "keys", s.prefix+":*")) {
		if strings.HasSuffix(key, ":beats") || strings.Contains(key, ":open:") {
			continue // emptied with the last gateway and reservation
		}
		if ttl := server.Command(t, "pttl", key); ttl == "-1" {
			t.Errorf("%s has no end", key)
		}
	}
}
