package lease_test

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/budget/failover"
	"llmgw/internal/budget/lease"
	"llmgw/internal/budget/redisstore"
	"llmgw/internal/fleet"
	"llmgw/internal/redistest"
)

// BenchmarkReserveAndSettle compares requests that are granted from leases with
// requests whose calls travel together, on one Redis, for 3 rates and a slot.
// The leases' own calls are in the figures; that a caller becomes busy is not.
func BenchmarkReserveAndSettle(b *testing.B) {
	for _, callers := range []int{1, 8, 64} {
		for _, how := range []string{"combined", "leased"} {
			b.Run(fmt.Sprintf("%s/callers=%d", how, callers), func(b *testing.B) {
				redis := redistest.Start(b)
				store, err := redisstore.Open(redisstore.Options{Addrs: []string{redis.Addr}, Prefix: "bench", Timeout: time.Second})
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { _ = store.Close() })
				run := &run{b: b, lines: wideLimits()}
				granted := run.open(store, how == "leased")
				if how == "leased" {
					run.until(callers, func(int64) bool { return granted() > 1000 })
				}
				calls, start := redisCalls(b, redis), run.ids.Load()
				b.ReportAllocs()
				b.ResetTimer()
				run.until(callers, func(n int64) bool { return n > start+int64(b.N) })
				b.StopTimer()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
				b.ReportMetric(float64(redisCalls(b, redis)-calls)/float64(b.N), "calls/req")
			})
		}
	}
}

// run makes requests.
type run struct {
	budget.Limiter
	b     *testing.B
	lines []budget.Line
	ids   atomic.Int64
}

// open makes the Limiter over store, with leases or without.
func (r *run) open(store budget.Store, leases bool) (granted func() int64) {
	quiet := slog.New(slog.DiscardHandler)
	keeper := fleet.New(fleet.Config{Store: store, Instance: "gw", Logger: quiet})
	beneath := failover.New(failover.Config{Store: store, Keeper: keeper, Timeout: time.Second, Logger: quiet})
	keeper.Start(beneath)
	if !leases {
		r.Limiter = beneath
		r.b.Cleanup(func() { _ = beneath.Close(context.Background()) })
		return nil
	}
	l := lease.New(beneath, lease.Config{})
	r.Limiter = l
	r.b.Cleanup(func() { _ = l.Close(context.Background()) })
	return l.Granted
}

func (r *run) until(callers int, over func(n int64) bool) {
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for {
				n := r.ids.Add(1)
				if over(n) {
					return
				}
				r.request(strconv.FormatInt(n, 10))
			}
		})
	}
	all.Wait()
}

func (r *run) request(id string) {
	held, v := r.Reserve(context.Background(), budget.Request{ID: id, Lines: r.lines})
	if held == nil || v.Degraded {
		r.b.Errorf("reserve %s: got %+v, want it granted by the store", id, v)
		return
	}
	held.Settle([]int64{50, 50, 50, 1})
}

// wideLimits are three rates and a slot, too large to refuse.
func wideLimits() []budget.Line {
	var lines []budget.Line
	for i := range 3 {
		l := tpm(1 << 40)
		l.Name, l.Period, l.MaxDebt = "rate"+strconv.Itoa(i), budget.Second, 1<<40
		lines = append(lines, line(l.Compile(), 100))
	}
	return append(lines, line(slots(1<<20).Compile(), 1))
}

// redisCalls is how many script calls the server has run.
func redisCalls(b *testing.B, s *redistest.Server) int64 {
	b.Helper()
	var calls int64
	for _, name := range []string{"cmdstat_evalsha:calls=", "cmdstat_eval:calls="} {
		calls += statistic(s.Command(b, "INFO", "commandstats"), name)
	}
	return calls
}

func statistic(info, name string) (n int64) {
	for i := 0; i+len(name) <= len(info); i++ {
		if info[i:i+len(name)] != name {
			continue
		}
		for _, c := range info[i+len(name):] {
			if c < '0' || c > '9' {
				return n
			}
			n = 10*n + int64(c-'0')
		}
	}
	return n
}
