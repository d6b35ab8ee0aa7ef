package failover_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"llmgw/internal/budget"
	"llmgw/internal/budget/redisstore"
	"llmgw/internal/fleet"
	"llmgw/internal/redistest"
)

// trouble is what a link does to what is sent over it.
type trouble int32

const (
	fine          trouble = iota
	losesRequests         // what the gateway sends never arrives; the connection stays (half open)
	losesReplies          // what Redis answers never arrives
	delays                // requests arrive 100 ms late
	delaysLong            // … 700 ms late, after their deadline
	resets                // connections are cut, and new ones at once
)

// link is a network between a gateway and Redis that can be in trouble.
type link struct {
	listener net.Listener
	target   string
	trouble  atomic.Int32

	mu    sync.Mutex
	conns map[net.Conn]struct{}
	done  sync.WaitGroup
}

func newLink(t *testing.T, target string) *link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{listener: listener, target: target, conns: map[net.Conn]struct{}{}}
	l.done.Go(l.accept)
	t.Cleanup(func() {
		listener.Close() //nolint:errcheck // a test's
		l.cut()
		l.done.Wait()
	})
	return l
}

func (l *link) addr() string { return l.listener.Addr().String() }

// set brings trouble, or ends it: connections that lost something stay dead.
func (l *link) set(what trouble) {
	l.trouble.Store(int32(what))
	if what == resets {
		l.cut()
	}
}

func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		c.Close() //nolint:errcheck // a test's
	}
}

func (l *link) accept() {
	for {
		near, err := l.listener.Accept()
		if err != nil {
			return
		}
		if trouble(l.trouble.Load()) == resets {
			near.Close() //nolint:errcheck // a test's
			continue
		}
		far, err := net.Dial("tcp", l.target)
		if err != nil {
			near.Close() //nolint:errcheck // a test's
			continue
		}
		l.mu.Lock()
		l.conns[near], l.conns[far] = struct{}{}, struct{}{}
		l.mu.Unlock()
		l.done.Go(func() { l.carry(far, near, losesRequests) })
		l.done.Go(func() { l.carry(near, far, losesReplies) })
	}
}

