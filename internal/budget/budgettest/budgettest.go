// Package budgettest is the contract of budget.Store as tests: what every
// store must answer in every case. S1 to S42 number the cases of the specification
// of limits; T2 and T5 bound what can be overspent.
//
// budgettest.go runs the cases and has their helpers; buckets.go, calendar.go,
// sliding.go and windows.go are the algorithms, claims.go is who waits, requests.go
// what one request does, lifecycle.go and epochs.go are the life of reservations
// and gateways, properties.go what holds over generated histories.
package budgettest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"llmgw/internal/budget"
)

// Advance moves the clock of a store under test, back if d is negative. The
// clock stands still otherwise.
type Advance func(d time.Duration)

// Open makes an empty store whose clock the test moves, for one subtest.
type Open func(t *testing.T) (budget.Store, Advance)

// Run tests a store. Each case opens one of its own.
func Run(t *testing.T, open Open) {
	t.Helper()
	var all []testCase
	for _, group := range [][]testCase{bucketCases, slidingCases, calendarCases, windowCases, claimCases, requestCases, lifecycleCases, epochCases, outsideCases, returnCases, propertyCases} {
		all = append(all, group...)
	}
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			store, advance := open(t)
			c.run(&table{t: t, store: store, move: advance, epoch: "gw-1"})
		})
	}
}

type testCase struct {
	name string
	run  func(b *table)
}

// table is what a case works on: a store, its clock, and one gateway.
type table struct {
	t     *testing.T
	store budget.Store
	move  Advance
	epoch budget.Epoch
	ids   int
	ended []budget.Ended // of the last reclaim
}

// ms moves the clock by milliseconds.
func (b *table) ms(n int64) { b.move(time.Duration(n) * time.Millisecond) }

func (b *table) id() string {
	b.ids++
	return fmt.Sprintf("r%d", b.ids)
}

// bucket is a token bucket of that much a minute and as large.
func bucket(name string, amount int64) *budget.Limit {
	return &budget.Limit{
		Place: "team/search", Scope: budget.Team, Owner: "search", Name: name, Unit: budget.Tokens,
		Amount: amount, Period: budget.Minute, Burst: amount, Bank: 4, MaxDebt: 10 * amount,
		Algorithm: budget.TokenBucket, Mode: budget.Enforce, Tag: "search", Version: 1,
	}
}

// slots is a limit of that many requests at a time.
func slots(name string, amount int64) *budget.Limit {
	l := bucket(name, amount)
	l.Unit, l.Period, l.Algorithm, l.Bank, l.MaxDebt = budget.Concurrency, "", budget.Slots, 0, 0
	return l
}

// with is a changed copy of l.
func with(l *budget.Limit, change func(*budget.Limit)) *budget.Limit {
	c := *l
	change(&c)
	if err := budget.Validate(&c); err != nil {
		panic(err) // a mistake in the case itself
	}
	return &c
}

func line(l *budget.Limit, amount int64) budget.Line { return budget.Line{Limit: l, Amount: amount} }

// ask makes a request of the lines and returns its id and the answer.
func (b *table) ask(lines ...budget.Line) (string, budget.Verdict) {
	b.t.Helper()
	id := b.id()
	return id, b.request(budget.Request{ID: id, Lines: lines})
}

func (b *table) request(r budget.Request) budget.Verdict {
	b.t.Helper()
	v, err := b.try(r)
	if err != nil {
		b.t.Fatalf("reserve %s: %v", r.ID, err)
	}
	return v
}

func (b *table) try(r budget.Request) (budget.Verdict, error) {
	if r.Epoch == "" {
		r.Epoch = b.epoch
	}
	return b.store.Reserve(context.Background(), r)
}

// grant makes a request that must be granted, and returns its id.
func (b *table) grant(lines ...budget.Line) string {
	b.t.Helper()
	id, v := b.ask(lines...)
	if v.Outcome != budget.Granted || v.Binding != -1 {
		b.t.Fatalf("reserve %s: got outcome %v of line %d, want it granted: %+v", id, v.Outcome, v.Binding, v.Lines)
	}
	return id
}

