package redisstore

import (
	"context"
	"fmt"
	"slices"
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
				before, sent := cpu(b), traffic(b)
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
				s.calls.Wait()
				b.ReportMetric((traffic(b)-sent)/float64(b.N), "net-B/req")
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

// BenchmarkBatchTime is Redis's own time for each request of a call of 64.
func BenchmarkBatchTime(b *testing.B) {
	s := open(b)
	lines := limits(3)
	l := s.batcher(s.prefix)
	ctx := context.Background()
	var reserveTime, settleTime float64
	for i := range b.N {
		var reserves []*reserving
		var settles []*settling
		for j := range 64 {
			r := budget.Request{ID: fmt.Sprintf("%d-%d", i, j), Epoch: "gw", Lines: lines, NotAfter: time.Now().Add(5 * time.Second)}
			g := s.split(&r)[0]
			reserves = append(reserves, &reserving{id: r.ID, epoch: r.Epoch, parts: g.parts, lines: len(g.lines), done: make(chan struct{}),
				head: append(requestHead(&r), byte(len(g.lines)), byte(len(g.parts)))})
			settles = append(settles, &settling{id: r.ID, body: usedBody([]int64{50, 50, 50, 1})})
		}
		server.Command(b, "config", "resetstat")
		keys, args := l.reserveCall(reserves)
		l.reserved(s.run(ctx, &s.scripts.reserve, keys, args), reserves)
		reserveTime += perCall(b)
		server.Command(b, "config", "resetstat")
		l.settled(s.run(ctx, &s.scripts.settle, l.settleKeys(settles), l.settleArgs(settles)), settles)
		settleTime += perCall(b)
	}
	b.ReportMetric(reserveTime/float64(b.N)/64, "reserve-µs")
	b.ReportMetric(settleTime/float64(b.N)/64, "settle-µs")
}

// BenchmarkReclaim is one call of a reclaim with 100,000 records to end.
func BenchmarkReclaim(b *testing.B) {
	s := open(b)
	lines := limits(3)
	const records = 100_000
	var all sync.WaitGroup
	for c := range 64 {
		all.Go(func() {
			for i := c; i < records; i += 64 {
				if _, err := s.Reserve(context.Background(), budget.Request{ID: strconv.Itoa(i), Epoch: "gw", Lines: lines}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
	record := memoryOf(b, s.prefix+":r:7")
	s.SetClock(time.Now().Add(time.Hour))
	if _, err := s.Reclaim(context.Background(), time.Second, 0); err != nil { // fence
		b.Fatal(err)
	}
	calls := min(b.N, records/reclaimBatch)
	before := cpu(b)
	b.ResetTimer()
	for range calls {
		if got, err := s.Reclaim(context.Background(), time.Second, reclaimBatch); err != nil || got.Records != reclaimBatch {
			b.Fatal(got, err)
		}
	}
	b.ReportMetric((cpu(b)-before)*1000/float64(calls), "redis-ms/call")
	b.ReportMetric(record, "B/record")
}

// BenchmarkMemory is what Redis keeps for a counter in use, its part of Redis's
// tables included: of 100,000 users whose names are as long as a UUID.
func BenchmarkMemory(b *testing.B) {
	s := open(b)
	const users = 100_000
	l, now := limits(1)[0].Limit, time.Now()
	before := sumOf(b, "memory", "used_memory")
	each := func(visit func(id string, lines []budget.Line) error) {
		var all sync.WaitGroup
		for c := range 64 {
			all.Go(func() {
				for i := c; i < users; i += 64 {
					if err := visit(strconv.Itoa(i), []budget.Line{{Limit: l, Value: fmt.Sprintf("%036d", i), Amount: 1 << 39}}); err != nil {
						b.Error(err)
					}
				}
			})
		}
		all.Wait()
	}
	s.SetClock(now)
	each(func(id string, lines []budget.Line) error {
		_, err := s.Reserve(context.Background(), budget.Request{ID: id, Epoch: "gw", Lines: lines, NotAfter: now.Add(time.Second)})
		return err
	})
	s.SetClock(now.Add(2 * time.Second)) // a settled record is not remembered any more
	each(func(id string, lines []budget.Line) error {
		_, err := s.Settle(context.Background(), []budget.Settlement{{ID: id, Epoch: "gw", Lines: lines, Used: []int64{1 << 39}}})
		return err
	})
	b.ReportMetric((sumOf(b, "memory", "used_memory")-before)/users, "B/counter")
	b.ReportMetric(memoryOf(b, s.rulesOf(l).key(fmt.Sprintf("%036d", 7))), "B/key")
}

func memoryOf(b testing.TB, key string) float64 {
	n, _ := strconv.ParseFloat(server.Command(b, "memory", "usage", key), 64)
	return n
}

// cpu is the server's time so far, in seconds.
func cpu(b testing.TB) float64 { return sumOf(b, "cpu", "used_cpu_user", "used_cpu_sys") }

// traffic is what went over the server's connections so far, in bytes.
func traffic(b testing.TB) float64 {
	return sumOf(b, "stats", "total_net_input_bytes", "total_net_output_bytes")
}

// sumOf adds up what the server says of itself.
func sumOf(b testing.TB, section string, names ...string) float64 {
	sum := 0.0
	for _, line := range strings.Split(server.Command(b, "info", section), "\n") {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if slices.Contains(names, name) {
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
