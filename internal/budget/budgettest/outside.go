package budgettest

import (
	"time"

	"llmgw/internal/budget"
)

var outsideCases = []testCase{
	{"a reservation of no gateway outlives all gateways and ends at its lifetime by its crash charge", func(b *table) {
		tpm := with(bucket("tpm", 1000), func(l *budget.Limit) { l.Amount = 1 }) // next to no refill
		lines := []budget.Line{line(tpm, 100), line(slots("slots", 5), 1)}
		b.beat(b.epoch)
		b.request(budget.Request{ID: "rsv", Epoch: budget.Outside, Lines: lines, Lifetime: 5 * time.Minute, CrashCharge: budget.ChargeFull})
		b.die()
		if got, want := b.reclaim(silence, 100), (reclaimed{Epochs: 1}); got != want {
			b.t.Fatalf("got %+v, want the gateway alone", got)
		}
		if got := b.beat(b.epoch); got.Live != 1 {
			b.t.Errorf("alive: got %d, want 1", got.Live)
		}
		if got := b.read(tpm).Open; got != 100 {
			b.t.Fatalf("got %d open, want 100", got)
		}
		b.move(5 * time.Minute)
		b.beat(b.epoch)
		if got := b.reclaim(silence, 100); got.Records != 1 {
			b.t.Fatalf("got %+v, want the one record", got)
		}
		if got := b.read(tpm); got.Open != 0 || got.Remaining > 905 {
			b.t.Errorf("got %+v, want it charged in full", got)
		}
	}},
	{"a reservation of no gateway is prolonged, at any gateway", func(b *table) {
		slot := slots("slots", 5)
		lines := []budget.Line{line(slot, 1)}
		b.request(budget.Request{ID: "rsv", Epoch: budget.Outside, Lines: lines, Lifetime: time.Minute})
		b.move(50 * time.Second)
		if err := b.store.Report(b.t.Context(), []budget.Progress{{ID: "rsv", Lines: lines, Lifetime: 30 * time.Minute}}); err != nil {
			b.t.Fatal(err)
		}
		b.move(29 * time.Minute)
		if got := b.reclaim(time.Hour, 100); got.Records != 0 {
			b.t.Fatalf("got %+v before its time", got)
		}
		if got := b.read(slot).Open; got != 1 {
			b.t.Fatalf("got %d slots, want 1", got)
		}
		b.move(2 * time.Minute)
		if got := b.reclaim(time.Hour, 100); got.Records != 1 {
			b.t.Fatalf("got %+v, want the one record", got)
		}
		if got := b.read(slot).Open; got != 0 {
			b.t.Errorf("got %d slots, want 0", got)
		}
	}},
}

var returnCases = []testCase{
	{"what was used is given back, up to all of it", func(b *table) {
		monthly := with(bucket("monthly", 1000), func(l *budget.Limit) {
			l.Period, l.Algorithm, l.Burst, l.Bank, l.Location = budget.Month, budget.CalendarUsage, 0, 0, time.UTC
		})
		tpm := with(bucket("tpm", 1000), func(l *budget.Limit) { l.Amount = 1 }) // next to no refill
		for _, l := range []*budget.Limit{monthly, tpm} {
			id := b.grant(line(l, 300))
			b.settle(id, []budget.Line{line(l, 300)}, 300)
			for _, s := range []struct{ n, want int64 }{{100, 800}, {5000, 1000}} {
				if err := b.store.Correct(b.t.Context(), []budget.Correction{{Line: line(l, 0), Return: s.n}}); err != nil {
					b.t.Fatal(err)
				}
				if got := b.read(l).Remaining; got != s.want {
					b.t.Errorf("%s: %d are left after %d came back, want %d", l.Name, got, s.n, s.want)
				}
			}
		}
	}},
}
