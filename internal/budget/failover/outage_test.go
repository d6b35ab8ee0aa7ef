package failover_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/budget/memstore"
)

// What README.md promises of an outage: all gateways together grant one burst
// and its refill more, however they hoard, and each that starts during it so
// much again from then on.
func TestS31_AnOutageGrantsOneBurstAndItsRefillMore(t *testing.T) {
	t.Run("three gateways", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { playOutage(t, outageEnds) })
	})
	t.Run("another starts in its midst", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { playOutage(t, outageBegins+30*time.Second) })
	})
}

// An outage begins after a minute, lasts two, and a minute follows.
const (
	outageBegins = time.Minute
	outageEnds   = 3 * time.Minute
	outageStep   = 20 * time.Millisecond
)

// outage is what gateways did before, during and after one.
type outage struct {
	t        *testing.T
	random   *rand.Rand
	lines    []budget.Line
	gateways []*gateway
	open     [][]int // by gateway: indices of admitted
	admitted []admission
}

type admission struct {
	at             time.Duration
	reserved, used int64
}

// playOutage lets a fourth gateway start at joins.
func playOutage(t *testing.T, joins time.Duration) {
	bucket, month := minutely("tpm", budget.Tokens, 60_000), monthly("month", 100_000_000)
	store := memstore.New(nil)
	link := &cut{Store: store}
	o := &outage{t: t, random: rand.New(rand.NewPCG(1, 1)), lines: []budget.Line{line(bucket, 0), line(month, 0)}}
	join := func() {
		o.gateways = append(o.gateways, start(link, fmt.Sprint("gw", len(o.gateways)), 20*time.Millisecond))
		o.open = append(o.open, nil)
	}
	for range 3 {
		join()
	}
	time.Sleep(5 * time.Second) // all know of all
	for now := time.Duration(0); now < outageEnds+time.Minute; now += outageStep {
		link.off.Store(now >= outageBegins && now < outageEnds)
		if now == joins {
			join()
		}
		for g := range o.gateways {
			if now >= outageBegins || now%(5*time.Second) == 0 { // there is much left when it begins
				o.step(g, now)
			}
		}
		time.Sleep(outageStep)
	}
	for g := range o.gateways {
		for len(o.open[g]) > 0 {
			o.end(g)
		}
	}
	time.Sleep(5 * time.Second)

	rate := func(d time.Duration) int64 { return d.Milliseconds() * bucket.Amount / 60_000 }
	more := bucket.Burst + rate(outageEnds-outageBegins)
	if joins < outageEnds {
		more += bucket.Burst + rate(outageEnds-joins)
	}
	total, during := o.sum(0, outageEnds+time.Minute), o.sum(outageBegins, outageEnds)
	t.Logf("%d were used of requests that came in the outage, of at most %d", during, more)
	if during > more || during < more*2/3 {
		t.Errorf("the outage: got %d used, want at most %d, and not far from it", during, more)
	}
	if most := bucket.Bank*bucket.Burst + rate(outageEnds+time.Minute) + more; total > most {
		t.Errorf("in all: got %d used, want at most %d", total, most)
	}
	wantUsed(t, store, month, total)
	for _, g := range o.gateways {
		g.stop(t)
	}
}

// step lets a request come to gateway g, and some of its others end.
func (o *outage) step(g int, now time.Duration) {
	amount := []int64{50, 500, 500, 6000}[o.random.IntN(4)]
	id := len(o.admitted)
	lines := []budget.Line{line(o.lines[0].Limit, amount), line(o.lines[1].Limit, amount)}
	if v := o.gateways[g].reserve(fmt.Sprint(id), lines...); v.Outcome == budget.Granted {
		o.admitted = append(o.admitted, admission{at: now, reserved: amount})
		o.open[g] = append(o.open[g], id)
	}
	// Hoards grow for a while, then all of them end.
	for len(o.open[g]) > 0 && (o.random.IntN(3) == 0 || now%(20*time.Second) < time.Second) {
		o.end(g)
	}
}

// end ends one of gateway g's requests, which used nothing, half, or all.
func (o *outage) end(g int) {
	i := o.random.IntN(len(o.open[g]))
	id := o.open[g][i]
	o.open[g] = append(o.open[g][:i], o.open[g][i+1:]...)
	a := &o.admitted[id]
	a.used = a.reserved * o.random.Int64N(3) / 2
	o.gateways[g].Settle(fmt.Sprint(id), []int64{a.used, a.used})
}

// sum is what the requests used that came in [from, to).
func (o *outage) sum(from, to time.Duration) (used int64) {
	for _, a := range o.admitted {
		if a.at >= from && a.at < to {
			used += a.used
		}
	}
	return used
}
