package budgettest

import (
	"time"

	"llmgw/internal/budget"
)

// monthly is a budget of dollars a month.
func monthly(amount int64, loc *time.Location) *budget.Limit {
	return with(bucket("monthly", amount), func(l *budget.Limit) {
		l.Unit, l.Period, l.Algorithm, l.Location, l.ResetDay = budget.USD, budget.Month, budget.CalendarUsage, loc, 1
		l.Burst, l.Bank, l.MaxDebt, l.UnboundedDebt = amount, 0, 0, true
	})
}

// to moves the clock to a moment.
func (b *table) to(at time.Time) { b.move(at.Sub(b.now())) }

func zone(b *table, name string) *time.Location {
	b.t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		b.t.Fatalf("time zone: %v", err)
	}
	return loc
}

var calendarCases = []testCase{
	{"S36 a calendar budget is spent until its period ends", func(b *table) {
		usd := monthly(100, time.UTC)
		b.to(time.Date(2027, 1, 31, 23, 59, 0, 0, time.UTC))
		b.grant(line(usd, 100))
		b.refuseFor(budget.Spent, 60_000, line(usd, 1))
		b.exact(line(usd, 100))
	}},
	{"S36 a refund goes into the period it was taken from, or nowhere", func(b *table) {
		usd := monthly(100, time.UTC)
		lines := []budget.Line{line(usd, 80)}
		b.to(time.Date(2027, 1, 31, 23, 59, 59, 0, time.UTC))
		same, late := b.grant(line(usd, 20)), b.grant(lines...)
		b.settle(same, []budget.Line{line(usd, 20)}, 5)
		b.left(usd, 15, 80)
		b.ms(1000)
		b.left(usd, 100, 0)
		b.grant(line(usd, 100))
		b.settle(late, lines, 10)
		b.left(usd, 0, 100)
	}},
	{"S36 an overrun after the period's end goes to the current one", func(b *table) {
		usd := monthly(100, time.UTC)
		lines := []budget.Line{line(usd, 80)}
		b.to(time.Date(2027, 1, 31, 23, 59, 59, 0, time.UTC))
		id := b.grant(lines...)
		b.ms(1000)
		b.settle(id, lines, 95)
		b.left(usd, 85, 0)
	}},
	{"S8 a calendar budget's debt has no bound", func(b *table) {
		usd := monthly(100, time.UTC)
		lines := []budget.Line{line(usd, 100)}
		got := b.settleAny(b.grant(lines...), lines, 1_000_000_000)
		if got.Unbooked != 0 {
			b.t.Errorf("unbooked: got %d, want nothing", got.Unbooked)
		}
		b.left(usd, 100-1_000_000_000, 0)
	}},
	{"S37 a day has 23 or 25 hours where clocks change", func(b *table) {
		athens := zone(b, "Europe/Athens")
		daily := with(monthly(100, athens), func(l *budget.Limit) { l.Period = budget.Day })
		for _, day := range []struct {
			start time.Time
			hours time.Duration
		}{
			{time.Date(2027, 3, 28, 0, 0, 0, 0, athens), 23},
			{time.Date(2027, 10, 31, 0, 0, 0, 0, athens), 25},
		} {
			b.to(day.start)
			b.grant(line(daily, 100))
			b.refuseFor(budget.Spent, (day.hours * time.Hour).Milliseconds(), line(daily, 1))
		}
	}},
	{"S37 weeks and months begin on their reset day", func(b *table) {
		weekly := with(monthly(100, time.UTC), func(l *budget.Limit) { l.Period, l.ResetDay, l.Name = budget.Week, 3, "weekly" })
		last := with(monthly(100, time.UTC), func(l *budget.Limit) { l.ResetDay, l.Name = 31, "last" })
		b.to(time.Date(2027, 2, 10, 0, 0, 0, 0, time.UTC)) // a Wednesday
		b.grant(line(weekly, 100))
		b.grant(line(last, 100))
		b.refuseFor(budget.Spent, 7*24*3600_000, line(weekly, 1))
		b.refuseFor(budget.Spent, 18*24*3600_000, line(last, 1))
	}},
	{"S20 a clock a little back stays in the period it was in", func(b *table) {
		usd := monthly(100, time.UTC)
		b.to(time.Date(2027, 2, 1, 0, 0, 0, 0, time.UTC))
		b.grant(line(usd, 60))
		b.ms(-1000)
		b.left(usd, 40, 60)
		b.ms(1000)
		b.left(usd, 40, 60)
	}},
	{"S20 a clock far back keeps what was used", func(b *table) {
		usd := monthly(100, time.UTC)
		b.to(time.Date(2027, 2, 15, 0, 0, 0, 0, time.UTC))
		b.grant(line(usd, 60))
		b.to(time.Date(2027, 1, 15, 0, 0, 0, 0, time.UTC))
		b.left(usd, 40, 60)
		b.refuseFor(budget.Spent, 17*24*3600_000, line(usd, 50))
	}},
	{"S20 a clock over a period's end and back keeps what was used in both", func(b *table) {
		usd := monthly(100, time.UTC)
		end := time.Date(2027, 2, 1, 0, 0, 0, 0, time.UTC)
		b.to(end.Add(-time.Hour))
		b.grant(line(usd, 60))
		b.to(end.Add(time.Hour)) // it is wrong
		b.grant(line(usd, 30))
		b.left(usd, 70, 30)
		b.to(end.Add(-time.Hour))
		b.left(usd, 10, 30)
		b.refuseFor(budget.Spent, 3600_000, line(usd, 11))
		b.to(end)
		b.grant(line(usd, 100))
	}},
	{"S20 what a clock skipped is not charged to the period that it returns to", func(b *table) {
		usd := monthly(100, time.UTC)
		b.to(time.Date(2027, 1, 15, 0, 0, 0, 0, time.UTC))
		b.grant(line(usd, 60))
		b.to(time.Date(2027, 3, 15, 0, 0, 0, 0, time.UTC))
		b.grant(line(usd, 30))
		b.to(time.Date(2027, 2, 15, 0, 0, 0, 0, time.UTC))
		b.left(usd, 70, 30)
	}},
	{"S22 another time zone keeps what was used in the period", func(b *table) {
		usd := monthly(100, time.UTC)
		moved := with(monthly(100, zone(b, "Asia/Tokyo")), func(l *budget.Limit) { l.Version = 2 })
		b.to(time.Date(2027, 2, 28, 12, 0, 0, 0, time.UTC))
		b.grant(line(usd, 60))
		b.refuseFor(budget.Spent, 3*3600_000, line(moved, 50))
		b.exact(line(moved, 50))
	}},
	{"S23 a budget that starts empty grants from its second period on", func(b *table) {
		usd := with(monthly(100, time.UTC), func(l *budget.Limit) { l.StartEmpty = true })
		b.to(time.Date(2027, 1, 31, 23, 0, 0, 0, time.UTC))
		b.refuseFor(budget.Spent, 3600_000, line(usd, 1))
		b.exact(line(usd, 100))
	}},
}
