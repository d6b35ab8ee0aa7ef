package failover_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/budget/memstore"
)

// asked is a store that counts the requests it is asked for.
type asked struct {
	budget.Store
	reserves atomic.Int64
}

func (a *asked) Reserve(ctx context.Context, r budget.Request) (budget.Verdict, error) {
	a.reserves.Add(1)
	return a.Store.Reserve(ctx, r)
}

// onEachCounter runs story for a limit of 6 of each kind that is remembered, at two
// gateways that know of each other.
func onEachCounter(t *testing.T, story func(t *testing.T, what string, limit *budget.Limit, store *asked, g, other *gateway)) {
	t.Helper()
	for what, limit := range map[string]*budget.Limit{
		"requests": minutely("rpm", budget.Requests, 6), "tokens": minutely("tpm", budget.Tokens, 6),
		"a month's": monthly("month", 6), "slots": minutely("slots", budget.Concurrency, 6),
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &asked{Store: memstore.New(nil)}
				g := start(store, "a", 20*time.Millisecond)
				defer g.stop(t)
				other := start(store, "b", 20*time.Millisecond)
				defer other.stop(t)
				time.Sleep(5 * time.Second) // they know of each other
				story(t, what, limit, store, g, other)
			})
		})
	}
}

// D2: a client that is refused and asks a thousand times a second is told the
// exact wait each time, costs a call a second, and is granted when it is time.
func TestAClientThatHammersCostsACallASecond(t *testing.T) {
	onEachCounter(t, func(t *testing.T, what string, limit *budget.Limit, store *asked, g, _ *gateway) {
		wide := minutely("wide", budget.Tokens, 1000)
		ask := func(i int) budget.Verdict { return g.reserve(fmt.Sprint(what, i), line(wide, 10), line(limit, 1)) }
		for i := range 6 {
			if v := ask(i); v.Outcome != budget.Granted {
				t.Fatalf("request %d: got %+v, want it granted", i, v)
			}
			if limit.Unit != budget.Concurrency {
				g.Settle(fmt.Sprint(what, i), []int64{10, 1})
			}
		}
		before := store.reserves.Load()
		for i := range 9000 {
			v := ask(1000 + i)
			want, _, err := store.Read(context.Background(), []budget.Line{line(wide, 10), line(limit, 1)})
			if err != nil {
				t.Fatal(err)
			}
			if v.Outcome != want[1].Outcome || v.Binding != 1 || v.Wait != want[1].Wait {
				t.Fatalf("after %d ms: got %+v, want %+v", i, v, want[1])
			}
			if got := v.Lines[0].Remaining - want[0].Remaining; got < -1 || got > 1 {
				t.Fatalf("after %d ms: got %d left of the other limit, want %d", i, v.Lines[0].Remaining, want[0].Remaining)
			}
			time.Sleep(time.Millisecond)
		}
		if got := store.reserves.Load() - before; got > 10 {
			t.Errorf("9000 refusals in nine seconds cost %d calls, want 10 at most", got)
		}
		switch {
		case limit.Unit == budget.Concurrency:
			g.Settle(what+"0", []int64{10, 1})
		case limit.Period == budget.Minute:
			time.Sleep(time.Second)
		default:
			return
		}
		if v := ask(1); v.Outcome != budget.Granted {
			t.Errorf("when it is time: got %+v, want it granted", v)
		}
	})
}

// The same while another gateway holds something of the counter, which may come
// back at any time: what came back is granted within 20 ms.
func TestAClientThatHammersWhileAnotherGatewayHoldsSomethingCostsFewCalls(t *testing.T) {
	onEachCounter(t, func(t *testing.T, what string, limit *budget.Limit, store *asked, g, other *gateway) {
		if v := other.reserve(what+"held", line(limit, 6)); v.Outcome != budget.Granted {
			t.Fatalf("the other gateway: got %+v, want it granted", v)
		}
		before := store.reserves.Load()
		for i := range 900 {
			if v := g.reserve(fmt.Sprint(what, i), line(limit, 1)); v.Outcome == budget.Granted || v.Wait <= 0 && limit.Unit != budget.Concurrency {
				t.Fatalf("after %d ms: got %+v, want it refused with a wait", i, v)
			}
			time.Sleep(time.Millisecond)
		}
		if got := store.reserves.Load() - before; got > 50 {
			t.Errorf("900 refusals in 0.9 s cost %d calls, want 50 at most", got)
		}
		other.Settle(what+"held", []int64{0})
		time.Sleep(20 * time.Millisecond)
		if v := g.reserve(what+"then", line(limit, 1)); v.Outcome != budget.Granted {
			t.Errorf("when it came back: got %+v, want it granted", v)
		}
	})
}

