package budgettest

import (
	"context"
	"sync"
	"time"

	"llmgw/internal/budget"
)

var lifecycleCases = []testCase{
	{"S11 a second settle has no effect", func(b *table) {
		tpm := bucket("tpm", 100)
		lines := []budget.Line{line(tpm, 60)}
		id := b.grant(lines...)
		b.settle(id, lines, 50)
		for _, used := range []int64{50, 0, 90} {
			if got := b.settleAny(id, lines, used); got.Known || got.Unbooked != 0 {
				b.t.Errorf("a second settle: got %+v, want nothing", got)
			}
		}
		b.left(tpm, 50, 0)
	}},
	{"S11 one id twice in a call is settled once", func(b *table) {
		tpm := bucket("tpm", 100)
		lines := []budget.Line{line(tpm, 60)}
		id := b.grant(lines...)
		s := budget.Settlement{ID: id, Epoch: b.epoch, Lines: lines, Used: []int64{50}}
		got, err := b.store.Settle(context.Background(), []budget.Settlement{s, s})
		if err != nil || !got[0].Known || got[1].Known {
			b.t.Errorf("got %+v, %v, want the first known", got, err)
		}
		b.left(tpm, 50, 0)
	}},
	{"S13 a repeated reserve is granted and charged once", func(b *table) {
		tpm, slot := bucket("tpm", 100), slots("slots", 5)
		r := budget.Request{ID: "same", Lines: []budget.Line{line(tpm, 60), line(slot, 1)}}
		if v := b.request(r); v.Repeated {
			b.t.Error("the first is called repeated")
		}
		for range 3 {
			if v := b.request(r); v.Outcome != budget.Granted || !v.Repeated || v.Lines[0].Remaining != 40 {
				b.t.Errorf("got %+v, want it granted as repeated, with 40 left", v)
			}
		}
		b.left(tpm, 40, 60)
		b.left(slot, 4, 1)
	}},
	{"S13 a repeated reserve with other amounts is an error", func(b *table) {
		tpm, rpm := bucket("tpm", 100), bucket("rpm", 100)
		b.request(budget.Request{ID: "same", Lines: []budget.Line{line(tpm, 60)}})
		b.fails(budget.ErrConflict, budget.Request{ID: "same", Lines: []budget.Line{line(tpm, 61)}})
		b.fails(budget.ErrConflict, budget.Request{ID: "same", Lines: []budget.Line{line(rpm, 60)}})
		b.fails(budget.ErrConflict, budget.Request{ID: "same", Lines: []budget.Line{line(tpm, 60), line(rpm, 1)}})
		b.fails(budget.ErrConflict, budget.Request{ID: "same", Lines: []budget.Line{{Limit: tpm, Value: "x", Amount: 60}}})
		b.left(tpm, 40, 60)
	}},
	{"S13 a refused id may be used again", func(b *table) {
		tpm := bucket("tpm", 60)
		b.grant(line(tpm, 60))
		r := budget.Request{ID: "again", Lines: []budget.Line{line(tpm, 10)}}
		if v := b.request(r); v.Outcome != budget.Exceeded {
			b.t.Fatalf("got %+v, want it exceeded", v)
		}
		b.ms(10_000)
		if v := b.request(r); v.Outcome != budget.Granted || v.Repeated {
			b.t.Errorf("got %+v, want it granted, not as a repeat", v)
		}
	}},
	{"S14 a reserve after its settle is refused", func(b *table) {
		tpm := bucket("tpm", 100)
		r := budget.Request{ID: "late", Lines: []budget.Line{line(tpm, 60)}}
		b.request(r)
		b.settle("late", r.Lines, 0)
		b.fails(budget.ErrTooLate, r)
		b.left(tpm, 100, 0)
	}},
	{"S14 a reserve after the cancel of its unknown id is refused", func(b *table) {
		tpm := bucket("tpm", 100)
		r := budget.Request{ID: "late", Lines: []budget.Line{line(tpm, 60)}}
		if got := b.settleAny("late", r.Lines, 0); got.Known {
			b.t.Error("the id is known before its reserve")
		}
		b.fails(budget.ErrTooLate, r)
		b.left(tpm, 100, 0)
	}},
	{"S14 a reserve after its deadline is refused", func(b *table) {
		tpm := bucket("tpm", 100)
		r := budget.Request{ID: "late", Lines: []budget.Line{line(tpm, 60)}, NotAfter: b.now().Add(30 * time.Millisecond)}
		b.ms(31)
		b.fails(budget.ErrTooLate, r)
		b.left(tpm, 100, 0)
		r.ID, r.NotAfter = "just", b.now()
		if v := b.request(r); v.Outcome != budget.Granted {
			b.t.Errorf("on its deadline: got %+v, want it granted", v)
		}
	}},
	{"S14 neither tombstone nor deadline lets a settled id come back", func(b *table) {
		tpm := bucket("tpm", 100)
		r := budget.Request{ID: "late", Lines: []budget.Line{line(tpm, 60)}, NotAfter: b.now().Add(30 * time.Millisecond)}
		b.request(r)
		b.settle("late", r.Lines, 0)
		for range 5 {
			b.fails(budget.ErrTooLate, r)
			b.ms(10)
		}
		b.left(tpm, 100, 0)
	}},
	{"S7 a refund to a counter that is full again changes nothing", func(b *table) {
		tpm := bucket("tpm", 60)
		lines := []budget.Line{line(tpm, 60)}
		id := b.grant(lines...)
		b.move(time.Hour)
		b.settle(id, lines, 0)
		b.left(tpm, 60, 0)
	}},
	{"a settlement of fewer lines charges the others as they were taken", func(b *table) {
		tpm, rpm := bucket("tpm", 100), bucket("rpm", 100)
		lines := []budget.Line{line(tpm, 60), line(rpm, 1)}
		b.settle(b.grant(lines...), lines, 10)
		b.left(tpm, 90, 0)
		b.left(rpm, 99, 0)
	}},
	{"S10 a settlement that tells nothing ends the record by its crash charge", func(b *table) {
		tpm, slot := bucket("tpm", 100), slots("slots", 1)
		lines := []budget.Line{line(tpm, 60), line(slot, 1)}
		for _, c := range []struct {
			crash budget.CrashCharge
			left  int64
		}{{budget.ChargeFull, 40}, {budget.ChargeNone, 100}, {budget.ChargeProgress, 75}} {
			id := string(c.crash)
			b.request(budget.Request{ID: id, Lines: lines, CrashCharge: c.crash})
			b.report(id, lines, 25, 0)
			b.settle(id, nil)
			b.left(tpm, c.left, 0)
			b.left(slot, 1, 0)
			b.move(time.Hour)
		}
	}},
	{"S17 a crash charges what was last reported and its margin, within what was reserved", func(b *table) {
		tpm := with(bucket("tpm", 1000), func(l *budget.Limit) { l.Amount, l.Period = 1, budget.Hour })
		rpm := with(bucket("rpm", 1000), func(l *budget.Limit) { l.Amount, l.Period = 1, budget.Hour })
		lines := []budget.Line{line(tpm, 100), line(rpm, 1)}
		tpmLeft, rpmLeft := int64(1000), int64(1000)
		for _, s := range []struct {
			what    string
			crash   budget.CrashCharge
			reports []budget.Progress
			open    int64 // of tpm, before the crash
			charged []int64
		}{
			{"nothing was reported", budget.ChargeProgress, nil, 100, []int64{0, 0}},
			{"the prompt was sent: it may come back, so it stays open", budget.ChargeProgress,
				[]budget.Progress{{Crash: []int64{40, 1}}}, 100, []int64{40, 1}},
			{"then the answer came", budget.ChargeProgress,
				[]budget.Progress{{Crash: []int64{40, 1}}, {Used: []int64{60, 1}, Crash: []int64{80, 1}}}, 40, []int64{80, 1}},
			{"a report without a margin keeps the one before", budget.ChargeProgress,
				[]budget.Progress{{Crash: []int64{40, 1}}, {Used: []int64{30, 0}}}, 70, []int64{40, 1}},
			{"what was used is more than the margin says", budget.ChargeProgress,
				[]budget.Progress{{Crash: []int64{40, 1}}, {Used: []int64{70, 1}}}, 30, []int64{70, 1}},
			{"the margin goes beyond what is reserved", budget.ChargeProgress,
				[]budget.Progress{{Used: []int64{90, 1}, Crash: []int64{180, 2}}}, 10, []int64{100, 1}},
			{"more was used than is reserved", budget.ChargeProgress,
				[]budget.Progress{{Used: []int64{150, 1}, Crash: []int64{300, 1}}}, 0, []int64{150, 1}},
			{"the margin falls", budget.ChargeProgress,
				[]budget.Progress{{Used: []int64{50, 1}, Crash: []int64{90, 1}}, {Used: []int64{55, 1}, Crash: []int64{60, 1}}}, 45, []int64{60, 1}},
			{"a part was given back", budget.ChargeProgress,
				[]budget.Progress{{Used: []int64{50, 1}, Keep: []int64{60, 1}, Crash: []int64{90, 1}}}, 10, []int64{60, 1}},
			{"the policy is full", budget.ChargeFull, []budget.Progress{{Crash: []int64{40, 0}}}, 100, []int64{100, 1}},
			{"the policy is none", budget.ChargeNone, []budget.Progress{{Used: []int64{40, 1}, Crash: []int64{80, 1}}}, 60, []int64{0, 0}},
		} {
			b.request(budget.Request{ID: s.what, Lines: lines, CrashCharge: s.crash})
			for _, p := range s.reports {
				p.ID, p.Lines = s.what, lines
				if err := b.store.Report(context.Background(), []budget.Progress{p}); err != nil {
					b.t.Fatalf("%s: report: %v", s.what, err)
				}
			}
			if open := b.read(tpm).Open; open != s.open {
				b.t.Errorf("%s: got %d open, want %d", s.what, open, s.open)
			}
			b.die()
			b.reclaim(silence, 100)
			tpmLeft, rpmLeft = tpmLeft-s.charged[0], rpmLeft-s.charged[1]
			b.left(tpm, tpmLeft, 0)
			b.left(rpm, rpmLeft, 0)
		}
	}},
	{"progress lowers what is open by what was used", func(b *table) {
		tpm := bucket("tpm", 100)
		lines := []budget.Line{line(tpm, 60)}
		id := b.grant(lines...)
		b.report(id, lines, 20)
		b.left(tpm, 40, 40)
		b.report(id, lines, 15) // an old report
		b.left(tpm, 40, 40)
		b.report(id, lines, 80)
		b.left(tpm, 40, 0)
		b.settle(id, lines, 30)
		b.left(tpm, 70, 0)
	}},
	{"a report may give back, and never takes", func(b *table) {
		tpm, two := bucket("tpm", 100), slots("slots", 3)
		lines := []budget.Line{line(tpm, 60), line(two, 2)}
		id := b.grant(lines...)
		b.keep(id, lines, []int64{10, 0}, 45, 1)
		b.left(tpm, 55, 35)
		b.left(two, 2, 1)
		b.keep(id, lines, nil, 50, 2) // a late report
		b.left(tpm, 55, 35)
		b.left(two, 2, 1)
		b.keep(id, lines, nil, 5) // less than was used, and of one line
		b.left(tpm, 90, 0)
		b.left(two, 2, 1)
		b.settle(id, lines, 30, 1)
		b.left(tpm, 70, 0)
		b.left(two, 3, 0)
		b.keep(id, lines, nil, 0, 0) // settled
		b.left(tpm, 70, 0)
	}},
	{"what is given back goes to the period it came from", func(b *table) {
		month := monthly(100, time.UTC)
		log := with(sliding(budget.SlidingLog, 100), func(l *budget.Limit) { l.Name = "log" })
		window := sliding(budget.SlidingWindow, 100)
		lines := []budget.Line{line(month, 60), line(log, 60), line(window, 60)}
		b.minuteStart()
		id := b.grant(lines...)
		b.keep(id, lines, nil, 20, 20, 20)
		b.left(month, 80, 20)
		b.left(log, 80, 20)
		b.left(window, 80, 20)
		b.move(31 * 24 * time.Hour)
		b.keep(id, lines, nil, 10, 10, 10)
		b.left(month, 100, 0)
		b.settle(id, lines, 10, 10, 10)
		b.left(month, 100, 0)
		b.left(log, 100, 0)
		b.left(window, 100, 0)
	}},
	{"S17 a crash charges of what is kept", func(b *table) {
		tpm := with(bucket("tpm", 1000), func(l *budget.Limit) { l.Amount = 1 })
		lines := []budget.Line{line(tpm, 80)}
		b.request(budget.Request{ID: "kept", Lines: lines, CrashCharge: budget.ChargeFull})
		b.keep("kept", lines, []int64{10}, 30)
		b.left(tpm, 970, 20)
		b.die()
		b.reclaim(silence, 100)
		b.left(tpm, 970, 0)
	}},
	{"S18 many streams report and settle in one call each", func(b *table) {
		tpm := bucket("tpm", 1_000_000)
		lines := []budget.Line{line(tpm, 100)}
		var reports []budget.Progress
		var ends []budget.Settlement
		for range 1500 {
			id := b.grant(lines...)
			reports = append(reports, budget.Progress{ID: id, Lines: lines, Used: []int64{40}})
			ends = append(ends, budget.Settlement{ID: id, Epoch: b.epoch, Lines: lines, Used: []int64{70}})
		}
		if err := b.store.Report(context.Background(), reports); err != nil {
			b.t.Fatalf("report: %v", err)
		}
		b.left(tpm, 850_000, 90_000)
		got, err := b.store.Settle(context.Background(), ends)
		if err != nil {
			b.t.Fatalf("settle: %v", err)
		}
		for i := range got {
			if !got[i].Known {
				b.t.Fatalf("settlement %d is not known", i)
			}
		}
		b.left(tpm, 895_000, 0)
	}},
	{"progress of an unknown or settled reservation changes nothing", func(b *table) {
		tpm := bucket("tpm", 100)
		lines := []budget.Line{line(tpm, 60)}
		b.report("nobody", lines, 20)
		id := b.grant(lines...)
		b.settle(id, lines, 60)
		b.report(id, lines, 90)
		b.left(tpm, 40, 0)
	}},
	{"settlements of one call are each on their own", func(b *table) {
		tpm := bucket("tpm", 100)
		lines := []budget.Line{line(tpm, 30)}
		one, two := b.grant(lines...), b.grant(lines...)
		got, err := b.store.Settle(context.Background(), []budget.Settlement{
			{ID: one, Epoch: b.epoch, Lines: lines, Used: []int64{10}},
			{ID: "nobody", Epoch: b.epoch, Lines: lines, Used: []int64{10}},
			{ID: two, Epoch: b.epoch, Lines: lines, Used: []int64{5}},
		})
		if err != nil || !got[0].Known || got[1].Known || !got[2].Known {
			b.t.Errorf("got %+v, %v, want the first and the last known", got, err)
		}
		b.left(tpm, 85, 0)
	}},
	{"an enqueued settlement comes before a reserve that begins later", func(b *table) {
		tpm := bucket("tpm", 10)
		lines := []budget.Line{line(tpm, 10)}
		id := b.grant(lines...)
		var wg sync.WaitGroup
		for range 200 {
			wg.Add(1)
			b.store.Enqueue(budget.Settlement{ID: id, Epoch: b.epoch, Lines: lines, Used: []int64{0}}, func(s budget.Settled, err error) {
				defer wg.Done()
				if err != nil || !s.Known {
					b.t.Errorf("settle: got %+v, %v, want it known", s, err)
				}
			})
			id = b.grant(lines...)
		}
		wg.Wait()
		b.left(tpm, 0, 10)
	}},
	{"a call whose context has ended is an error and changes nothing", func(b *table) {
		tpm := bucket("tpm", 100)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		r := budget.Request{ID: "gone", Epoch: b.epoch, Lines: []budget.Line{line(tpm, 60)}}
		if _, err := b.store.Reserve(ctx, r); err == nil {
			b.t.Error("reserve: got no error")
		}
		b.grant() // an order of calls: what the first left behind is settled
		b.grant()
		b.left(tpm, 100, 0)
	}},
}

// keep reports what was used and gives back all but kept.
func (b *table) keep(id string, lines []budget.Line, used []int64, kept ...int64) {
	b.t.Helper()
	if err := b.store.Report(context.Background(), []budget.Progress{{ID: id, Lines: lines, Used: used, Keep: kept}}); err != nil {
		b.t.Fatalf("report %s: %v", id, err)
	}
}

func (b *table) report(id string, lines []budget.Line, used ...int64) {
	b.t.Helper()
	if err := b.store.Report(context.Background(), []budget.Progress{{ID: id, Lines: lines, Used: used}}); err != nil {
		b.t.Fatalf("report %s: %v", id, err)
	}
}
