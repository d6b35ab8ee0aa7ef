package budgettest

import (
	"time"

	"llmgw/internal/budget"
)

// windowCases are what counters of a window have been known to get wrong. They
// are named as in the collection of cases.
var windowCases = []testCase{
	{"A10 refused calls cost nothing, however often they come", func(b *table) {
		for _, every := range []time.Duration{time.Second, 5 * time.Second} {
			l := requests(every.String(), 5)
			for minute := range 5 {
				passed, want := 0, 5
				for range int(time.Minute / every) {
					if _, v := b.ask(line(l, 1)); v.Outcome == budget.Granted {
						passed++
					}
					b.move(every)
				}
				if minute == 0 {
					want = 9 // the full bucket, and what comes back from its first use on
				}
				if passed != want {
					b.t.Errorf("every %v, minute %d: %d passed, want %d", every, minute+1, passed, want)
				}
			}
		}
	}},
	{"E2 the same minute of the next day is a new one", func(b *table) {
		for _, l := range rates(100) {
			b.spend(l, 100)
			b.refuse(budget.Exceeded, line(l, 1))
			b.move(24 * time.Hour)
			b.left(l, 100, 0)
			b.spend(l, 100)
		}
	}},
	{"E3 requests and tokens have clocks of their own", func(b *table) {
		rpm, tpm := requests("rpm", 2), bucket("tpm", 1000)
		b.spend(tpm, 1000)
		b.ms(30_000)
		both := []budget.Line{line(rpm, 1), line(tpm, 250)}
		b.grant(both...)
		b.grant(both...)
		if v := b.refuse(budget.Exceeded, both...); v.Wait != 30*time.Second || v.Binding != 0 {
			b.t.Fatalf("got %v by line %d, want the 30 s of a request", v.Wait, v.Binding)
		}
		b.ms(30_000) // the tokens of a minute ago are back by half, whatever the requests did
		b.grant(both...)
		b.left(tpm, 250, 750)
	}},
	{"E6 what is used later does not move the end of a window", func(b *table) {
		month := monthly(1000, time.UTC)
		window := with(bucket("window", 1000), func(l *budget.Limit) { l.Algorithm, l.Bank = budget.SlidingWindow, 0 })
		for _, l := range []*budget.Limit{month, window} {
			id := b.grant(line(l, 100))
			first := b.now().Add(b.read(l).Reset)
			b.ms(1000)
			b.settle(id, []budget.Line{line(l, 100)}, 60)
			b.spend(l, 200)
			if got := b.now().Add(b.read(l).Reset); !got.Equal(first) {
				b.t.Errorf("%s: the end moved from %v to %v", l.Algorithm, first, got)
			}
		}
	}},
	{"E8 both sides of a minute's end grant no more than the capacity and the refill", func(b *table) {
		b.move(b.now().Truncate(time.Minute).Add(time.Minute - 100*time.Millisecond).Sub(b.now()))
		for _, l := range rates(6000) {
			granted := b.drain(l)
			b.ms(200) // over the end of the minute
			if granted += b.drain(l); granted > 6000+20 {
				b.t.Errorf("%s: %d granted around the end of a minute, want 6,000 and the 20 of 200 ms", l.Algorithm, granted)
			}
			b.ms(-200)
		}
	}},
}

// requests is a limit of so many requests a minute.
func requests(name string, amount int64) *budget.Limit {
	return with(bucket(name, amount), func(l *budget.Limit) { l.Unit, l.Bank = budget.Requests, 0 })
}

// rates are limits of amount a minute by each algorithm that has minutes.
func rates(amount int64) []*budget.Limit {
	var all []*budget.Limit
	for _, a := range []budget.Algorithm{budget.TokenBucket, budget.SlidingWindow, budget.SlidingLog} {
		all = append(all, with(bucket(string(a), amount), func(l *budget.Limit) {
			l.Algorithm, l.Bank = a, 0
			if a == budget.SlidingLog {
				l.Amount, l.Burst = min(amount, 1000), min(amount, 1000)
			}
		}))
	}
	return all
}

// drain takes what l grants, and returns how much that was.
func (b *table) drain(l *budget.Limit) int64 {
	b.t.Helper()
	left := max(0, b.read(l).Remaining)
	b.spend(l, left)
	if _, v := b.ask(line(l, 1)); v.Outcome == budget.Granted {
		b.t.Errorf("%s: granted more than it said was left", l.Algorithm)
	}
	return left
}
