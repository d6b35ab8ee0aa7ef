package blackbox

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"llmgw/internal/gatewaytest"
)

// hammer sends one request after the other from each of n workers until ctx ends
// or one is refused, and counts the answers that came whole.
func hammer(ctx context.Context, t *testing.T, g *gatewaytest.Gateway, n int, body string, came *atomic.Int64) *sync.WaitGroup {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: n}, Timeout: 20 * time.Second}
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			for ctx.Err() == nil {
				r, err := http.NewRequest(http.MethodPost, g.URL+chat, strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				r.Header.Set("Authorization", "Bearer "+secret)
				resp, err := client.Do(r)
				if err != nil {
					return // the gateway was killed
				}
				err = copyAll(discard{}, resp)
				_ = resp.Body.Close() // read to its end
				if err != nil || resp.StatusCode != http.StatusOK {
					return
				}
				came.Add(1)
			}
		})
	}
	return &all
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

func leased(g *gatewaytest.Gateway) float64 {
	return g.Metrics().Sum("llmgw_reservations_leased_total")
}

const wide = "\n{name: tpm, unit: tokens, amount: 600M, per: minute}\n{name: slots, unit: concurrency, amount: 500}"

func TestTwoBusyGatewaysSpendABudgetToItsLastRequest(t *testing.T) {
	budget := 16_000     // at 3,200 a second at most: two are for the busy to be seen
	if testing.Short() { // the race detector makes it slow: fewer are as long
		budget = 8_000
	}
	w := start(t, setup{gateways: 2, redis: true, limits: monthly("calls", "requests", budget) + "\n" + monthly("tokens", "tokens", 100_000_000) + wide})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var came atomic.Int64
	for _, g := range w.all {
		defer hammer(ctx, t, g, 8, ask("sim-in10-out20-wait5ms", bound(100)), &came).Wait()
	}
	w.Eventually("the budget is spent and everybody refused", time.Minute, func() bool {
		return w.Limit("search", "calls").Remaining == 0 && w.all[0].Metrics().Sum("llmgw_inflight_requests")+w.all[1].Metrics().Sum("llmgw_inflight_requests") == 0
	})
	if got := came.Load(); got != int64(budget) {
		t.Errorf("granted %d, want exactly %d", got, budget)
	}
	if got := w.spent("tokens"); got != budget*30 {
		t.Errorf("charged %d tokens, want %d", got, budget*30)
	}
	a, b := leased(w.all[0]), leased(w.all[1])
	t.Logf("from leases: %v and %v of %d", a, b, budget)
	if a+b < float64(budget)/20 {
		t.Errorf("from leases came %v and %v of %d requests: too few to show anything", a, b, budget)
	}
	w.settled()
}

func TestAKilledGatewaysLeaseIsChargedWhatWasUsed(t *testing.T) {
	w := start(t, setup{gateways: 2, redis: true, limits: monthly("tokens", "tokens", 100_000_000) + wide, store: "reclaim_after: 2s"})
	killed := w.all[0]
	w.all, w.Gateway = w.all[1:], w.all[1]
	var came atomic.Int64
	all := hammer(t.Context(), t, killed, 4, ask("sim-in10-out20-wait5ms", bound(100)), &came)
	w.Eventually("it grants from leases", 20*time.Second, func() bool { return leased(killed) > 500 })
	before := came.Load()
	since := time.Now()
	w.Eventually("for a while", 5*time.Second, func() bool { return time.Since(since) > 200*time.Millisecond })
	lately := came.Load() - before // in a fifth of a second
	killed.Kill()
	w.unbooked = "a dead gateway's lease is charged by its last report, beside the records of the requests that it was for"
	all.Wait()
	w.Eventually("what it held is back", 20*time.Second, func() bool {
		return w.Limit("search", "tokens").Open == 0 && w.Limit("search", "slots").Remaining == 500 && w.redis.Command(t, "KEYS", "*:open:*") == ""
	})
	// Not reported is what ended since the last report, every 50 ms and a call; as
	// much again is added for it, and what was open may have been used.
	charged, used := int64(w.spent("tokens")), came.Load()*30
	t.Logf("charged %d, used %d; %d answers in the last 200 ms", charged, used, lately)
	if charged < used-lately*30 || charged > used+lately*30+4*100 {
		t.Errorf("charged %d for %d used", charged, used)
	}
	w.settled()
}

