package budgettest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"llmgw/internal/budget"
)

var propertyCases = []testCase{
	{"T1 where nothing comes back no interval uses more than B + r·t", func(b *table) {
		b.history(0, 5, long, wholly, func(h *history) { h.never(h.limit.Burst) })
	}},
	{"T2 without a bank cap no interval uses more than B + r·t + what is open and may come back", func(b *table) {
		b.history(0, 7, long, anyhow, func(h *history) { h.never(h.limit.Burst + h.debt + h.hoard) })
	}},
	{"T3 what is used beyond the reserves comes on top once, and is paid off", func(b *table) {
		b.history(0, 9, long, beyond, func(h *history) {
			h.never(h.limit.Burst + h.debt)
			if level := b.read(h.limit).Remaining; h.sum() != h.limit.Burst+h.refilled-level {
				b.t.Errorf("%d were used, but %d are left of %d and the %d that came", h.sum(), level, h.limit.Burst, h.refilled)
			}
		})
	}},
	{"T4 from the beginning on no more than B + r·t is used, whatever comes back", func(b *table) {
		b.history(0, 11, short, mostly, func(h *history) { h.neverFromTheStart(h.limit.Burst + h.debt) })
	}},
	{"T5 with a bank cap no interval uses more than k·B + r·t + debt", func(b *table) {
		for _, k := range []int64{1, 2, 4} {
			b.history(k, uint64(k), long, anyhow, func(h *history) { h.never(k*h.limit.Burst + h.debt) })
		}
	}},
	{"nothing is lost: what is left and what was used are the capacity", func(b *table) {
		usd := monthly(1_000_000, time.UTC)
		random := rand.New(rand.NewPCG(3, 3))
		used, open := int64(0), map[string]int64{}
		for range 400 {
			amount := random.Int64N(5000)
			if id, v := b.ask(line(usd, amount)); v.Outcome == budget.Granted {
				open[id] = amount
			}
			for id, reserved := range open {
				if random.IntN(2) == 0 {
					break
				}
				spent := random.Int64N(2*reserved + 1)
				b.settle(id, []budget.Line{line(usd, reserved)}, spent)
				used += spent
				delete(open, id)
			}
		}
		held := int64(0)
		for _, reserved := range open {
			held += reserved
		}
		b.left(usd, 1_000_000-used-held, held)
	}},
}

// history is a random past of one bucket: hoarding, cancelling, overrunning.
type history struct {
	b     *table
	what  string
	limit *budget.Limit
	debt  int64 // the most that was used beyond a reserve, in all
	hoard int64 // the most that was open at a time
	at    []int64
	used  []int64 // by requests admitted at
	// refilled is what came into the bucket, of a bucket that was never full.
	refilled int64
}

// How requests end: what is used of an amount.
func wholly(_ *rand.Rand, amount int64) int64 { return amount }

func beyond(random *rand.Rand, amount int64) int64 { return amount + random.Int64N(20) }

func mostly(random *rand.Rand, amount int64) int64 {
	return []int64{0, amount, amount, beyond(random, amount)}[random.IntN(4)]
}

func anyhow(random *rand.Rand, amount int64) int64 {
	return []int64{0, 0, amount, random.Int64N(amount + 1), beyond(random, amount)}[random.IntN(5)]
}

// The longest pauses of a history, in ms: after a long one the bucket is full, so
// that what comes meanwhile is lost; after short ones there is never enough.
const (
	long  = 20_000
	short = 1000
)

// history generates a past with pauses up to that long, in which requests end as
// use has it, and lets check look at it.
func (b *table) history(bank int64, seed uint64, pause int64, use func(*rand.Rand, int64) int64, check func(*history)) {
	b.t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	h := &history{b: b, what: fmt.Sprintf("bank %d, seed %d", bank, seed), limit: with(bucket("history", 6000), func(l *budget.Limit) {
		l.Name, l.Bank, l.Burst = fmt.Sprint("history", bank, "-", seed), bank, 1000
	})}
	type held struct {
		id     string
		amount int64
		index  int
	}
	var open []held
	now := int64(0)
	pass := func(ms int64) {
		before := b.read(h.limit).Remaining
		b.ms(ms)
		now += ms
		h.refilled += b.read(h.limit).Remaining - before
	}
	end := func(o held, used int64) {
		b.settle(o.id, []budget.Line{line(h.limit, o.amount)}, used)
		h.used[o.index] = used
		h.debt += max(0, used-o.amount)
	}
	for range 600 {
		switch random.IntN(10) {
		case 0: // a pause, in which a hoard would refill the bucket
			pass(random.Int64N(pause))
		case 1, 2:
			pass(1)
		case 3, 4, 5: // end one
			if len(open) == 0 {
				continue
			}
			i := random.IntN(len(open))
			end(open[i], use(random, open[i].amount))
			open = append(open[:i], open[i+1:]...)
		default:
			amount := []int64{1, 10, 250, 999, 1000}[random.IntN(5)]
			if id, v := b.ask(line(h.limit, amount)); v.Outcome == budget.Granted {
				open = append(open, held{id, amount, len(h.at)})
				h.at, h.used = append(h.at, now), append(h.used, 0)
			}
		}
		sum := int64(0)
		for _, o := range open {
			sum += o.amount
		}
		h.hoard = max(h.hoard, sum)
	}
	for _, o := range open { // those still running use all that they may
		end(o, o.amount)
	}
	check(h)
	if _, err := b.store.Reclaim(context.Background(), time.Hour, 0); err != nil {
		b.t.Fatalf("reclaim: %v", err)
	}
}

// never checks that no interval used more than burst and what the rate gives in
// it, and that some came near.
func (h *history) never(burst int64) {
	h.b.t.Helper()
	worst := int64(0)
	for i := range h.at {
		worst = max(worst, h.from(i, burst))
	}
	if worst <= h.limit.Burst/2 {
		h.b.t.Fatalf("%s: the history never came near its bound: %d", h.what, worst)
	}
}

// neverFromTheStart is never for the intervals that begin with the history, of
// which the longest must come near.
func (h *history) neverFromTheStart(burst int64) {
	h.b.t.Helper()
	h.from(0, burst)
	end := len(h.at) - 1
	if refilled := h.at[end] * h.limit.Amount / 60_000; h.sum() < refilled*9/10 {
		h.b.t.Fatalf("%s: the history never came near its bound: %d were used of %d", h.what, h.sum(), refilled)
	}
}

// from checks the intervals that begin with the i-th request, and returns the
// most that one used beyond what the rate gives.
func (h *history) from(i int, burst int64) (worst int64) {
	h.b.t.Helper()
	sum := int64(0)
	for j := i; j < len(h.at); j++ {
		sum += h.used[j]
		refilled := (h.at[j] - h.at[i]) * h.limit.Amount / 60_000
		worst = max(worst, sum-refilled)
		if sum > burst+refilled {
			h.b.t.Fatalf("%s: %d were used from %d to %d ms, at most %d may be", h.what, sum, h.at[i], h.at[j], burst+refilled)
		}
	}
	return worst
}

// sum is all that was used.
func (h *history) sum() int64 {
	sum := int64(0)
	for _, n := range h.used {
		sum += n
	}
	return sum
}
