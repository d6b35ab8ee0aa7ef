package budgettest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"llmgw/internal/budget"
)

// Limited is a Limiter under test and the store beneath it.
type Limited struct {
	budget.Limiter
	// Store is where the counters are: what it says is the truth.
	Store budget.Store
	// Busy makes the next requests for lines, used as that, come from a lease; nil
	// where there are no leases. It leaves nothing charged but what it returns.
	Busy func(lines []budget.Line, used []int64) (charged []int64)
	// Close ends the Limiter as a gateway that stops: what is open is reclaimed.
	Close func()
}

// RunLimiter tests a Limiter over a store whose clock runs. Each case has limits
// and counters of its own, so all may share one store.
func RunLimiter(t *testing.T, open func(t *testing.T) *Limited) {
	t.Helper()
	for _, c := range limiterCases {
		t.Run(c.name, func(t *testing.T) {
			c.run(newDesk(t, open(t)))
		})
	}
}

type limiterCase struct {
	name string
	run  func(d *desk)
}

// desk is what a case of a Limiter works on: a monthly budget, a small one, and
// slots. None of them refills.
type desk struct {
	*Limited
	t                  *testing.T
	month, tight, slot *budget.Limit
	spent              []int64 // of the month and the slots, before the case
	ids                int
}

var deskNumber atomic.Int64

func newDesk(t *testing.T, l *Limited) *desk {
	place := fmt.Sprintf("team/desk%d", deskNumber.Add(1))
	of := func(name string, unit budget.Unit, amount int64) *budget.Limit {
		return with(bucket(name, amount), func(l *budget.Limit) {
			l.Place, l.Owner, l.Tag, l.Unit = place, place[len("team/"):], place[len("team/"):], unit
			l.Period, l.Algorithm, l.Location, l.ResetDay = budget.Month, budget.CalendarUsage, time.UTC, 1
			l.Bank, l.MaxDebt, l.UnboundedDebt = 0, 0, true
		})
	}
	d := &desk{Limited: l, t: t, month: of("month", budget.Tokens, 1_000_000), tight: of("tight", budget.USD, 300)}
	d.slot = with(slots("slots", 400), func(l *budget.Limit) { l.Place, l.Owner, l.Tag = d.month.Place, d.month.Owner, d.month.Tag })
	d.spent = []int64{0, 0}
	if l.Busy != nil {
		d.spent = l.Busy(d.lines(100), []int64{40, 1})
	}
	return d
}

// lines are what most requests of a case ask for.
func (d *desk) lines(amount int64) []budget.Line {
	return []budget.Line{line(d.month, amount), line(d.slot, 1)}
}

func (d *desk) reserve(lines ...budget.Line) (*budget.Reservation, budget.Verdict) {
	d.ids++
	return d.Reserve(context.Background(), budget.Request{ID: fmt.Sprintf("%s.%d", d.month.Owner, d.ids), Lines: lines, CrashCharge: budget.ChargeProgress})
}

func (d *desk) grant(lines ...budget.Line) *budget.Reservation {
	d.t.Helper()
	held, v := d.reserve(lines...)
	if held == nil || v.Outcome != budget.Granted || v.Binding != -1 || len(v.Lines) != len(lines) {
		d.t.Fatalf("got %+v, want it granted", v)
	}
	return held
}

func (d *desk) refuse(want budget.Outcome, binding int, lines ...budget.Line) {
	d.t.Helper()
	if held, v := d.reserve(lines...); held != nil || v.Outcome != want || v.Binding != binding {
		d.t.Fatalf("got %+v, want outcome %v by line %d and no reservation", v, want, binding)
	}
}

// charged waits until so much of the month is charged, beyond what was before
// the case, and nothing is open.
func (d *desk) charged(want int64) {
	d.t.Helper()
	want += d.spent[0]
	var got []budget.LineState
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); runtime.Gosched() {
		var err error
		if got, _, err = d.Store.Read(context.Background(), []budget.Line{line(d.month, 0), line(d.slot, 0), line(d.tight, 0)}); err != nil {
			d.t.Fatal(err)
		}
		if d.month.Amount-got[0].Remaining == want && got[0].Open == 0 && got[1].Open == 0 && got[2].Open == 0 {
			return
		}
	}
	d.t.Fatalf("got %d charged, %+v, want %d and nothing open", d.month.Amount-got[0].Remaining, got, want)
}