func TestLeasesOutliveAStoreThatStalls(t *testing.T) {
	w := start(t, setup{
		gateways: 2, redis: true, redisKey: "timeout: 20ms",
		limits: monthly("tokens", "tokens", 100_000_000) + wide,
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var came atomic.Int64
	var all []*sync.WaitGroup
	for _, g := range w.all {
		all = append(all, hammer(ctx, t, g, 4, ask("sim-in10-out20-wait5ms", bound(100)), &came))
	}
	w.Eventually("they grant from leases", 20*time.Second, func() bool { return leased(w.all[0]) > 300 && leased(w.all[1]) > 300 })
	for range 3 {
		w.redis.Pause()
		paused := time.Now()
		w.Eventually("a while", 5*time.Second, func() bool { return time.Since(paused) > 700*time.Millisecond })
		w.redis.Resume()
		w.Eventually("the store is back", 10*time.Second, func() bool {
			return w.all[0].Metrics().Sum("llmgw_store_up") == 1 && w.all[1].Metrics().Sum("llmgw_store_up") == 1
		})
	}
	cancel()
	for _, a := range all {
		a.Wait()
	}
	w.Eventually("all is told to the store", 20*time.Second, func() bool {
		l := w.Limit("search", "tokens")
		return l.Open == 0 && int64(w.spent("tokens")) == came.Load()*30
	})
	w.settled()
}

// busyUntil hammers the gateway until it has granted n requests from leases.
func (w *world) busyUntil(n float64, body string) (stop func() int64) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	var came atomic.Int64
	all := hammer(ctx, w.t, w.Gateway, 4, body, &came)
	w.Eventually("it grants from leases", 20*time.Second, func() bool { return leased(w.Gateway) > n })
	return func() int64 {
		cancel()
		all.Wait()
		return came.Load()
	}
}

// A stream that keeps a lease open hides from nobody what others of the lease
// used beyond their reservations.
func TestALongStreamHidesNoOverrunOfItsLease(t *testing.T) {
	w := start(t, setup{gateways: 2, redis: true, limits: monthly("tokens", "tokens", 100_000_000) + wide})
	stop := w.busyUntil(50, ask("sim-in500-out20-wait5ms", bound(100))) // reserves 100, uses 520
	resp, err := w.Open(secret, chat, ask("sim-in10-out20-hold8s", streamed, bound(100)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // read to its end
	used := int(stop()) * 520
	w.Eventually("all that ended is charged, and only the stream is open", 5*time.Second, func() bool {
		l := w.all[1].Limit("search", "tokens")
		return l.Remaining == float64(100_000_000-used-100) && l.Open == 100
	})
	if err := copyAll(discard{}, resp); err != nil {
		t.Error(err)
	}
	w.settled()
}

// A gateway that is told to stop in the midst of leases leaves nothing behind.
func TestAGatewayThatStopsHasSettledItsLeases(t *testing.T) {
	w := start(t, setup{gateways: 2, redis: true, store: "crash_charge: full", limits: monthly("tokens", "tokens", 100_000_000) + wide})
	stop := w.busyUntil(300, ask("sim-in10-out20-wait5ms", bound(100)))
	code := w.Stop()
	used := int(stop()) * 30
	if code != 0 {
		t.Errorf("got the exit code %d, want 0", code)
	}
	l, slots := w.all[1].Limit("search", "tokens"), w.all[1].Limit("search", "slots")
	if l.Remaining != float64(100_000_000-used) || l.Open != 0 || slots.Remaining != 500 {
		t.Errorf("got %v left, %v open and %v slots, want %d, none and 500", l.Remaining, l.Open, slots.Remaining, 100_000_000-used)
	}
	w.all, w.Gateway = w.all[1:], w.all[1]
	w.settled()
}

// What changes while a lease is held is a matter of the next request.
func TestSwitchesAndAnEmptyStoreInTheMidstOfLeases(t *testing.T) {
	w := start(t, setup{redis: true, limits: monthly("tokens", "tokens", 100_000_000) + wide})
	stop := w.busyUntil(100, ask("sim-in10-out20-wait5ms", bound(100)))
	for _, mode := range []string{"shadow", "off", "enforce"} {
		if a := w.Admin("PUT", "/admin/v1/enforcement", `{"mode":"`+mode+`"}`); a.Status != 200 {
			t.Fatalf("%s: got %d %s", mode, a.Status, a.Body)
		}
		if a := w.Admin("POST", "/admin/v1/reload", ""); a.Status != 200 {
			t.Fatalf("reload: got %d %s", a.Status, a.Body)
		}
		before := leased(w.Gateway)
		began := time.Now()
		w.Eventually("a while", 5*time.Second, func() bool { return time.Since(began) > 300*time.Millisecond })
		if now := leased(w.Gateway); mode == "off" && now != before {
			t.Errorf("without limits %v requests were granted from leases", now-before)
		}
	}
	before := leased(w.Gateway)
	w.Eventually("leases again", 20*time.Second, func() bool { return leased(w.Gateway) > before+100 })
	w.redis.Command(t, "FLUSHALL")
	w.unbooked = "Redis has lost what it was charged"
	flushed := w.Metrics().Sum("llmgw_requests_total")
	w.Eventually("requests go on", 5*time.Second, func() bool { return w.Metrics().Sum("llmgw_requests_total") > flushed+100 })
	stop()
	w.Eventually("nothing is open", 10*time.Second, func() bool {
		l := w.Limit("search", "tokens")
		return l.Open == 0 && w.Limit("search", "slots").Remaining == 500 && l.Remaining <= 100_000_000
	})
	w.settled()
}