// A large request among small ones that poll gets its claim in the store, though
// the gateway remembers that less was refused (S33).
func TestARememberedRefusalKeepsNoLargeRequestFromItsClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := start(memstore.New(nil), "a", 20*time.Millisecond)
		defer g.stop(t)
		time.Sleep(5 * time.Second)
		tpm := minutely("tpm", budget.Tokens, 600) // 10 a second
		small := 0
		poll := func() {
			small++
			id := fmt.Sprint("small", small)
			if g.reserve(id, line(tpm, 20)).Outcome == budget.Granted {
				g.Settle(id, []int64{20})
			}
		}
		for range 100 {
			poll()
		}
		began := time.Now()
		for wait, try := time.Duration(0), 0; time.Since(began) < 5*time.Minute; try++ {
			for end := time.Now().Add(wait); time.Now().Before(end); poll() {
				time.Sleep(10 * time.Millisecond)
			}
			v := g.reserve(fmt.Sprint("large", try), line(tpm, 500))
			if v.Outcome == budget.Granted {
				if took := time.Since(began); took > 110*time.Second { // twice 500 tokens' refill, and the last wait
					t.Errorf("granted after %v, want about 100 s", took)
				}
				return
			}
			wait = v.Wait
		}
		t.Error("it starved")
	})
}

// A client whose requests can never fit costs a call a second, too; what is
// smaller is granted meanwhile.
func TestAClientThatHammersWithWhatNeverFitsCostsACallASecond(t *testing.T) {
	for what, limit := range map[string]*budget.Limit{
		"tokens": minutely("tpm", budget.Tokens, 6), "a month's": monthly("month", 6), "slots": minutely("slots", budget.Concurrency, 6),
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &asked{Store: memstore.New(nil)}
				g := start(store, "a", 20*time.Millisecond)
				defer g.stop(t)
				time.Sleep(5 * time.Second)
				wide := minutely("wide", budget.Tokens, 1000)
				before := store.reserves.Load()
				for i := range 9000 {
					if v := g.reserve(fmt.Sprint(what, i), line(wide, 10), line(limit, 7)); v.Outcome != budget.NeverFits || v.Binding != 1 || v.Wait != 0 {
						t.Fatalf("after %d ms: got %+v, want it never to fit", i, v)
					}
					time.Sleep(time.Millisecond)
				}
				if got := store.reserves.Load() - before; got > 10 {
					t.Errorf("9000 refusals in nine seconds cost %d calls, want 10 at most", got)
				}
				if v := g.reserve("small", line(wide, 10), line(limit, 6)); v.Outcome != budget.Granted {
					t.Errorf("what fits: got %+v, want it granted", v)
				}
				g.Settle("small", []int64{0, 0})
			})
		})
	}
}

// Whatever comes back, here or at another gateway, and whoever claims what: a
// gateway grants what its store would, and refuses what it would. Only what another
// gateway gave back may be granted 20 ms late.
func TestARefusalIsNotRememberedForTooLong(t *testing.T) {
	saved, late := int64(0), 0
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 9))
			store := &asked{Store: memstore.New(nil)}
			fleet := []*gateway{start(store, "a", 20*time.Millisecond), start(store, "b", 20*time.Millisecond)}
			time.Sleep(5 * time.Second)
			limits := []*budget.Limit{
				minutely("tpm", budget.Tokens, 6000), minutely("rpm", budget.Requests, 60),
				monthly("month", 40_000), minutely("slots", budget.Concurrency, 12),
			}
			limits[0].Bank = 1 + random.Int64N(4)
			type held struct {
				g     *gateway
				id    string
				lines []budget.Line
			}
			var open []held
			asks := int64(0)
			for n := range 2000 {
				g := fleet[random.IntN(2)]
				if random.IntN(3) == 0 && len(open) > 0 {
					i := random.IntN(len(open))
					h := open[i]
					open = append(open[:i], open[i+1:]...)
					used := make([]int64, len(h.lines))
					for j, l := range h.lines {
						used[j] = l.Amount * []int64{0, 1, 2, 2, 3}[random.IntN(5)] / 2
					}
					if random.IntN(4) == 0 {
						h.g.Report(h.id, used)
						synctest.Wait()
					}
					h.g.Settle(h.id, used)
					synctest.Wait()
				}
				var lines []budget.Line
				for _, l := range limits {
					if random.IntN(3) > 0 {
						n := int64(1)
						if l.Unit == budget.Tokens {
							n = []int64{0, 10, 100, 100, 100, 2000, 6001}[random.IntN(7)]
						}
						lines = append(lines, line(l, n))
					}
				}
				want, _, err := store.Read(context.Background(), lines)
				if err != nil {
					t.Fatal(err)
				}
				grants := true
				for _, s := range want {
					grants = grants && s.Outcome == budget.Granted
				}
				id := fmt.Sprint(seed, ".", n)
				v := g.reserve(id, lines...)
				asks++
				if v.Outcome != budget.Granted && grants { // something came back at the other gateway a moment ago
					late++
					time.Sleep(20 * time.Millisecond)
					asks++
					v = g.reserve(id+"again", lines...)
					id += "again"
				}
				if (v.Outcome == budget.Granted) != grants {
					t.Fatalf("seed %d, request %d for %v: got %+v, the store says %+v", seed, n, lines, v, want)
				}
				if grants {
					open = append(open, held{g, id, lines})
				}
				time.Sleep(time.Duration(random.Int64N(1<<random.IntN(9))) * time.Millisecond)
			}
			saved += asks - store.reserves.Load()
			for _, h := range open {
				h.g.Settle(h.id, make([]int64, len(h.lines)))
			}
			for _, g := range fleet {
				g.stop(t)
			}
		})
	}
	if saved < 1000 {
		t.Errorf("%d of 80,000 calls were saved: too few to show anything", saved)
	}
}