// carry copies one way. Requests are the way on which losing is losesRequests.
func (l *link) carry(to, from net.Conn, losing trouble) {
	defer to.Close()   //nolint:errcheck // a test's
	defer from.Close() //nolint:errcheck // a test's
	buf := make([]byte, 64<<10)
	for dead := false; ; {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		now := trouble(l.trouble.Load())
		dead = dead || now == losing
		if dead {
			continue
		}
		if losing == losesRequests && now == delays {
			after(100 * time.Millisecond)
		}
		if losing == losesRequests && now == delaysLong {
			after(700 * time.Millisecond)
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// behind starts a gateway whose Redis is behind a link.
func behind(t *testing.T) (*link, *redistest.Server, *redisstore.Store, *gateway) {
	t.Helper()
	server := redistest.Start(t)
	net := newLink(t, server.Addr)
	store, err := redisstore.Open(redisstore.Options{Addrs: []string{net.addr()}, Timeout: storeTimeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return net, server, store, start(store, "a", storeTimeout)
}

func TestNoTroubleOfTheNetworkLosesOrInventsAToken(t *testing.T) {
	for what, how := range map[string]trouble{
		"requests lost": losesRequests, "replies lost": losesReplies, "requests 100 ms late": delays,
		"requests late for their deadline": delaysLong, "connections cut": resets,
	} {
		t.Run(what, func(t *testing.T) {
			net, _, store, g := behind(t)
			month, slots := monthly("month", 1e9), minutely("slots", budget.Concurrency, 200)
			l := run(g, 16, line(month, 10), line(slots, 1))
			for range 2 {
				after(100 * time.Millisecond)
				net.set(how)
				eventually(t, "the gateway notices", func() bool { return !g.Up() })
				after(100 * time.Millisecond)
				net.set(fine)
				eventually(t, "Redis is used again", g.Up)
			}
			l.end()
			drained(t, g)
			l.wantQuick(t)
			wantNothingOpen(t, store, g)
			wantUsed(t, store, month, l.used.Load())
			wantUsed(t, store, slots, 0)
			g.stop(t)
		})
	}
}

// A script of somebody else's that does not end makes Redis answer BUSY.
func TestABusyRedisIsAwayUntilItsScriptIsKilled(t *testing.T) {
	server := redistest.Start(t, "--busy-reply-threshold", "50")
	store, err := redisstore.Open(redisstore.Options{Addrs: []string{server.Addr}, Timeout: storeTimeout})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close() //nolint:errcheck // a test's
	g := start(store, "a", storeTimeout)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, ReadTimeout: time.Minute, MaxRetries: -1})
	defer client.Close() //nolint:errcheck // a test's
	month := monthly("month", 1e9)
	l := run(g, 8, line(month, 10))
	after(50 * time.Millisecond)
	var script sync.WaitGroup
	script.Go(func() {
		if err := client.Eval(context.Background(), "while true do end", nil).Err(); err == nil {
			t.Error("got an answer of a script that does not end")
		}
	})
	eventually(t, "the gateway notices", func() bool { return !g.Up() })
	eventually(t, "the script is killed", func() bool {
		return client.ScriptKill(context.Background()).Err() == nil
	})
	script.Wait()
	eventually(t, "Redis is used again", g.Up)
	l.end()
	drained(t, g)
	l.wantQuick(t)
	wantNothingOpen(t, store, g)
	wantUsed(t, store, month, l.used.Load())
	g.stop(t)
}

// NOSCRIPT: scripts that Redis has forgotten are sent again.
func TestForgottenScriptsAreNoTrouble(t *testing.T) {
	server, store, g := onRedis(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer client.Close() //nolint:errcheck // a test's
	month := monthly("month", 1e9)
	l := run(g, 4, line(month, 10))
	for range 10 {
		after(10 * time.Millisecond)
		if err := client.ScriptFlush(context.Background()).Err(); err != nil {
			t.Error(err)
		}
	}
	l.end()
	drained(t, g)
	if !g.Up() || l.granted.Load() == 0 {
		t.Errorf("got up %v and %d granted, want a store that serves", g.Up(), l.granted.Load())
	}
	wantUsed(t, store, month, l.used.Load())
	g.stop(t)
}

// Two gateways on one Redis, quick to suspect: what a cut-off one has open is
// ended by the other, a stranger in one's own epoch by itself.
func TestWhatNobodyHoldsAnyMoreIsEndedOnRedis(t *testing.T) {
	server := redistest.Start(t)
	open := func() *redisstore.Store {
		s, err := redisstore.Open(redisstore.Options{Addrs: []string{server.Addr}, Timeout: storeTimeout})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() }) //nolint:errcheck // a test's
		return s
	}
	store := open()
	network := &cut{Store: open()}
	keep := func(s budget.Store, instance string) *gateway {
		return startWith(s, fleet.Config{
			Store: s, Instance: instance, Heartbeat: 50 * time.Millisecond, Timeout: 200 * time.Millisecond,
			ReclaimAfter: 400 * time.Millisecond, AntiEntropy: 200 * time.Millisecond, Grace: 300 * time.Millisecond, Logger: quiet,
		}, storeTimeout)
	}
	a, b := keep(network, "a"), keep(store, "b")
	month, slots := monthly("month", 1e6), minutely("slots", budget.Concurrency, 4)
	eventually(t, "both know both", func() bool { return a.keeper.Live() == 2 && b.keeper.Live() == 2 })
	a.reserve("of a", line(month, 100), line(slots, 1))
	b.reserve("of b", line(month, 100), line(slots, 1))
	if _, err := store.Reserve(context.Background(), budget.Request{
		ID: "stranger", Epoch: b.keeper.Epoch(), Lines: []budget.Line{line(month, 100), line(slots, 1)},
	}); err != nil {
		t.Fatal(err)
	}
	network.off.Store(true)
	eventually(t, "only b's is open", func() bool {
		st, ids := state(t, store, slots), map[string]time.Duration{}
		if got, err := store.OpenIDs(context.Background(), b.keeper.Epoch()); err == nil {
			ids = got
		}
		_, ok := ids["of b"]
		return st.Open == 1 && len(ids) == 1 && ok
	})
	if st := state(t, store, month); st.Capacity-st.Remaining != 100 {
		t.Errorf("got %d charged, want b's 100 alone: the others had reported nothing", st.Capacity-st.Remaining)
	}
	network.off.Store(false)
	a.Settle("of a", []int64{40, 1}) // it was alive after all: S16
	b.Settle("of b", []int64{30, 1})
	drained(t, a)
	drained(t, b)
	wantUsed(t, store, month, 70)
	wantUsed(t, store, slots, 0)
	for _, g := range []*gateway{a, b} {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		if err := g.Close(ctx); err != nil && !errors.Is(err, errCut) {
			t.Error(err)
		}
		cancel()
	}
}
