package budgettest

import (
	"math/rand/v2"
	"time"

	"llmgw/internal/budget"
)

func sliding(algorithm budget.Algorithm, amount int64) *budget.Limit {
	return with(bucket("sliding", amount), func(l *budget.Limit) { l.Algorithm, l.Bank = algorithm, 0 })
}

// minuteStart moves the clock to the start of a minute, where windows begin.
func (b *table) minuteStart() {
	now := b.now()
	b.move(now.Truncate(time.Minute).Add(time.Minute).Sub(now))
}

var slidingCases = []testCase{
	{"a sliding window lets the last window fade", func(b *table) {
		w := sliding(budget.SlidingWindow, 60)
		b.minuteStart()
		b.grant(line(w, 60))
		b.refuse(budget.Exceeded, line(w, 1))
		b.ms(60_000)
		b.refuseFor(budget.Exceeded, 1, line(w, 1)) // 59 and a fraction count as 59
		b.ms(30_000)
		b.left(w, 30, 60)
		b.grant(line(w, 30))
		b.refuseFor(budget.Exceeded, 1, line(w, 1))
		b.refuseFor(budget.Exceeded, 1_001, line(w, 2))
	}},
	{"S5 a sliding window's wait is exact, within a window and over its end", func(b *table) {
		w := sliding(budget.SlidingWindow, 61)
		b.minuteStart()
		b.grant(line(w, 50))
		b.ms(59_999)
		b.grant(line(w, 11))
		b.exact(line(w, 7))
		b.exact(line(w, 33))
		b.exact(line(w, 61))
	}},
	{"S36 a sliding window refunds to the window it took from, or nowhere", func(b *table) {
		w := sliding(budget.SlidingWindow, 60)
		lines := []budget.Line{line(w, 60)}
		b.minuteStart()
		first := b.grant(lines...)
		b.ms(90_000)
		b.left(w, 30, 60)
		b.settle(first, lines, 30)
		b.left(w, 45, 0)
		late := b.grant(line(w, 45))
		b.ms(120_000)
		b.settle(late, []budget.Line{line(w, 45)}, 0)
		b.left(w, 60, 0)
	}},
	{"S8 a sliding window owes what was used beyond the reserve", func(b *table) {
		w := sliding(budget.SlidingWindow, 60)
		lines := []budget.Line{line(w, 10)}
		b.minuteStart()
		b.settle(b.grant(lines...), lines, 90)
		b.left(w, -30, 0)
		b.exact(line(w, 1))
	}},
	{"a sliding log counts every grant for exactly a window", func(b *table) {
		w := sliding(budget.SlidingLog, 3)
		b.grant(line(w, 1))
		b.ms(10_000)
		b.grant(line(w, 2))
		b.refuseFor(budget.Exceeded, 50_000, line(w, 1))
		b.refuseFor(budget.Exceeded, 60_000, line(w, 2))
		b.exact(line(w, 1))
		b.exact(line(w, 2))
	}},
	{"S36 a sliding log refunds the entry it made, if it still counts", func(b *table) {
		w := sliding(budget.SlidingLog, 3)
		lines := []budget.Line{line(w, 2)}
		id := b.grant(lines...)
		b.ms(1_000)
		b.settle(id, lines, 1)
		b.left(w, 2, 0)
		late := b.grant(lines...)
		b.ms(59_000)
		b.left(w, 1, 2)
		b.ms(60_000)
		b.settle(late, lines, 0)
		b.left(w, 3, 0)
	}},
	{"S8 a sliding log owes what was used beyond the reserve", func(b *table) {
		w := sliding(budget.SlidingLog, 3)
		lines := []budget.Line{line(w, 1)}
		id := b.grant(lines...)
		b.ms(1_000)
		b.settle(id, lines, 5)
		b.left(w, -2, 0)
		b.exact(line(w, 1))
	}},
	{"S20 sliding counters follow a clock that is far back", func(b *table) {
		for _, algorithm := range []budget.Algorithm{budget.SlidingWindow, budget.SlidingLog} {
			w := sliding(algorithm, 3)
			w.Name = string(algorithm)
			b.grant(line(w, 3))
			b.move(-time.Hour)
			if v := b.refuse(budget.Exceeded, line(w, 1)); v.Wait > 2*time.Minute {
				b.t.Errorf("%s: got wait %v, want at most two windows", algorithm, v.Wait)
			}
		}
	}},
	{"no minute of a sliding log has more than its amount, none of a sliding window twice that", func(b *table) {
		log, window := sliding(budget.SlidingLog, 100), sliding(budget.SlidingWindow, 100)
		log.Name, window.Name = "log", "window"
		if got := b.worstMinute(log); got != 100 {
			b.t.Errorf("a log: got %d used in a minute, want 100 and no more", got)
		}
		if got := b.worstMinute(window); got <= 150 || got > 200 {
			b.t.Errorf("a window: got %d used in a minute, want more than 150 and at most 200", got)
		}
	}},
	{"S22 another algorithm keeps what was used", func(b *table) {
		before := sliding(budget.SlidingWindow, 60)
		after := with(before, func(l *budget.Limit) { l.Algorithm, l.Version = budget.TokenBucket, 2 })
		lines := []budget.Line{line(before, 40)}
		id := b.grant(lines...)
		b.left(after, 20, 0)
		b.grant(line(after, 20))
		b.settle(id, lines, 30)
		b.left(after, 10, 0)
	}},
}

// worstMinute lets requests come at random, some for all of it in the last half
// second of minutes, and tells the most that was used of l by those of one minute.
func (b *table) worstMinute(l *budget.Limit) (worst int64) {
	random := rand.New(rand.NewPCG(6, 6))
	var used []int64
	var at []time.Time
	for range 800 {
		amount := []int64{1, 10, 40}[random.IntN(3)]
		switch random.IntN(6) {
		case 0, 1:
			b.minuteStart()
			b.ms(59_500 + random.Int64N(500))
			amount = l.Amount
		case 2:
			b.ms(random.Int64N(30_000))
		}
		if id, v := b.ask(line(l, amount)); v.Outcome == budget.Granted {
			used, at = append(used, []int64{0, amount / 2, amount, amount}[random.IntN(4)]), append(at, b.now())
			b.settle(id, []budget.Line{line(l, amount)}, used[len(used)-1])
		}
	}
	for i := range at {
		sum := int64(0)
		for j := i; j < len(at) && at[j].Sub(at[i]) < time.Minute; j++ {
			sum += used[j]
		}
		worst = max(worst, sum)
	}
	return worst
}
