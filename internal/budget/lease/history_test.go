package lease_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/budget/memstore"
)

// history is what several gateways did with the same limits.
type history struct {
	t                       *testing.T
	bucket, monthly, slots  *budget.Limit
	start                   time.Time
	mu                      sync.Mutex
	admitted                []admission
	debt, used              int64
	inFlight, mostInFlight  int64
	granted, leased, denied int
}

type admission struct{ at, used int64 }

// TestT6LeasesChangeNoBound plays gateways that are busy, quiet, cut off and
// killed, on the edge of their limits, and holds what was admitted against the
// bounds of the limits without leases: T5 for every interval, the budget to the
// micro-dollar, the slots at every moment.
func TestT6LeasesChangeNoBound(t *testing.T) {
	for _, bank := range []int64{1, 2, 4} {
		t.Run(fmt.Sprintf("bank %d", bank), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { play(t, bank, 11) })
		})
	}
}

func play(t *testing.T, bank int64, seed uint64) {
	h := &history{t: t, bucket: tpm(9_000_000), monthly: monthly(400_000), slots: slots(200), start: time.Now()}
	h.bucket.Bank, h.bucket.Burst = bank, 600_000
	shared := memstore.New(time.Now)
	gateways := []*gateway{newGateway(t, "a", shared), newGateway(t, "b", shared), newGateway(t, "c", shared)}
	var all sync.WaitGroup
	for i, g := range gateways {
		beat(g)
		all.Go(func() { h.load(g, rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	all.Go(func() { // one is cut off now and then, for less than its epoch lives
		for range 5 {
			time.Sleep(4 * time.Second)
			gateways[0].under.down.Store(true)
			time.Sleep(300 * time.Millisecond)
			gateways[0].under.down.Store(false)
		}
	})
	all.Wait()
	time.Sleep(5 * time.Second)
	for _, g := range gateways {
		h.leased += int(g.Granted())
	}
	h.check(gateways[1])
}

// load makes requests for half a minute: busy seconds and quiet ones, short
// requests and long ones, most using less than they reserve and some more.
func (h *history) load(g *gateway, random *rand.Rand) {
	var open sync.WaitGroup
	for n := 0; time.Since(h.start) < 30*time.Second; n++ {
		id, amount := fmt.Sprintf("%s.%d", g.name, n), 50+random.Int64N(300)
		if random.IntN(200) == 0 {
			amount = 60_000
		}
		lines := []budget.Line{line(h.bucket, amount), line(h.monthly, amount/10), line(h.slots, 1)}
		v := g.request(budget.Request{ID: id, Lines: lines})
		switch {
		case v.Outcome != budget.Granted:
			h.mu.Lock()
			h.denied++
			h.mu.Unlock()
		default:
			used := amount * []int64{0, 50, 80, 100, 100, 105}[random.IntN(6)] / 100
			took := time.Duration(random.IntN(200)) * time.Millisecond
			if random.IntN(100) == 0 {
				took = 5 * time.Second
			}
			h.admit(amount, used)
			open.Go(func() {
				time.Sleep(took)
				h.leave(used)
				g.end(id, used, used/10, 1)
			})
		}
		pause := 16 * time.Millisecond // 375 requests a second by all, what the bucket bears
		switch second := time.Since(h.start) / time.Second; {
		case second%10 > 7:
			pause = 200 * time.Millisecond
		case second > 20:
			pause /= 3
		}
		time.Sleep(time.Duration(random.Int64N(int64(pause))))
	}
	open.Wait()
}

func (h *history) admit(amount, used int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.granted++
	h.inFlight++
	h.mostInFlight = max(h.mostInFlight, h.inFlight)
	h.admitted = append(h.admitted, admission{time.Since(h.start).Milliseconds(), used})
	h.debt += max(0, used-amount)
}

func (h *history) leave(used int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.inFlight--
	h.used += used / 10
}

func (h *history) check(g *gateway) {
	t := h.t
	if h.leased < h.granted/5 || h.denied == 0 {
		t.Errorf("of %d granted %d came from leases, and %d were refused: too few to show anything", h.granted, h.leased, h.denied)
	}
	if s := g.stored(h.monthly); s.Remaining != h.monthly.Amount-h.used || s.Open != 0 {
		t.Errorf("the budget: got %d left and %d open, want %d and none", s.Remaining, s.Open, h.monthly.Amount-h.used)
	}
	if s := g.stored(h.slots); s.Open != 0 {
		t.Errorf("slots: got %d taken, want none", s.Open)
	}
	if s := g.stored(h.bucket); s.Open != 0 {
		t.Errorf("the bucket: got %d open, want none", s.Open)
	}
	if h.mostInFlight > h.slots.Amount {
		t.Errorf("in flight: got %d at a time, %d may be", h.mostInFlight, h.slots.Amount)
	}
	most := h.bucket.Bank*h.bucket.Burst + h.debt
	worst := int64(0)
	for i := range h.admitted {
		sum := int64(0)
		for _, a := range h.admitted[i:] {
			sum += a.used
			refilled := (a.at - h.admitted[i].at) * h.bucket.Amount / 60_000
			worst = max(worst, sum-refilled)
		}
	}
	t.Logf("granted %d, from leases %d, refused %d; most used beyond the refill %d of %d; most in flight %d",
		h.granted, h.leased, h.denied, worst, most, h.mostInFlight)
	if worst > most {
		t.Errorf("used beyond the refill: got %d in some interval, %d may be", worst, most)
	}
}
