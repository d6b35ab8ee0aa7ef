package blackbox

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestTwoInstancesGrantExactlyWhatTheBudgetHolds(t *testing.T) {
	w := start(t, setup{gateways: 2, redis: true, limits: monthly("tokens", "tokens", 50*100) + "\n{name: slots, unit: concurrency, amount: 500}"})
	answers := w.together(200, ask("sim-in8-out30-wait2s", bound(100)))
	if ok, no := count(answers, 200), count(answers, 429); ok != 50 || no != 150 {
		t.Errorf("got %d granted and %d refused, want 50 and 150", ok, no)
	}
	stats := w.provider.Stats()
	if stats.Requests != 50 {
		t.Errorf("the provider saw %d calls, want 50", stats.Requests)
	}
	used := int(stats.InputTokens + stats.OutputTokens)
	w.Eventually("settled to the token", 5*time.Second, func() bool { return int(w.Limit("search", "tokens").Remaining) == 5000-used })
	w.settled()
}

func TestF1AFrozenRedisHoldsNobodyUp(t *testing.T) {
	if testing.Short() {
		t.Skip("a race detector slows the gateway alone: make test runs this")
	}
	w := start(t, setup{alone: true, redis: true, redisKey: "timeout: 20ms", limits: "{name: tpm, unit: tokens, amount: 1M, per: minute}\n{name: slots, unit: concurrency, amount: 500}"})
	before := w.Metrics().Sum("go_goroutines")
	body := ask("sim-in5-out5-wait100ms")
	through := func() {
		if a, err := w.Try(secret, chat, body); err != nil || a.Status != 200 {
			t.Errorf("got %d, %v, want 200 by this instance's share\n%s", a.Status, err, a.Body)
		}
	}
	slowest(8, 5, through)
	w.redis.Pause()
	w.withinReach(1.5, func() (got, reference time.Duration) {
		var done sync.WaitGroup
		done.Go(func() { reference = slowest(2, 10, func() { w.direct(body) }) })
		got = slowest(8, 10, through)
		done.Wait()
		return got, reference
	})
	requests := w.Metrics().Sum("llmgw_requests_total", "outcome", "completed")
	if got := w.Metrics().Sum("go_goroutines"); got > before+60 {
		t.Errorf("goroutines grew from %v to %v", before, got)
	}
	w.redis.Resume()
	w.Eventually("the store is back", 10*time.Second, func() bool { return w.Metrics().Sum("llmgw_store_up") == 1 })
	w.settled()
	m := w.Metrics()
	used := m.Sum("llmgw_tokens_total", "kind", "input") + m.Sum("llmgw_tokens_total", "kind", "output")
	if want := requests * 10; used != want {
		t.Errorf("got %v tokens used, want %v", used, want)
	}
	if got := strings.Count(w.Log(), "limits are decided by their when_store_down"); got != 1 {
		t.Errorf("the log tells the outage %d times, want once for the transition\n%s", got, w.Log())
	}
}

// slowest makes n calls in each of some goroutines, and tells how long the
// slowest took.
func slowest(goroutines, n int, call func()) time.Duration {
	var mu sync.Mutex
	var worst time.Duration
	var done sync.WaitGroup
	for range goroutines {
		done.Go(func() {
			for range n {
				began := time.Now()
				call()
				mu.Lock()
				worst = max(worst, time.Since(began))
				mu.Unlock()
			}
		})
	}
	done.Wait()
	return worst
}

// withinReach checks that what the gateway takes is no more than so many times a
// reference, such as what the provider itself takes, that was measured in the same
// round on the same machine. The machine may stumble over either: the best of five
// rounds counts.
func (w *world) withinReach(times float64, round func() (got, reference time.Duration)) {
	w.t.Helper()
	best := math.Inf(1)
	for range 5 {
		got, reference := round()
		if best = min(best, float64(got)/float64(reference)); best <= times {
			return
		}
	}
	w.t.Errorf("the gateway took %.1f times the reference in the best of five rounds, want %.1f at most", best, times)
}

func TestF2EachLimitSaysWhatHappensWithoutTheStore(t *testing.T) {
	for _, s := range []struct {
		policy   string
		statuses map[int]int
	}{
		{"closed", map[int]int{503: 12}},
		{"open", map[int]int{200: 12}},
		{"local", map[int]int{200: 5, 429: 7}},
	} {
		t.Run(s.policy, func(t *testing.T) {
			w := start(t, setup{redis: true, gateways: 2, limits: "{name: rph, unit: requests, amount: 10, per: hour, when_store_down: " + s.policy + "}", store: "heartbeat: 100ms"})
			w.all = w.all[:1]
			// Ten heartbeats long, so that each instance has heard of the other.
			if a := w.Post(other, chat, ask("sim-out1-wait1s")); a.Status != 200 {
				t.Fatalf("got %d\n%s", a.Status, a.Body)
			}
			w.redis.Kill()
			w.Eventually("noticed", 10*time.Second, func() bool { return w.Metrics().Sum("llmgw_store_up") == 0 })
			got := map[int]int{}
			for range 12 {
				a := w.Post(secret, chat, ask("sim-out1"))
				got[a.Status]++
				if left := fmt.Sprint(max(0, 5-got[200])); s.policy == "local" &&
					(a.Header.Get("X-Ratelimit-Remaining-Requests") != left || a.Header.Get("X-Ratelimit-Limit-Requests") != "10") {
					t.Errorf("told %q of %q left, want the %s of this instance's share, of 10",
						a.Header.Get("X-Ratelimit-Remaining-Requests"), a.Header.Get("X-Ratelimit-Limit-Requests"), left)
				}
				if a.Header.Get("X-LLMGW-Degraded") != "true" {
					t.Errorf("the answer does not say that it is degraded")
				}
				if a.Status == 503 && (a.Code() != "limiter_unavailable" || a.Header.Get("Retry-After") == "") {
					t.Errorf("got %q, Retry-After %q", a.Code(), a.Header.Get("Retry-After"))
				}
			}
			for status, n := range s.statuses {
				if got[status] != n {
					t.Errorf("got %v, want %v", got, s.statuses)
					break
				}
			}
		})
	}
}

func TestF9ASettlementThatFindsNoStoreIsMadeLater(t *testing.T) {
	w := start(t, setup{redis: true, limits: tokensLimit() + "\n{name: slots, unit: concurrency, amount: 20}", store: "reclaim_after: 30s"})
	var done sync.WaitGroup
	for range 20 {
		done.Go(func() {
			if a, err := w.Try(secret, chat, ask("sim-in10-out20-wait500ms")); err != nil || a.Status != 200 {
				t.Errorf("got %d, %v", a.Status, err)
			}
		})
	}
	w.Eventually("all are reserved", 5*time.Second, func() bool { return w.provider.Stats().InFlight == 20 })
	w.redis.Pause()
	done.Wait()
	w.redis.Resume()
	w.Eventually("all is settled", 10*time.Second, func() bool { return w.Limit("search", "tokens").Remaining == 100_000-20*30 })
	w.settled()
}
