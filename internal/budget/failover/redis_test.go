package failover_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"llmgw/internal/budget"
	"llmgw/internal/budget/redisstore"
	"llmgw/internal/redistest"
)

const storeTimeout = 20 * time.Millisecond

// onRedis starts a server and a gateway on it.
func onRedis(t testing.TB) (*redistest.Server, *redisstore.Store, *gateway) {
	t.Helper()
	server := redistest.Start(t)
	store, err := redisstore.Open(redisstore.Options{Addrs: []string{server.Addr}, Timeout: storeTimeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return server, store, start(store, "a", storeTimeout)
}

// eventually waits for what happens in real time, and in another process.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	deadline := time.Now().Add(15 * time.Second)
	for !ok() {
		if <-poll.C; time.Now().After(deadline) {
			t.Fatalf("%s: not within 15 s", what)
		}
	}
}

// after waits for d of real time: as long as a trouble lasts.
func after(d time.Duration) { <-time.After(d) }

// load is traffic of many callers, and what it saw.
type load struct {
	slowest  atomic.Int64 // of Reserve
	hiccup   atomic.Int64 // of this machine: how much too late a timer came
	used     atomic.Int64
	granted  atomic.Int64
	degraded atomic.Int64
	group    sync.WaitGroup
	stop     chan struct{}
}

// run lets callers reserve and settle until end.
func run(g *gateway, callers int, lines ...budget.Line) *load {
	l := &load{stop: make(chan struct{})}
	for c := range callers {
		l.group.Go(l.watch)
		l.group.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-l.stop:
					return
				default:
				}
				l.one(g, fmt.Sprintf("c%d-%d", c, i), i, lines)
			}
		})
	}
	return l
}

func (l *load) one(g *gateway, id string, i int, lines []budget.Line) {
	began := time.Now()
	v := g.reserve(id, lines...)
	raise(&l.slowest, time.Since(began))
	if v.Degraded {
		l.degraded.Add(1)
	}
	if v.Outcome != budget.Granted {
		after(time.Millisecond)
		return
	}
	l.granted.Add(1)
	after(time.Duration(i%5) * time.Millisecond)
	used := make([]int64, len(lines))
	for j := range used {
		used[j] = 1
	}
	used[0] = int64(i % 7)
	l.used.Add(used[0])
	g.Settle(id, used)
}

// watch measures how late timers are, as a caller meets it: what a busy machine
// adds to every wait.
func (l *load) watch() {
	for {
		began := time.Now()
		select {
		case <-l.stop:
			return
		case <-time.After(storeTimeout):
			raise(&l.hiccup, time.Since(began)-storeTimeout)
		}
	}
}

func (l *load) end() {
	close(l.stop)
	l.group.Wait()
}

// wantQuick checks that no decision hung: none took longer than a hundred of the
// store's timeouts and what this machine was late by itself. The exact bound is
// TestARequestNeverWaitsLongerThanTheTimeout's, on virtual time.
func (l *load) wantQuick(t *testing.T) {
	t.Helper()
	most := 100*storeTimeout + 10*time.Duration(l.hiccup.Load())
	if got := time.Duration(l.slowest.Load()); got > most {
		t.Errorf("got a decision after %v, want at most %v", got, most)
	}
	t.Logf("%d granted, %d decided without the store, the slowest in %v, timers up to %v late",
		l.granted.Load(), l.degraded.Load(), time.Duration(l.slowest.Load()), time.Duration(l.hiccup.Load()))
}

func raise(to *atomic.Int64, d time.Duration) {
	for {
		was := to.Load()
		if int64(d) <= was || to.CompareAndSwap(was, int64(d)) {
			return
		}
	}
}

// drained waits until the store knows everything again.
func drained(t *testing.T, g *gateway) {
	t.Helper()
	eventually(t, "the store is up and everything is written", func() bool {
		return g.Up() && g.Open() == 0 && g.Unwritten() == 0
	})
}

// wantNothingOpen checks the records of every epoch that the gateway had.
func wantNothingOpen(t *testing.T, s budget.Store, g *gateway) {
	t.Helper()
	eventually(t, "nothing is open", func() bool {
		ids, err := s.OpenIDs(context.Background(), g.keeper.Epoch())
		return err == nil && len(ids) == 0
	})
}

// F1, F9, F10: Redis is frozen under load, twice, and comes back.
func TestAFrozenRedisDelaysNobodyAndLosesNothing(t *testing.T) {
	server, store, g := onRedis(t)
	month, slots := monthly("month", 1e9), minutely("slots", budget.Concurrency, 200)
	l := run(g, 32, line(month, 10), line(slots, 1))
	for range 2 {
		after(200 * time.Millisecond)
		server.Pause()
		eventually(t, "the gateway notices", func() bool { return !g.Up() })
		before := runtime.NumGoroutine()
		after(400 * time.Millisecond)
		if now := runtime.NumGoroutine(); now > before+10 {
			t.Errorf("got %d goroutines after 400 ms without Redis, %d at its start", now, before)
		}
		server.Resume()
		eventually(t, "Redis is used again", g.Up)
	}
	l.end()
	drained(t, g)
	l.wantQuick(t)
	if l.degraded.Load() == 0 || l.granted.Load() == 0 {
		t.Error("nothing was decided without Redis: the test tests nothing")
	}
	wantNothingOpen(t, store, g)
	wantUsed(t, store, month, l.used.Load())
	wantUsed(t, store, slots, 0)
	g.stop(t)
}

