package budgettest

import (
	"context"
	"math/rand/v2"
	"time"

	"llmgw/internal/budget"
)

var propertyCases = []testCase{
	{"T5 with a bank cap no interval uses more than k·B + r·t + debt", func(b *table) {
		for _, k := range []int64{1, 2, 4} {
			b.history(k, uint64(k), func(h *history) int64 { return k*h.limit.Burst + h.debt })
		}
	}},
	{"T2 without a bank cap no interval uses more than B + r·t + what is open and may come back", func(b *table) {
		b.history(0, 7, func(h *history) int64 { return h.limit.Burst + h.debt + h.hoard })
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
	limit *budget.Limit
	debt  int64 // the most that was used beyond a reserve, in all
	hoard int64 // the most that was open at a time
	at    []int64
	used  []int64 // by requests admitted at
}

// history generates a past and checks every interval of it against burst plus
// what the rate gives.
func (b *table) history(bank int64, seed uint64, burst func(*history) int64) {
	b.t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	h := &history{limit: with(bucket("history", 6000), func(l *budget.Limit) {
		l.Name, l.Bank, l.Burst = "history"+string(rune('0'+bank)), bank, 1000
	})}
	type held struct {
		id     string
		amount int64
		index  int
	}
	var open []held
	now := int64(0)
	for range 600 {
		switch random.IntN(10) {
		case 0: // a pause, in which a hoard would refill the bucket
			step := random.Int64N(20_000)
			b.ms(step)
			now += step
		case 1, 2:
			b.ms(1)
			now++
		case 3, 4, 5: // end one: cancelled, used, or used beyond
			if len(open) == 0 {
				continue
			}
			i := random.IntN(len(open))
			o := open[i]
			open = append(open[:i], open[i+1:]...)
			used := []int64{0, 0, o.amount, random.Int64N(o.amount + 1), o.amount + random.Int64N(20)}[random.IntN(5)]
			b.settle(o.id, []budget.Line{line(h.limit, o.amount)}, used)
			h.used[o.index] = used
			h.debt += max(0, used-o.amount)
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
		b.settle(o.id, []budget.Line{line(h.limit, o.amount)}, o.amount)
		h.used[o.index] = o.amount
	}
	most, worst := burst(h), int64(0)
	for i := range h.at {
		sum := int64(0)
		for j := i; j < len(h.at); j++ {
			sum += h.used[j]
			refilled := (h.at[j] - h.at[i]) * h.limit.Amount / 60_000
			worst = max(worst, sum-refilled)
			if sum > most+refilled {
				b.t.Fatalf("bank %d, seed %d: %d were used from %d to %d ms, at most %d may be", bank, seed, sum, h.at[i], h.at[j], most+refilled)
			}
		}
	}
	if worst <= h.limit.Burst/2 {
		b.t.Fatalf("bank %d, seed %d: the history never came near its bound: %d", bank, seed, worst)
	}
	if _, err := b.store.Reclaim(context.Background(), time.Hour, 0); err != nil {
		b.t.Fatalf("reclaim: %v", err)
	}
}
