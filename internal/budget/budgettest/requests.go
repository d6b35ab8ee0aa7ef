package budgettest

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"llmgw/internal/budget"
)

var requestCases = []testCase{
	{"S3 a refusal consumes nothing", func(b *table) {
		tpm := bucket("tpm", 100)
		for range 10 {
			b.grantless(line(tpm, 200))
		}
		b.left(tpm, 100, 0)
		b.grant(line(tpm, 50))
		for range 10 {
			b.refuse(budget.Exceeded, line(tpm, 60))
		}
		b.left(tpm, 50, 50)
	}},
	{"S4 a request takes all of its lines or none", func(b *table) {
		tpm, rpm, usd, slot := bucket("tpm", 100), bucket("rpm", 2), monthly(1000, time.UTC), slots("slots", 2)
		rpm.Unit = budget.Requests
		lines := []budget.Line{line(tpm, 30), line(rpm, 1), line(usd, 10), line(slot, 1)}
		b.grant(lines...)
		for _, short := range [][]budget.Line{
			{line(tpm, 71), line(rpm, 1), line(usd, 10), line(slot, 1)},
			{line(tpm, 30), line(rpm, 2), line(usd, 10), line(slot, 1)},
			{line(tpm, 30), line(rpm, 1), line(usd, 991), line(slot, 1)},
			{line(tpm, 30), line(rpm, 1), line(usd, 10), line(slot, 2)},
		} {
			if _, v := b.ask(short...); v.Outcome == budget.Granted {
				b.t.Fatalf("granted: %+v", short)
			}
			b.left(tpm, 70, 30)
			b.left(rpm, 1, 1)
			b.left(usd, 990, 10)
			b.left(slot, 1, 1)
		}
		b.grant(lines...)
	}},
	{"S4 the line with the longest wait binds, and a slot only if no rate is short", func(b *table) {
		short, long, slot := bucket("short", 60), bucket("long", 6), slots("slots", 1)
		b.grant(line(short, 60), line(long, 6), line(slot, 1))
		v := b.refuse(budget.Exceeded, line(slot, 1), line(short, 5), line(long, 1))
		if v.Binding != 2 || v.Wait != 10*time.Second {
			b.t.Errorf("got line %d and wait %v, want line 2 and 10s", v.Binding, v.Wait)
		}
		if v.Lines[0].Outcome != budget.NoSlot || v.Lines[1].Wait != 5*time.Second {
			b.t.Errorf("the other lines: %+v", v.Lines)
		}
		v = b.refuse(budget.NoSlot, line(slot, 1), line(short, 0))
		if v.Binding != 0 || v.Wait != 0 {
			b.t.Errorf("got line %d and wait %v, want line 0 and none", v.Binding, v.Wait)
		}
		v = b.refuse(budget.NeverFits, line(long, 1), line(short, 61), line(slot, 1))
		if v.Binding != 1 {
			b.t.Errorf("got line %d, want 1, which never fits", v.Binding)
		}
	}},
	{"S4 two lines on one counter are asked for together", func(b *table) {
		tpm := bucket("tpm", 100)
		b.grantless(line(tpm, 60), line(tpm, 60))
		b.left(tpm, 100, 0)
		lines := []budget.Line{line(tpm, 60), line(tpm, 40)}
		id := b.grant(lines...)
		b.left(tpm, 0, 100)
		b.settle(id, lines, 10, 20)
		b.left(tpm, 70, 0)
	}},
	{"S38 slots are taken and freed with their records", func(b *table) {
		slot, tpm := slots("slots", 2), bucket("tpm", 100)
		lines := []budget.Line{line(slot, 1), line(tpm, 10)}
		one, two := b.grant(lines...), b.grant(lines...)
		b.refuse(budget.NoSlot, lines...)
		b.settle(one, lines, 0, 0)
		three := b.grant(lines...)
		b.left(slot, 0, 2)
		b.settle(two, lines, 7, 10) // whatever the slot's number says
		b.settle(three, lines, 1, 10)
		b.left(slot, 2, 0)
		b.refuse(budget.NeverFits, line(slot, 3))
	}},
	{"S22 fewer slots than are taken free none", func(b *table) {
		many := slots("slots", 3)
		few := with(many, func(l *budget.Limit) { l.Amount, l.Version = 1, 2 })
		one, two := b.grant(line(many, 1)), b.grant(line(many, 1))
		b.refuse(budget.NoSlot, line(few, 1))
		b.left(few, 0, 2)
		b.settle(one, []budget.Line{line(few, 1)}, 1)
		b.refuse(budget.NoSlot, line(few, 1))
		b.settle(two, []budget.Line{line(few, 1)}, 1)
		b.grant(line(few, 1))
	}},
	{"S39 a shadow limit charges what it would allow and blocks nothing", func(b *table) {
		tpm := bucket("tpm", 100)
		shadow := with(bucket("shadow", 50), func(l *budget.Limit) { l.Mode = budget.Shadow })
		lines := []budget.Line{line(tpm, 40), line(shadow, 40)}
		b.grant(lines...)
		b.left(shadow, 10, 40)
		id, v := b.ask(lines...)
		if v.Outcome != budget.Granted || v.Binding != -1 || v.Lines[1].Outcome != budget.Exceeded {
			b.t.Fatalf("got %+v, want it granted, and exceeded in shadow", v)
		}
		b.left(shadow, 10, 40)
		b.left(tpm, 20, 80)
		b.settle(id, lines, 45, 45)
		b.left(shadow, 10, 40)
		b.left(tpm, 15, 40)
		b.refuse(budget.Exceeded, lines...)
		b.left(shadow, 10, 40)
	}},
	{"S39 a shadow slot that would be refused is not freed", func(b *table) {
		shadow := with(slots("slots", 1), func(l *budget.Limit) { l.Mode = budget.Shadow })
		lines := []budget.Line{line(shadow, 1)}
		one, two := b.grant(lines...), b.grant(lines...)
		b.left(shadow, 0, 1)
		b.settle(two, lines, 1)
		b.left(shadow, 0, 1)
		b.settle(one, lines, 1)
		b.left(shadow, 1, 0)
	}},
	{"S39 a whole request in shadow is never refused", func(b *table) {
		tpm, slot := bucket("tpm", 100), slots("slots", 1)
		b.grant(line(tpm, 100), line(slot, 1))
		v := b.request(budget.Request{ID: "s", Lines: []budget.Line{line(tpm, 500), line(slot, 1)}, Shadow: true})
		if v.Outcome != budget.Granted || v.Lines[0].Outcome != budget.NeverFits || v.Lines[1].Outcome != budget.NoSlot {
			b.t.Errorf("got %+v, want it granted, and what would have refused it", v)
		}
		b.left(tpm, 0, 100)
	}},
	{"S39 a candidate is counted beside its limit and changes nothing", func(b *table) {
		tpm := with(bucket("tpm", 100), func(l *budget.Limit) { l.Candidate = 50 })
		lines := []budget.Line{line(tpm, 40)}
		one := b.grant(lines...)
		id, v := b.ask(lines...)
		if v.Outcome != budget.Granted || v.Lines[0].Candidate != budget.Exceeded {
			b.t.Fatalf("got %+v, want it granted, and exceeded by the candidate", v)
		}
		b.left(tpm, 20, 80)
		b.settle(id, lines, 40)
		b.settle(one, lines, 20) // the candidate's 50 have 20 charged
		if got := b.readLine(line(tpm, 30)).Candidate; got != budget.Granted {
			b.t.Errorf("30 more of the candidate: got %v, want it granted", got)
		}
		if got := b.readLine(line(tpm, 31)).Candidate; got != budget.Exceeded {
			b.t.Errorf("31 more of the candidate: got %v, want it exceeded", got)
		}
		b.left(tpm, 40, 0)
	}},
	{"S40 another provider's limits are taken anew while the team's stay reserved", func(b *table) {
		team := bucket("tpm", 100)
		provider := func(name string) *budget.Limit {
			return with(bucket("tokens", 50), func(l *budget.Limit) { l.Place, l.Tag = "provider/"+name, "provider/"+name })
		}
		first, second := provider("first"), provider("second")
		call := b.grant(line(team, 40))
		attempt := b.grant(line(first, 40))
		b.settle(attempt, []budget.Line{line(first, 40)}, 0) // it failed
		retry := b.grant(line(second, 40))
		b.left(team, 60, 40)
		b.left(first, 50, 0)
		b.settle(retry, []budget.Line{line(second, 40)}, 25)
		b.settle(call, []budget.Line{line(team, 40)}, 25)
		b.left(team, 75, 0)
		b.left(second, 25, 0)
	}},
	{"what was spent without the store is forced in, slots too", func(b *table) {
		tpm, slot := bucket("tpm", 100), slots("slots", 1)
		lines := []budget.Line{line(tpm, 300), line(slot, 1)}
		b.grant(line(slot, 1))
		v := b.request(budget.Request{ID: "f", Lines: lines, Force: true})
		if v.Outcome != budget.Granted {
			b.t.Fatalf("got %+v, want it granted", v)
		}
		b.left(tpm, -200, 300)
		b.left(slot, 0, 2)
		b.settle("f", lines, 250, 1)
		b.left(tpm, -150, 0)
		b.left(slot, 0, 1)
	}},
	{"what is forced in beyond the debt is not given back", func(b *table) {
		tpm := bucket("tpm", 100) // max_debt 1000
		lines := []budget.Line{line(tpm, 5000)}
		b.request(budget.Request{ID: "f", Lines: lines, Force: true})
		b.left(tpm, -1000, 1100)
		b.settle("f", lines, 0)
		b.left(tpm, 100, 0)
	}},
	{"each value has a counter, long values too", func(b *table) {
		perUser := with(bucket("user-tpm", 100), func(l *budget.Limit) { l.Scope = budget.User })
		long := strings.Repeat("x", 5000)
		for _, user := range []string{"", "ann", "bob", "a|b", "{ann}", "%7C", "#", long, long + "y", "\x00\xff\n"} {
			l := budget.Line{Limit: perUser, Value: user, Amount: 60}
			b.grant(l)
			b.refuse(budget.Exceeded, l)
		}
	}},
	{"limits that differ in place, name, unit or period have counters of their own", func(b *table) {
		for i, change := range []func(*budget.Limit){
			func(*budget.Limit) {},
			func(l *budget.Limit) { l.Place = "team/other" },
			func(l *budget.Limit) { l.Name = "tpm2" },
			func(l *budget.Limit) { l.Unit = budget.Requests },
			func(l *budget.Limit) { l.Period = budget.Hour },
			func(l *budget.Limit) { l.Place, l.Name = "team/search|tpm", "tokens" },
		} {
			l := with(bucket("tpm", 100), change)
			b.left(l, 100, 0)
			b.grant(line(l, 60+int64(i)))
		}
		same := with(bucket("tpm", 100), func(l *budget.Limit) { l.Tag, l.Owner, l.Version = "search", "renamed", 9 })
		b.left(same, 40, 60)
	}},
	{"a request without lines is granted and recorded", func(b *table) {
		id := b.grant()
		if _, ok := b.open(b.epoch)[id]; !ok {
			b.t.Errorf("%s is not among the open reservations", id)
		}
		b.settle(id, []budget.Line{}, 0)
	}},
	{"A1 of many at once exactly those that fit are granted", func(b *table) {
		tpm := bucket("tpm", 1000)
		slot := slots("slots", 1000)
		var wg sync.WaitGroup
		var mu sync.Mutex
		granted := 0
		for i := range 150 {
			wg.Go(func() {
				v, err := b.try(budget.Request{ID: fmt.Sprintf("p%d", i), Lines: []budget.Line{line(tpm, 10), line(slot, 1)}})
				if err != nil {
					b.t.Errorf("reserve: %v", err)
				}
				mu.Lock()
				defer mu.Unlock()
				if v.Outcome == budget.Granted {
					granted++
				}
			})
		}
		wg.Wait()
		if granted != 100 {
			b.t.Errorf("granted: got %d, want 100", granted)
		}
		b.left(tpm, 0, 1000)
		b.left(slot, 900, 100)
	}},
	{"S25 a counter in debt, or with an open reservation, is not forgotten", func(b *table) {
		tpm, other := bucket("tpm", 60), bucket("other", 60)
		lines := []budget.Line{line(tpm, 60)}
		b.settle(b.grant(lines...), lines, 600) // nine minutes to zero, ten to full
		held := b.grant(line(other, 60))
		for range 8 {
			b.move(time.Minute)
			for i := range 50 {
				b.ask(line(bucket(fmt.Sprint("noise", i), 10), 1))
			}
		}
		b.left(tpm, -60, 0)
		b.settle(held, []budget.Line{line(other, 60)}, 120)
		b.left(other, 0, 0)
	}},
}

// grantless makes a request that must be refused, for whatever reason.
func (b *table) grantless(lines ...budget.Line) {
	b.t.Helper()
	if id, v := b.ask(lines...); v.Outcome == budget.Granted {
		b.t.Fatalf("reserve %s: granted, want it refused: %+v", id, v.Lines)
	}
}