// refuse makes a request that must be refused with that outcome.
func (b *table) refuse(want budget.Outcome, lines ...budget.Line) budget.Verdict {
	b.t.Helper()
	id, v := b.ask(lines...)
	if v.Outcome != want {
		b.t.Fatalf("reserve %s: got outcome %v, want %v: %+v", id, v.Outcome, want, v.Lines)
	}
	return v
}

// refuseFor is refuse, with a wait in milliseconds that must be exact.
func (b *table) refuseFor(want budget.Outcome, waitMS int64, lines ...budget.Line) {
	b.t.Helper()
	if v := b.refuse(want, lines...); v.Wait != time.Duration(waitMS)*time.Millisecond {
		b.t.Fatalf("wait: got %v, want %d ms", v.Wait, waitMS)
	}
}

// exact asks until it is granted: refused a millisecond before the wait it was
// told, granted on it.
func (b *table) exact(lines ...budget.Line) string {
	b.t.Helper()
	_, v := b.ask(lines...)
	if v.Outcome == budget.Granted || v.Wait <= 0 {
		b.t.Fatalf("got outcome %v and wait %v, want a refusal with a wait", v.Outcome, v.Wait)
	}
	b.move(v.Wait - time.Millisecond)
	if _, early := b.ask(lines...); early.Outcome == budget.Granted || early.Wait != time.Millisecond {
		b.t.Fatalf("a millisecond before the wait of %v: got outcome %v and wait %v, want a refusal with 1 ms", v.Wait, early.Outcome, early.Wait)
	}
	b.move(time.Millisecond)
	return b.grant(lines...)
}

// settle ends a reservation that must be open.
func (b *table) settle(id string, lines []budget.Line, used ...int64) {
	b.t.Helper()
	if got := b.settleAny(id, lines, used...); !got.Known {
		b.t.Fatalf("settle %s: the reservation is not known", id)
	}
}

func (b *table) settleAny(id string, lines []budget.Line, used ...int64) budget.Settled {
	b.t.Helper()
	got, err := b.store.Settle(context.Background(), []budget.Settlement{{ID: id, Epoch: b.epoch, Lines: lines, Used: used}})
	if err != nil {
		b.t.Fatalf("settle %s: %v", id, err)
	}
	return got[0]
}

func (b *table) read(l *budget.Limit) budget.LineState { return b.readLine(line(l, 0)) }

func (b *table) readLine(l budget.Line) budget.LineState {
	b.t.Helper()
	states, _, err := b.store.Read(context.Background(), []budget.Line{l})
	if err != nil {
		b.t.Fatalf("read: %v", err)
	}
	return states[0]
}

// left checks what is left of a limit and how much is open.
func (b *table) left(l *budget.Limit, remaining, open int64) {
	b.t.Helper()
	if got := b.read(l); got.Remaining != remaining || got.Open != open {
		b.t.Fatalf("%s: got %d left and %d open, want %d and %d", l.By(), got.Remaining, got.Open, remaining, open)
	}
}

// fails checks that a request is refused with an error.
func (b *table) fails(want error, r budget.Request) {
	b.t.Helper()
	if v, err := b.try(r); !errors.Is(err, want) {
		b.t.Fatalf("reserve %s: got %+v, %v, want the error %q", r.ID, v, err, want)
	}
}

func (b *table) now() time.Time {
	b.t.Helper()
	_, at, err := b.store.Read(context.Background(), []budget.Line{line(bucket("clock", 1), 0)})
	if err != nil {
		b.t.Fatalf("read the clock: %v", err)
	}
	return at
}

func (b *table) open(e budget.Epoch) map[string]time.Duration {
	b.t.Helper()
	ids, err := b.store.OpenIDs(context.Background(), e)
	if err != nil {
		b.t.Fatalf("open reservations of %s: %v", e, err)
	}
	return ids
}
