package redisstore

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/redistest"
)

// What the benchmarks measure is held here to its bounds: for a request that
// meets three rates and a slot.

// spent is what a server did.
type spent struct{ calls, bytes, seconds float64 }

func spentBy(t *testing.T, s *Store) spent {
	t.Helper()
	info := s.client.Info(context.Background(), "commandstats", "stats", "cpu").Val()
	number := func(name string) float64 {
		_, rest, _ := strings.Cut(info, name)
		n, _ := strconv.ParseFloat(rest[:strings.IndexAny(rest+"\r", ",\r")], 64)
		return n
	}
	return spent{
		calls:   number("cmdstat_evalsha:calls=") + number("cmdstat_eval:calls="),
		bytes:   number("total_net_input_bytes:") + number("total_net_output_bytes:"),
		seconds: number("used_cpu_user:") + number("used_cpu_sys:"),
	}
}

// costOf is what one of n calls of do cost, made by so many callers.
func costOf(t *testing.T, s *Store, callers int, n int64, do func(i int64)) spent {
	t.Helper()
	var ids atomic.Int64
	var all sync.WaitGroup
	before := spentBy(t, s)
	for range callers {
		all.Go(func() {
			for i := ids.Add(1); i <= n; i = ids.Add(1) {
				do(i)
			}
		})
	}
	all.Wait()
	s.calls.Wait()
	after, each := spentBy(t, s), float64(n)
	return spent{(after.calls - before.calls) / each, (after.bytes - before.bytes) / each, (after.seconds - before.seconds) / each}
}

func TestARequestCostsOneRoundTripAndThoseThatWaitShareIt(t *testing.T) {
	s := openOn(t, redistest.Start(t), 5*time.Second)
	lines, ctx := limits(3), context.Background()
	request := func(id string) budget.Request {
		return budget.Request{ID: id, Epoch: "gw", Lines: lines, NotAfter: time.Now().Add(5 * time.Second)}
	}
	end := func(id string) budget.Settlement {
		return budget.Settlement{ID: id, Epoch: "gw", Lines: lines, Used: []int64{50, 50, 50, 1}}
	}
	combined := func(i int64) {
		id := "combined" + strconv.FormatInt(i, 10)
		if v, err := s.Reserve(ctx, request(id)); err != nil || v.Outcome != budget.Granted {
			t.Errorf("reserve %s: got %+v, %v, want it granted", id, v, err)
		}
		s.Enqueue(end(id), func(got budget.Settled, err error) {
			if err != nil || !got.Known {
				t.Errorf("settle %s: got %+v, %v, want it known", id, got, err)
			}
		})
	}
	alone := func(i int64) {
		id := "alone" + strconv.FormatInt(i, 10)
		if err := s.reserveAlone(ctx, request(id)); err != nil {
			t.Error(err)
		}
		if err := s.settleAlone(ctx, end(id)); err != nil {
			t.Error(err)
		}
	}
	combined(0) // makes the gateway known, and the scripts
	s.calls.Wait()

	one := costOf(t, s, 1, 1, func(int64) { reserve(t, s, request("one")) })
	if one.calls != 1 {
		t.Errorf("a reserve: got %v calls, want one", one.calls)
	}
	each := costOf(t, s, 64, 3000, alone)
	if each.calls != 2 || each.bytes > 1100 {
		t.Errorf("a call each: got %.2f calls and %.0f bytes a request, want 2 and at most 1100", each.calls, each.bytes)
	}
	counters, others := 0, 0
	for _, key := range s.client.Keys(ctx, "*").Val() {
		switch {
		case strings.Contains(key, ":c:"):
			counters++
		case !strings.Contains(key, ":r:"):
			others++
		}
	}
	if counters != len(lines) || others != 2 {
		t.Errorf("got %d counters and %d other keys beside the records, want %d, and the gateway's two", counters, others, len(lines))
	}
	if testing.Short() {
		return // under a race detector callers are too slow to wait for a call
	}
	shared := costOf(t, s, 64, 6000, combined)
	t.Logf("alone %+v, combined %+v", each, shared)
	if shared.calls > each.calls/3 || shared.bytes > each.bytes/2 || shared.seconds > each.seconds/3 {
		t.Errorf("64 callers: got %.2f calls, %.0f bytes and %.0f µs of Redis a request, want a third, a half and a third of %.2f, %.0f and %.0f µs",
			shared.calls, shared.bytes, shared.seconds*1e6, each.calls, each.bytes, each.seconds*1e6)
	}
}

// A reclaim of very many records must not hold up the others' calls: those of a
// gateway that died, and those that outlived their deadline. So no call of it
// ends more than a batch, whose records cost what a few requests cost, however
// many others there are.
func TestS18_NoReclaimHoldsRedisForLong(t *testing.T) {
	s := openOn(t, redistest.Start(t), 5*time.Second)
	records := int64(100_000)
	if testing.Short() {
		records = 5000 // a race detector sees nothing of Redis
	}
	ctx, l := context.Background(), tpm(1<<30)
	slot := &budget.Limit{Place: "team/a", Name: "slots", Unit: budget.Concurrency, Amount: 1 << 30, Algorithm: budget.Slots, Tag: "a"}
	made := costOf(t, s, 128, records, func(i int64) {
		r := request(strconv.FormatInt(i, 10), l, 10)
		r.Lines, r.Lifetime = append(r.Lines, budget.Line{Limit: slot, Amount: 1}), time.Minute
		if i%2 == 0 {
			r.Epoch = "dead"
		}
		if _, err := s.Reserve(ctx, r); err != nil {
			t.Error(err)
		}
	})
	s.SetClock(time.Now().Add(time.Hour))
	if _, err := s.Heartbeat(ctx, "gw"); err != nil {
		t.Fatal(err)
	}
	done, before := 0, spentBy(t, s)
	for more := true; more; {
		got, err := s.Reclaim(ctx, 10*time.Second, reclaimBatch)
		if err != nil {
			t.Fatal(err)
		}
		if got.Records > reclaimBatch {
			t.Fatalf("a call ended %d records, want %d at most", got.Records, reclaimBatch)
		}
		done, more = done+got.Records, got.More
	}
	// The server's own time: other processes may hold it up.
	each := (spentBy(t, s).seconds - before.seconds) / float64(done)
	t.Logf("ending a record took %.1f µs of Redis, making it %.1f", each*1e6, made.seconds*1e6)
	if each > 10*made.seconds {
		t.Errorf("ending a record took %.1f µs of Redis, want ten times the %.1f of making it at most", each*1e6, made.seconds*1e6)
	}
	if open := left(t, s, slot).Open; int64(done) != records || open != 0 {
		t.Errorf("got %d records ended and %d slots taken, want %d and none", done, open, records)
	}
}
