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
)

// limits are n rates and a slot, too large to refuse.
func limits(n int) []budget.Line {
	var lines []budget.Line
	for i := range n {
		lines = append(lines, budget.Line{Amount: 100, Limit: &budget.Limit{
			Place: "team/search", Scope: budget.Team, Owner: "search", Name: "rate" + strconv.Itoa(i), Unit: budget.Tokens,
			Amount: 1 << 40, Period: budget.Second, Burst: 1 << 40, Bank: 4, MaxDebt: 1 << 40,
			Algorithm: budget.TokenBucket, Mode: budget.Enforce, Tag: "search",
		}})
	}
	return append(lines, budget.Line{Amount: 1, Limit: &budget.Limit{
		Place: "team/search", Scope: budget.Team, Owner: "search", Name: "slots", Unit: budget.Concurrency,
		Amount: 1 << 20, Algorithm: budget.Slots, Mode: budget.Enforce, Tag: "search",
	}})
}

// BenchmarkReserveAndSettle compares calls that travel together with one script
// call each, for 3 rates and a slot.
func BenchmarkReserveAndSettle(b *testing.B) {
	for _, callers := range []int{1, 8, 64} {
		for _, how := range []string{"alone", "combined"} {
			b.Run(fmt.Sprintf("%s/callers=%d", how, callers), func(b *testing.B) {
				s := open(b)
				lines, used := limits(3), []int64{50, 50, 50, 1}
				ctx := context.Background()
				var ids atomic.Int64
				before := cpu(b)
				b.ResetTimer()
				b.ReportAllocs()
				var all sync.WaitGroup
				for range callers {
					all.Go(func() {
						for {
							n := ids.Add(1)
							if n > int64(b.N) {
								return
							}
							r := budget.Request{ID: strconv.FormatInt(n, 10), Epoch: "gw", Lines: lines, NotAfter: time.Now().Add(5 * time.Second)}
							st := budget.Settlement{ID: r.ID, Epoch: "gw", Lines: lines, Used: used}
							if how == "alone" {
								if err := s.reserveAlone(ctx, r); err != nil {
									b.Error(err)
								}
								if err := s.settleAlone(ctx, st); err != nil {
									b.Error(err)
								}
								continue
							}
							if v, err := s.Reserve(ctx, r); err != nil || v.Outcome != budget.Granted {
								b.Error(v, err)
							}
							s.Enqueue(st, func(budget.Settled, error) {})
						}
					})
				}
				all.Wait()
				b.StopTimer()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
				b.ReportMetric((cpu(b)-before)*1e6/float64(b.N), "redis-µs/req")
			})
		}
	}
}

// BenchmarkServerTime is Redis's own time for a reserve and for a settle.
func BenchmarkServerTime(b *testing.B) {
	for _, n := range []int{1, 3, 5} {
		b.Run(fmt.Sprintf("lines=%d", n), func(b *testing.B) {
			s := open(b)
			lines := limits(n)[:n]
			ctx := context.Background()
			server.Command(b, "config", "resetstat")
			for i := range b.N {
				r := budget.Request{ID: strconv.Itoa(i), Epoch: "gw", Lines: lines, NotAfter: time.Now().Add(5 * time.Second)}
				if err := s.reserveAlone(ctx, r); err != nil {
					b.Fatal(err)
				}
			}
			reserve := perCall(b)
			server.Command(b, "config", "resetstat")
			for i := range b.N {
				if err := s.settleAlone(ctx, budget.Settlement{ID: strconv.Itoa(i), Epoch: "gw", Lines: lines, Used: make([]int64, n)}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(reserve, "reserve-µs")
			b.ReportMetric(perCall(b), "settle-µs")
		})
	}
}

// cpu is the server's time so far, in seconds.
func cpu(b testing.TB) float64 {
	sum := 0.0
	for _, line := range strings.Split(server.Command(b, "info", "cpu"), "\n") {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_user" || name == "used_cpu_sys" {
			n, _ := strconv.ParseFloat(value, 64)
			sum += n
		}
	}
	return sum
}

// perCall is the server's mean time of an EVALSHA since its statistics began.
func perCall(b testing.TB) float64 {
	_, stats, _ := strings.Cut(server.Command(b, "info", "commandstats"), "cmdstat_evalsha:")
	_, mean, _ := strings.Cut(stats, "usec_per_call=")
	mean, _, _ = strings.Cut(mean, ",")
	n, _ := strconv.ParseFloat(mean, 64)
	return n
}