var limiterCases = []limiterCase{
	{"a request takes all of its lines or none", func(d *desk) {
		d.refuse(budget.NeverFits, 1, line(d.month, 100), line(d.tight, 301), line(d.slot, 1))
		held := d.grant(line(d.month, 100), line(d.tight, 300), line(d.slot, 1))
		d.refuse(budget.Spent, 1, line(d.month, 100), line(d.tight, 1), line(d.slot, 1))
		held.Settle([]int64{30, 0, 1})
		d.charged(30)
	}},
	{"what is used replaces what was reserved, and more is charged too", func(d *desk) {
		for _, used := range []int64{0, 60, 100, 250_000} {
			d.grant(d.lines(100)...).Settle([]int64{used, 1})
		}
		d.charged(250_160)
	}},
	{"a reservation is settled once, whoever comes first", func(d *desk) {
		held := d.grant(d.lines(100)...)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { held.Settle([]int64{70, 1}) })
		}
		all.Wait()
		held.Settle([]int64{90, 1})
		held.Report([]int64{95, 1})
		held.Sent([]int64{99, 1})
		d.charged(70)
	}},
	{"a deferred end comes after a panic", func(d *desk) {
		func() {
			defer func() { _ = recover() }()
			held := d.grant(d.lines(100)...)
			defer held.Settle([]int64{20, 1})
			panic("while it is held")
		}()
		d.charged(20)
	}},
	{"no reservation holds nothing", func(d *desk) {
		var none *budget.Reservation
		none.Sent([]int64{1})
		none.Report([]int64{1})
		none.Settle([]int64{1})
		if v := none.Extend(context.Background(), []int64{1}); v.Outcome == budget.Granted {
			d.t.Errorf("got %+v, want nothing to extend", v)
		}
		d.charged(0)
	}},
	{"a refusal consumes nothing, and slots come back", func(d *desk) {
		var open []*budget.Reservation
		for range 400 {
			open = append(open, d.grant(d.lines(1)...))
		}
		d.refuse(budget.NoSlot, 1, d.lines(1)...)
		for _, held := range open {
			held.Settle([]int64{1, 1})
		}
		d.grant(d.lines(1)...).Settle([]int64{0, 1})
		d.charged(400)
	}},
	{"an extension takes all of its lines or none", func(d *desk) {
		held := d.grant(line(d.month, 100), line(d.tight, 200), line(d.slot, 1))
		if v := held.Extend(context.Background(), []int64{500, 101, 0}); v.Outcome != budget.Spent || v.Binding != 1 {
			d.t.Errorf("more than is left: got %+v, want the budget spent", v)
		}
		if v := held.Extend(context.Background(), []int64{500, 100, 0}); v.Outcome != budget.Granted {
			d.t.Errorf("all that is left: got %+v, want it granted", v)
		}
		d.refuse(budget.Spent, 0, line(d.tight, 1))
		held.Settle([]int64{0, 0, 1})
		d.charged(0)
	}},
	{"what an extended reservation used counts for the sum", func(d *desk) {
		for _, used := range []int64{0, 99, 100, 350, 599, 600, 60_000} {
			held := d.grant(d.lines(100)...)
			held.Sent([]int64{10, 1})
			for _, more := range []int64{200, 300} {
				if v := held.Extend(context.Background(), []int64{more, 0}); v.Outcome != budget.Granted {
					d.t.Fatalf("got %+v, want it granted", v)
				}
				held.Report([]int64{used / 2, 1})
			}
			held.Settle([]int64{used, 1})
			held.Settle([]int64{used, 1})
		}
		d.charged(99 + 100 + 350 + 599 + 600 + 60_000)
	}},
	{"what has ended is not extended", func(d *desk) {
		held := d.grant(d.lines(100)...)
		if v := held.Extend(context.Background(), []int64{1}); v.Outcome == budget.Granted {
			d.t.Errorf("of one line of two: got %+v, want it refused", v)
		}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() { held.Extend(context.Background(), []int64{50, 0}) })
		}
		held.Settle([]int64{10, 1})
		all.Wait()
		if v := held.Extend(context.Background(), []int64{50, 0}); v.Outcome == budget.Granted {
			d.t.Errorf("got %+v, want it refused", v)
		}
		d.charged(10)
	}},
	{"many at a time are charged what they used", func(d *desk) {
		var all sync.WaitGroup
		var used atomic.Int64
		for c := range 16 {
			random := rand.New(rand.NewPCG(11, uint64(c)))
			all.Go(func() {
				for range 100 {
					held, v := d.Reserve(context.Background(), budget.Request{
						ID: fmt.Sprintf("%s.%d.%d", d.month.Owner, c, random.Uint64()), Lines: d.lines(100),
					})
					if v.Outcome != budget.Granted {
						d.t.Errorf("got %+v, want it granted", v)
						return
					}
					n := []int64{0, 50, 100, 130}[random.IntN(4)]
					if random.IntN(4) == 0 {
						held.Report([]int64{n / 2, 1})
					}
					if random.IntN(4) == 0 && held.Extend(context.Background(), []int64{40, 0}).Outcome == budget.Granted {
						n += 20
					}
					held.Settle([]int64{n, 1})
					used.Add(n)
				}
			})
		}
		all.Wait()
		d.charged(used.Load())
	}},
	{"a gateway that stops is charged what it has reported", func(d *desk) {
		sent, running, silent := d.grant(d.lines(100)...), d.grant(d.lines(100)...), d.grant(d.lines(100)...)
		sent.Sent([]int64{15, 1})
		running.Report([]int64{40, 1})
		if v := running.Extend(context.Background(), []int64{100, 0}); v.Outcome != budget.Granted {
			d.t.Fatalf("got %+v, want it granted", v)
		}
		running.Report([]int64{140, 1})
		_ = silent
		d.Close()
		d.charged(15 + 140)
	}},
	{"a correction lowers what is left", func(d *desk) {
		d.Correct(budget.Correction{Line: line(d.tight, 0), AtMost: 10})
		for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); runtime.Gosched() {
			states, _, err := d.Store.Read(context.Background(), []budget.Line{line(d.tight, 0)})
			if err != nil {
				d.t.Fatal(err)
			}
			if states[0].Remaining == 10 {
				break
			}
		}
		d.refuse(budget.Spent, 0, line(d.tight, 11))
		d.grant(line(d.tight, 10)).Settle([]int64{0})
	}},
}
