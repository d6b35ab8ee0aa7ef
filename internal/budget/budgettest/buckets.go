package budgettest

import (
	"context"
	"fmt"
	"time"

	"llmgw/internal/budget"
)

var bucketCases = []testCase{
	{"S1 a cost above the capacity never fits, and the capacity itself does", func(b *table) {
		tpm := bucket("tpm", 100)
		v := b.refuse(budget.NeverFits, line(tpm, 101))
		if v.Wait != 0 || v.Binding != 0 {
			b.t.Errorf("got wait %v of line %d, want none of line 0", v.Wait, v.Binding)
		}
		b.left(tpm, 100, 0)
		b.grant(line(tpm, 100))
		b.left(tpm, 0, 100)
	}},
	{"S2 a cost of nothing is granted, even in debt", func(b *table) {
		tpm := bucket("tpm", 100)
		lines := []budget.Line{line(tpm, 100)}
		b.settle(b.grant(lines...), lines, 150)
		b.left(tpm, -50, 0)
		b.grant(line(tpm, 0))
		b.left(tpm, -50, 0)
	}},
	{"S2 a negative or absurd cost is an error and changes nothing", func(b *table) {
		tpm := bucket("tpm", 100)
		b.fails(budget.ErrAmount, budget.Request{ID: "minus", Lines: []budget.Line{line(tpm, -5)}})
		b.fails(budget.ErrAmount, budget.Request{ID: "huge", Lines: []budget.Line{line(tpm, 1<<53)}})
		b.refuse(budget.NeverFits, line(tpm, 1<<53-1))
		b.left(tpm, 100, 0)
	}},
	{"S5 the wait is exact to the millisecond", func(b *table) {
		for _, amount := range []int64{1, 7, 59_999, 60_000, 60_001, 1_000_003} {
			tpm := with(bucket(fmt.Sprint("tpm", amount), amount), func(l *budget.Limit) { l.Bank = 0 })
			b.grant(line(tpm, amount))
			b.exact(line(tpm, 1))
			b.exact(line(tpm, (amount+1)/2))
		}
	}},
	{"S5 a bucket refills without rounding", func(b *table) {
		third := with(bucket("third", 20), func(l *budget.Limit) { l.Bank = 0 }) // a unit every 3 s
		b.grant(line(third, 20))
		for range 3000 {
			b.ms(1)
			b.read(third)
		}
		b.left(third, 1, 20)
		b.ms(2999)
		b.left(third, 1, 20)
		b.ms(1)
		b.left(third, 2, 20)
	}},
	{"S6 a refund comes after the refill and is capped", func(b *table) {
		tpm := bucket("tpm", 60)
		lines := []budget.Line{line(tpm, 50)}
		id := b.grant(lines...)
		b.ms(20_000) // 10 + 20
		b.settle(id, lines, 0)
		b.left(tpm, 60, 0)
		b.ms(1)
		b.grant(line(tpm, 60))
		b.left(tpm, 0, 60)
		b.ms(999)
		b.left(tpm, 0, 60) // the cap kept no fraction
	}},
	{"S6 a debit comes after the refill, or the overflow would swallow it", func(b *table) {
		tpm := bucket("tpm", 60)
		lines := []budget.Line{line(tpm, 10)}
		id := b.grant(lines...)
		b.ms(3_600_000)
		b.settle(id, lines, 40)
		b.left(tpm, 30, 0)
	}},
	{"S8 what was used beyond the reserve is charged as debt", func(b *table) {
		tpm := bucket("tpm", 1000)
		lines := []budget.Line{line(tpm, 500)}
		b.settle(b.grant(lines...), lines, 1400)
		b.left(tpm, -400, 0)
		b.exact(line(tpm, 1))
	}},
	{"S8 two that overshoot are both charged in full", func(b *table) {
		tpm := bucket("tpm", 1000)
		lines := []budget.Line{line(tpm, 500)}
		one, two := b.grant(lines...), b.grant(lines...)
		b.settle(one, lines, 900)
		b.settle(two, lines, 900)
		b.left(tpm, -800, 0)
	}},
	{"S9 an absurd usage locks for no longer than the debt, and the rest is told", func(b *table) {
		tpm := bucket("tpm", 1000) // max_debt 10,000
		lines := []budget.Line{line(tpm, 500)}
		got := b.settleAny(b.grant(lines...), lines, 1<<53-1)
		if want := int64(1<<53-1) - 500 - 10_500; got.Unbooked != want {
			b.t.Errorf("unbooked: got %d, want %d", got.Unbooked, want)
		}
		b.left(tpm, -10_000, 0)
		b.refuseFor(budget.Exceeded, 11*60_000, line(tpm, 1000))
	}},
	{"S20 a clock a little back grants no refill and loses none", func(b *table) {
		tpm := bucket("tpm", 60_000)
		b.grant(line(tpm, 60_000))
		b.ms(10)
		b.grant(line(tpm, 1))
		b.ms(-5000)
		b.left(tpm, 9, 60_001)
		b.exact(line(tpm, 10)) // when the clock is back where it was, and one on
	}},
	{"S20 a clock far back is followed, for nothing, even on a refusal", func(b *table) {
		tpm := bucket("tpm", 60_000)
		b.grant(line(tpm, 60_000))
		b.ms(10)
		b.grant(line(tpm, 1)) // writes the time
		b.ms(-5001)
		b.refuseFor(budget.Exceeded, 91, line(tpm, 100))
		b.ms(91)
		b.grant(line(tpm, 100))
	}},
	{"S21 a clock far ahead gives at most one bucket", func(b *table) {
		tpm := bucket("tpm", 100)
		lines := []budget.Line{line(tpm, 100)}
		b.settle(b.grant(lines...), lines, 300)
		b.move(1000 * time.Hour)
		b.left(tpm, 100, 0)
	}},
	{"S22 newer rules keep what was used, and older callers do not undo them", func(b *table) {
		before := bucket("tpm", 100)
		after := with(bucket("tpm", 150), func(l *budget.Limit) { l.Version = 2 })
		b.grant(line(before, 60))
		b.left(after, 90, 60)
		b.grant(line(after, 1))
		if got := b.read(before); got.Capacity != 150 || got.Remaining != 89 {
			b.t.Errorf("an older caller sees %d of %d, want 89 of 150", got.Remaining, got.Capacity)
		}
		b.grant(line(before, 89))
		b.left(after, 0, 150)
	}},
	{"S22 older callers are told the amounts in force", func(b *table) {
		for _, alg := range []budget.Algorithm{budget.TokenBucket, budget.SlidingWindow, budget.SlidingLog, budget.Pacing} {
			before := with(bucket(string(alg), 700), func(l *budget.Limit) {
				if l.Algorithm = alg; alg == budget.TokenBucket || alg == budget.Pacing {
					l.Burst = 900
				}
			})
			after := with(before, func(l *budget.Limit) { l.Amount, l.Burst, l.Version = 70, 90, 2 })
			b.grant(line(before, 1))
			if got := b.read(before); before.Drifts(got) || before.InForce(got) != before {
				b.t.Errorf("%s: its own caller is told other amounts: %+v", alg, got)
			}
			b.grant(line(after, 1))
			told := b.read(before)
			_, v := b.ask(line(before, 1))
			for what, got := range map[string]budget.LineState{"a reading": told, "a decision": v.Lines[0]} {
				if in := before.InForce(got); !before.Drifts(got) || in.Amount != 70 || in.Capacity() != after.Capacity() {
					b.t.Errorf("%s: %s tells an older caller %d of %d, want 70 of %d", alg, what, in.Amount, in.Capacity(), after.Capacity())
				}
			}
			if got := b.read(after); after.Drifts(got) {
				b.t.Errorf("%s: a newer caller is told %+v", alg, got)
			}
		}
	}},
	{"S22 a rate changes from now on, even on a refusal", func(b *table) {
		slow := bucket("tpm", 60) // one a second
		fast := with(slow, func(l *budget.Limit) { l.Amount, l.Version = 600, 2 })
		mild := with(fast, func(l *budget.Limit) { l.MaxDebt, l.Version = 2, 3 })
		lines := []budget.Line{line(slow, 60)}
		b.settle(b.grant(lines...), lines, 80) // 20 in debt
		b.ms(10_000)
		b.refuseFor(budget.Exceeded, 3_000, line(fast, 20)) // 10 in debt, ten a second from now on
		b.ms(500)
		b.left(slow, -5, 0)
		b.refuseFor(budget.Exceeded, 1_200, line(mild, 10)) // the debt is clamped to 2
	}},
	{"S1 the capacity is that of the rules in force", func(b *table) {
		small := bucket("tpm", 100)
		large := with(bucket("tpm", 200), func(l *budget.Limit) { l.Version = 2 })
		b.grant(line(large, 1))
		b.grant(line(small, 150))
	}},
	{"S23 a new counter is full, or empty if money wants it", func(b *table) {
		b.left(bucket("full", 60), 60, 0)
		empty := with(bucket("empty", 60), func(l *budget.Limit) { l.StartEmpty = true })
		b.refuseFor(budget.Exceeded, 10_000, line(empty, 10))
		b.ms(10_000)
		b.grant(line(empty, 10))
	}},
	{"S42 the reset is the time to full", func(b *table) {
		tpm := bucket("tpm", 60)
		b.grant(line(tpm, 30))
		if got := b.read(tpm); got.Reset != 30*time.Second {
			b.t.Errorf("reset: got %v, want 30s", got.Reset)
		}
	}},
	{"T5 open reservations stop the refill at the bank cap, and are named for it", func(b *table) {
		tpm := with(bucket("tpm", 60), func(l *budget.Limit) { l.Bank = 1 })
		lines := []budget.Line{line(tpm, 40)}
		id := b.grant(lines...)
		b.move(time.Hour)
		b.left(tpm, 20, 40)
		v := b.refuse(budget.HeldBack, line(tpm, 30))
		if v.Wait <= 0 {
			b.t.Errorf("wait: got %v, want a hint", v.Wait)
		}
		b.settle(id, lines, 10)
		b.left(tpm, 50, 0)
		b.grant(line(tpm, 30))
	}},
	{"a correction lowers a counter and never raises it", func(b *table) {
		tpm := bucket("tpm", 100)
		b.correct(budget.Correction{Line: line(tpm, 0), AtMost: 70})
		b.left(tpm, 70, 0)
		b.correct(budget.Correction{Line: line(tpm, 0), AtMost: 90})
		b.left(tpm, 70, 0)
		b.correct(budget.Correction{Line: line(tpm, 0), AtMost: -1})
		b.left(tpm, 70, 0)
	}},
	{"a counter that begins anew forgets its debt and keeps what is open", func(b *table) {
		for _, l := range []*budget.Limit{
			bucket("bucket", 100), with(bucket("empty", 100), func(l *budget.Limit) { l.StartEmpty = true }),
			monthly(100, time.UTC), sliding(budget.SlidingWindow, 100),
			with(sliding(budget.SlidingLog, 100), func(l *budget.Limit) { l.Name = "log" }),
		} {
			b.correct(budget.Correction{Line: line(l, 0), Anew: true}) // of a counter that nobody has used
			b.left(l, 100, 0)
			spent := []budget.Line{line(l, 50)}
			b.settle(b.grant(spent...), spent, 170)
			open := []budget.Line{line(l, 30)}
			id := b.id()
			b.request(budget.Request{ID: id, Lines: open, Force: true})
			b.correct(budget.Correction{Line: line(l, 0), Anew: true})
			b.left(l, 70, 30)
			b.settle(id, open, 10)
			if l.Algorithm != budget.SlidingLog || b.read(l).Remaining != 90 {
				b.left(l, 90, 0)
			}
			b.correct(budget.Correction{Line: line(l, 0), Anew: true})
			b.correct(budget.Correction{Line: line(l, 0), Anew: true}) // again it does nothing
			b.left(l, 100, 0)
		}
		two := slots("two", 2)
		id := b.grant(line(two, 1))
		b.correct(budget.Correction{Line: line(two, 0), Anew: true})
		b.left(two, 1, 1)
		b.settle(id, []budget.Line{line(two, 1)}, 0)
		b.left(two, 2, 0)
	}},
	{"another amount is in force for what was used before, and ends", func(b *table) {
		for _, l := range []*budget.Limit{
			bucket("bucket", 100), monthly(100, time.UTC), sliding(budget.SlidingWindow, 100),
			with(sliding(budget.SlidingLog, 100), func(l *budget.Limit) { l.Name = "log" }),
		} {
			b.grant(line(l, 80))
			raised := l.WithAmount(150, l.Version+1)
			b.grant(line(raised, 60))
			b.refuse(budget.NeverFits, line(l.WithAmount(40, l.Version+2), 41))
			b.refuse(budget.NeverFits, line(l.WithAmount(100, l.Version+3), 101))
		}
	}},
	{"a pause grants nothing until it ends", func(b *table) {
		tpm := bucket("tpm", 100)
		b.correct(budget.Correction{Line: line(tpm, 0), AtMost: -1, Pause: 7 * time.Second})
		b.correct(budget.Correction{Line: line(tpm, 0), AtMost: -1, Pause: 3 * time.Second})
		b.refuseFor(budget.Exceeded, 7_000, line(tpm, 1))
		b.exact(line(tpm, 100))
	}},
	{"pacing grants more than its capacity when full, and then owes it", func(b *table) {
		pace := with(bucket("pace", 6000), func(l *budget.Limit) { // one every 10 ms
			l.Algorithm, l.Burst, l.MaxDebt, l.Bank = budget.Pacing, 10, 100_000, 0
		})
		b.grant(line(pace, 50))
		b.left(pace, -40, 50)
		b.refuseFor(budget.Exceeded, 410, line(pace, 1))
		b.refuseFor(budget.Exceeded, 500, line(pace, 3000))
		b.ms(500)
		b.grant(line(pace, 3000))
		b.left(pace, -2990, 3050)
	}},
}

func (b *table) correct(c budget.Correction) {
	b.t.Helper()
	if err := b.store.Correct(context.Background(), []budget.Correction{c}); err != nil {
		b.t.Fatalf("correct: %v", err)
	}
}