// A Redis that was killed comes back with nothing: what was charged is lost
// with it, but nothing hangs, leaks, or is charged twice.
func TestARedisThatIsKilledAndStartsEmptyIsUsedAgain(t *testing.T) {
	server, store, g := onRedis(t)
	month, slots := monthly("month", 1e9), minutely("slots", budget.Concurrency, 200)
	l := run(g, 16, line(month, 10), line(slots, 1))
	after(200 * time.Millisecond)
	server.Kill()
	eventually(t, "the gateway notices", func() bool { return !g.Up() })
	after(200 * time.Millisecond)
	server.Restart(t)
	eventually(t, "Redis is used again", g.Up)
	after(100 * time.Millisecond)
	l.end()
	drained(t, g)
	l.wantQuick(t)
	wantNothingOpen(t, store, g)
	wantUsed(t, store, slots, 0)
	st := state(t, store, month)
	if got := st.Capacity - st.Remaining; got <= 0 || got > l.used.Load() || st.Open != 0 {
		t.Errorf("got %d charged and %d open, want what was used since the kill, at most %d", got, st.Open, l.used.Load())
	}
	g.stop(t)
}

func TestAFlushedRedisIsUsedAgain(t *testing.T) {
	server, store, g := onRedis(t)
	month, slots := monthly("month", 1e9), minutely("slots", budget.Concurrency, 200)
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer client.Close() //nolint:errcheck // a test's
	l := run(g, 16, line(month, 10), line(slots, 1))
	for range 3 {
		after(100 * time.Millisecond)
		if err := client.FlushAll(context.Background()).Err(); err != nil {
			t.Error(err)
		}
	}
	l.end()
	drained(t, g)
	wantNothingOpen(t, store, g)
	wantUsed(t, store, slots, 0)
	if st := state(t, store, month); st.Open != 0 || st.Capacity-st.Remaining > l.used.Load() {
		t.Errorf("got %+v, want at most the %d used and nothing open", st, l.used.Load())
	}
	g.stop(t)
}

// Errors that Redis answers are failures, as silence is: OOM, READONLY, NOREPLICAS
// and NOPERM are decided by policy, and settled when they have passed.
func TestARedisThatMayNotWriteIsAwayUntilItMay(t *testing.T) {
	for what, trouble := range map[string][2][]any{
		"out of memory":            {{"config", "set", "maxmemory", "1"}, {"config", "set", "maxmemory", "0"}},
		"a replica":                {{"replicaof", "127.0.0.1", "1"}, {"replicaof", "no", "one"}},
		"replicas missing":         {{"config", "set", "min-replicas-to-write", "1"}, {"config", "set", "min-replicas-to-write", "0"}},
		"scripts are not allowed":  {{"acl", "setuser", "default", "-evalsha", "-eval"}, {"acl", "setuser", "default", "+evalsha", "+eval"}},
		"its keys are not allowed": {{"acl", "setuser", "default", "resetkeys"}, {"acl", "setuser", "default", "allkeys"}},
	} {
		t.Run(what, func(t *testing.T) {
			server, store, g := onRedis(t)
			month := monthly("month", 1e9)
			client := redis.NewClient(&redis.Options{Addr: server.Addr})
			defer client.Close() //nolint:errcheck // a test's
			set := func(command []any) {
				if err := client.Do(context.Background(), command...).Err(); err != nil {
					t.Fatal(err)
				}
			}
			l := run(g, 8, line(month, 10))
			after(100 * time.Millisecond)
			set(trouble[0])
			eventually(t, "requests are decided without Redis", func() bool { return l.degraded.Load() > 100 })
			set(trouble[1])
			eventually(t, "Redis is used again", g.Up)
			after(100 * time.Millisecond)
			l.end()
			drained(t, g)
			wantNothingOpen(t, store, g)
			g.stop(t) // which writes what is not written yet
			eventually(t, "what was used is charged", func() bool {
				st := state(t, store, month)
				return st.Capacity-st.Remaining == l.used.Load() && st.Open == 0
			})
		})
	}
}

func BenchmarkReserveAndSettleOnRedis(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(strconv.Itoa(callers), func(b *testing.B) {
			_, _, g := onRedis(b)
			defer g.stop(b)
			team, key, slots := minutely("tpm", budget.Tokens, 1<<40), monthly("month", 1<<40), minutely("slots", budget.Concurrency, 1e6)
			var n atomic.Int64
			var degraded atomic.Int64
			one := func() {
				id := strconv.FormatInt(n.Add(1), 36)
				if g.reserve(id, line(team, 100), line(key, 100), line(slots, 1)).Degraded {
					degraded.Add(1)
				}
				g.Settle(id, []int64{60, 60, 1})
			}
			b.ReportAllocs()
			if callers == 1 {
				for b.Loop() {
					one()
				}
			} else {
				b.SetParallelism(callers / runtime.GOMAXPROCS(0))
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						one()
					}
				})
			}
			b.ReportMetric(float64(degraded.Load()), "degraded")
		})
	}
}
