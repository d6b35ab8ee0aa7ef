package budgettest

import (
	"time"

	"llmgw/internal/budget"
)

// claimCases are about large requests among small ones.
var claimCases = []testCase{
	{"S33 a large request among small ones is granted after twice what its refill takes", func(b *table) {
		l := with(bucket("tpm", 60_000), func(l *budget.Limit) { l.Bank = 0 })
		b.spend(l, 60_000)
		b.refuse(budget.Exceeded, line(l, 50_000))
		waited := b.among(l, 50_000, 1200) // small ones want 1.2 times the rate
		if most := 100*time.Second + 2*time.Second; waited > most {
			b.t.Errorf("granted after %v, want %v at most", waited, most)
		}
	}},
	{"S33 small requests keep half of the rate", func(b *table) {
		l := with(bucket("tpm", 60_000), func(l *budget.Limit) { l.Bank = 0 })
		b.spend(l, 60_000)
		granted := int64(0)
		for range 60 { // a large request that is always there
			b.refuse(budget.Exceeded, line(l, 50_000))
			for range 10 {
				b.ms(100)
				if _, v := b.ask(line(l, 100)); v.Outcome == budget.Granted {
					granted += 100
				}
			}
		}
		if granted < 29_900 || granted > 30_000 {
			b.t.Errorf("small requests had %d of the 60,000 of a minute, want half", granted)
		}
	}},
	{"S33 what fitted before a large request was refused fits after it", func(b *table) {
		l := bucket("tpm", 1000)
		b.spend(l, 600)
		b.refuse(budget.Exceeded, line(l, 900))
		b.ms(5000)
		b.refuse(budget.Exceeded, line(l, 901))
		b.grant(line(l, 400))
	}},
	{"S33 the one that waits alone is granted on its time", func(b *table) {
		l := bucket("tpm", 1000)
		b.spend(l, 1000)
		b.exact(line(l, 700))
	}},
	{"S33 what a claim binds is told when it fits", func(b *table) {
		l := bucket("tpm", 60_000)
		b.spend(l, 60_000)
		b.refuse(budget.Exceeded, line(l, 50_000))
		b.refuseFor(budget.Exceeded, 199, line(l, 100)) // 1 a millisecond, every other one set aside
		b.exact(line(l, 100))
	}},
	{"S33 a claim that nobody comes back for ends", func(b *table) {
		l := bucket("tpm", 60_000)
		b.spend(l, 60_000)
		b.refuse(budget.Exceeded, line(l, 16_000))
		b.ms(16_000 + 5000 - 1)
		b.refuse(budget.Exceeded, line(l, 10_501))
		b.ms(1)
		b.grant(line(l, 15_000)) // of the 21,000
	}},
	{"S33 no more is set aside than was claimed", func(b *table) {
		l := with(bucket("tps", 60_000), func(l *budget.Limit) { l.Period = budget.Second })
		b.spend(l, 60_000)
		b.refuse(budget.Exceeded, line(l, 16_000))
		b.ms(1000)
		b.grant(line(l, 44_000))
	}},
	{"S33 a granted request ends the claims of those that are no larger", func(b *table) {
		l := bucket("tpm", 60_000)
		b.spend(l, 60_000)
		b.refuse(budget.Exceeded, line(l, 20_000))
		b.ms(30_000)
		b.grant(line(l, 25_000))
		b.grant(line(l, 5000))
	}},
	{"S33 a quarter of the capacity claims nothing, nor does a request in shadow", func(b *table) {
		l := bucket("tpm", 60_000)
		b.spend(l, 60_000)
		b.refuse(budget.Exceeded, line(l, 15_000))
		b.request(budget.Request{ID: b.id(), Lines: []budget.Line{line(l, 50_000)}, Shadow: true})
		b.refuseFor(budget.Exceeded, 100, line(l, 100))
	}},
	{"S33 a claim is of the counters that were short alone", func(b *table) {
		team, key := bucket("tpm", 60_000), bucket("key", 60_000)
		b.spend(team, 60_000)
		b.refuse(budget.Exceeded, line(team, 50_000), line(key, 50_000))
		b.grant(line(key, 50_000))
		b.grant(line(key, 10_000))
	}},
}

// spend uses n of l, and keeps nothing open.
func (b *table) spend(l *budget.Limit, n int64) {
	b.t.Helper()
	b.settle(b.grant(line(l, n)), []budget.Line{line(l, n)}, n)
}

// among asks for large again and again, each time when it was told to, among
// small requests for perSecond in all that come ten times a second and take what
// they get. It returns how long that took.
func (b *table) among(l *budget.Limit, large, perSecond int64) time.Duration {
	b.t.Helper()
	began, due := b.now(), time.Duration(0)
	for waited := time.Duration(0); waited < time.Hour; waited = b.now().Sub(began) {
		if waited >= due {
			id, v := b.ask(line(l, large))
			if v.Outcome == budget.Granted {
				b.settle(id, []budget.Line{line(l, large)}, large)
				return waited
			}
			due = waited + v.Wait
		}
		b.ms(100)
		for range 4 {
			if id, v := b.ask(line(l, perSecond/40)); v.Outcome == budget.Granted {
				b.settle(id, []budget.Line{line(l, perSecond/40)}, perSecond/40)
			}
		}
	}
	b.t.Fatal("the large request was not granted within an hour")
	return 0
}
