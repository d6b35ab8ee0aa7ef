package budgettest

import (
	"context"
	"fmt"
	"time"

	"llmgw/internal/budget"
)

func (b *table) beat(e budget.Epoch) budget.Beat {
	b.t.Helper()
	beat, err := b.store.Heartbeat(context.Background(), e)
	if err != nil {
		b.t.Fatalf("heartbeat of %s: %v", e, err)
	}
	return beat
}

// reclaimed is a budget.Reclaimed that can be compared.
type reclaimed struct {
	Epochs, Records int
	More            bool
}

func (b *table) reclaim(silence time.Duration, limit int) reclaimed {
	b.t.Helper()
	got, err := b.store.Reclaim(context.Background(), silence, limit)
	if err != nil {
		b.t.Fatalf("reclaim: %v", err)
	}
	b.ended = got.Ended
	return reclaimed{got.Epochs, got.Records, got.More}
}

// die lets the gateway of the reservations so far be silent, and another one
// take its place.
func (b *table) die() budget.Epoch {
	b.t.Helper()
	dead := b.epoch
	b.epoch += "x"
	b.move(11 * time.Second)
	b.beat(b.epoch)
	return dead
}

const silence = 10 * time.Second

var epochCases = []testCase{
	{"S17 a dead gateway's reservations are reclaimed, each by its crash charge", func(b *table) {
		tpm := with(bucket("tpm", 1000), func(l *budget.Limit) { l.Amount = 1 }) // next to no refill
		slot := slots("slots", 5)
		lines := []budget.Line{line(tpm, 100), line(slot, 1)}
		b.beat(b.epoch)
		for _, crash := range []budget.CrashCharge{budget.ChargeFull, budget.ChargeNone, budget.ChargeProgress, ""} {
			b.request(budget.Request{ID: "r" + string(crash), Lines: lines, CrashCharge: crash})
			b.report("r"+string(crash), lines, 30, 0)
		}
		dead := b.die()
		if got := b.reclaim(silence, 100); got != (reclaimed{Epochs: 1, Records: 4}) {
			b.t.Errorf("got %+v, want one epoch and 4 records", got)
		}
		b.left(tpm, 1000-100-30-30, 0)
		b.left(slot, 5, 0)
		if n := len(b.open(dead)); n != 0 {
			b.t.Errorf("open reservations of the dead: got %d, want none", n)
		}
		if got := b.reclaim(silence, 100); got != (reclaimed{}) {
			b.t.Errorf("a second reclaim: got %+v, want nothing", got)
		}
	}},
	{"S18 a heartbeat keeps every reservation", func(b *table) {
		tpm := bucket("tpm", 100)
		lines := []budget.Line{line(tpm, 60)}
		id := b.grant(lines...)
		for range 120 {
			b.move(5 * time.Second)
			b.beat(b.epoch)
			if got := b.reclaim(silence, 100); got != (reclaimed{}) {
				b.t.Fatalf("reclaimed %+v of a gateway that lives", got)
			}
		}
		b.settle(id, lines, 60)
	}},
	{"S18 a record that outlives its lifetime is ended though its gateway lives", func(b *table) {
		slot := slots("slots", 1)
		b.request(budget.Request{ID: "old", Lines: []budget.Line{line(slot, 1)}, Lifetime: time.Minute})
		b.move(59 * time.Second)
		b.beat(b.epoch)
		if got := b.reclaim(silence, 100); got.Records != 0 {
			b.t.Fatalf("reclaimed %+v before its time", got)
		}
		b.move(time.Second)
		if got := b.reclaim(silence, 100); got != (reclaimed{Records: 1}) {
			b.t.Errorf("got %+v, want one record", got)
		}
		b.left(slot, 1, 0)
	}},
	{"S19 a fenced gateway reserves no more until it has a new epoch", func(b *table) {
		tpm := bucket("tpm", 100)
		b.beat(b.epoch)
		dead := b.die()
		b.reclaim(silence, 100)
		b.fails(budget.ErrFenced, budget.Request{ID: "ghost", Epoch: dead, Lines: []budget.Line{line(tpm, 1)}})
		if got := b.beat(dead); !got.Fenced {
			b.t.Error("the dead gateway's heartbeat does not tell it")
		}
		b.fails(budget.ErrFenced, budget.Request{ID: "ghost", Epoch: dead, Lines: []budget.Line{line(tpm, 1)}})
		b.request(budget.Request{ID: "reborn", Epoch: dead + "2", Lines: []budget.Line{line(tpm, 1)}})
		b.left(tpm, 99, 1)
	}},
	{"S16 a settle after the reclaim charges only what was used beyond it", func(b *table) {
		tpm := with(bucket("tpm", 1000), func(l *budget.Limit) { l.Amount = 1 })
		slot := slots("slots", 5)
		lines := []budget.Line{line(tpm, 100), line(slot, 1)}
		for _, id := range []string{"less", "more"} {
			b.request(budget.Request{ID: id, Lines: lines})
			b.report(id, lines, 50, 0)
		}
		dead := b.die()
		b.reclaim(silence, 100)
		b.left(tpm, 900, 0)
		for range 2 { // the second time it is no news
			for id, used := range map[string]int64{"less": 20, "more": 80} {
				got, err := b.store.Settle(context.Background(), []budget.Settlement{{ID: id, Epoch: dead, Lines: lines, Used: []int64{used, 1}}})
				if err != nil || got[0].Known {
					b.t.Errorf("settle %s: got %+v, %v, want it unknown", id, got, err)
				}
			}
			b.left(tpm, 870, 0)
			b.left(slot, 5, 0)
		}
		b.fails(budget.ErrTooLate, budget.Request{ID: "more", Lines: lines})
	}},
	{"S19 a fenced gateway's settle does not undo the crash charge", func(b *table) {
		tpm := with(bucket("tpm", 1000), func(l *budget.Limit) { l.Amount = 1 })
		lines := []budget.Line{line(tpm, 100)}
		b.request(budget.Request{ID: "open", Lines: lines, CrashCharge: budget.ChargeFull})
		dead := b.die()
		b.reclaim(silence, 0) // fenced, and nothing ended
		got, err := b.store.Settle(context.Background(), []budget.Settlement{{ID: "open", Epoch: dead, Lines: lines, Used: []int64{10}}})
		if err != nil || got[0].Known {
			b.t.Errorf("got %+v, %v, want it unknown", got, err)
		}
		b.reclaim(silence, 100)
		b.left(tpm, 900, 0)
	}},
	{"a reclaim returns what it charged the reservations that have a tag", func(b *table) {
		tpm, day := bucket("tpm", 1000), with(bucket("odd|name%", 5000), func(l *budget.Limit) { l.Unit = budget.USD })
		slot := slots("slots", 5)
		lines := []budget.Line{line(tpm, 100), line(day, 700), line(slot, 1)}
		b.beat(b.epoch)
		tagged := budget.Tagged("r1", "search/gpt-4o|x")
		b.request(budget.Request{ID: tagged, Lines: lines, CrashCharge: budget.ChargeProgress})
		b.report(tagged, lines, 30, 210, 0)
		b.request(budget.Request{ID: "r2", Lines: lines, CrashCharge: budget.ChargeFull})
		b.die()
		if got := b.reclaim(silence, 100); got.Records != 2 || len(b.ended) != 1 {
			b.t.Fatalf("got %+v, %+v, want two records, one with a tag", got, b.ended)
		}
		e := b.ended[0]
		if e.ID != tagged || budget.Tag(e.ID) != "search/gpt-4o|x" || e.Charged[budget.Tokens] != 30 || e.Charged[budget.USD] != 210 {
			b.t.Errorf("got %+v, want 30 tokens and 210 micro-dollars of %s", e, tagged)
		}
		if b.reclaim(silence, 100); len(b.ended) != 0 {
			b.t.Errorf("reclaimed twice: %+v", b.ended)
		}
	}},
	{"a reclaim ends no more than its limit a call", func(b *table) {
		slot := slots("slots", 1000)
		for range 250 {
			b.grant(line(slot, 1))
		}
		b.die()
		for _, want := range []reclaimed{
			{Epochs: 1, Records: 120, More: true}, {Records: 120, More: true}, {Records: 10}, {},
		} {
			if got := b.reclaim(silence, 120); got != want {
				b.t.Errorf("got %+v, want %+v", got, want)
			}
		}
		b.left(slot, 1000, 0)
	}},
	{"a gateway that retires leaves nothing open", func(b *table) {
		slot, tpm := slots("slots", 10), bucket("tpm", 100)
		lines := []budget.Line{line(slot, 1), line(tpm, 10)}
		b.settle(b.grant(lines...), lines, 1, 10)
		b.grant(lines...)
		if err := b.store.Retire(context.Background(), b.epoch); err != nil {
			b.t.Fatalf("retire: %v", err)
		}
		b.left(slot, 10, 0)
		b.left(tpm, 90, 0)
		b.fails(budget.ErrFenced, budget.Request{ID: "after", Lines: lines})
		if got := b.beat("another"); got.Live != 1 {
			b.t.Errorf("alive: got %d, want 1", got.Live)
		}
		if err := b.store.Retire(context.Background(), "never seen"); err != nil {
			b.t.Errorf("retire an unknown epoch: %v", err)
		}
	}},
	{"S31 a heartbeat tells how many gateways live", func(b *table) {
		for i := range 3 {
			if got := b.beat(budget.Epoch(fmt.Sprint("gw-", i))); got.Live != i+1 || got.Fenced {
				b.t.Errorf("beat %d: got %+v, want %d alive", i, got, i+1)
			}
		}
		b.move(11 * time.Second)
		b.beat("gw-1")
		if got := b.reclaim(silence, 10); got.Epochs != 2 {
			b.t.Errorf("fenced: got %d, want 2", got.Epochs)
		}
		if got := b.beat("gw-1"); got.Live != 1 || !got.At.Equal(b.now()) {
			b.t.Errorf("got %+v, want one alive and the store's time", got)
		}
	}},
	{"open reservations are listed by gateway, with their ages", func(b *table) {
		want := map[string]time.Duration{}
		for i := range 600 {
			want[b.grant()] = time.Duration(599-i) * time.Millisecond
			if i < 599 {
				b.ms(1)
			}
		}
		b.request(budget.Request{ID: "other", Epoch: "gw-2"})
		done := b.grant()
		b.settle(done, []budget.Line{}, 0)
		got := b.open(b.epoch)
		if len(got) != len(want) {
			b.t.Fatalf("got %d, want %d", len(got), len(want))
		}
		for id, age := range want {
			if got[id] != age {
				b.t.Fatalf("age of %s: got %v, want %v", id, got[id], age)
			}
		}
	}},
	{"S38 slots taken are the records open", func(b *table) {
		slot := slots("slots", 50)
		lines := []budget.Line{line(slot, 1)}
		open := []string{}
		for i := range 200 {
			if id, v := b.ask(lines...); v.Outcome == budget.Granted {
				open = append(open, id)
			}
			if i%3 == 0 && len(open) > 0 {
				b.settle(open[0], lines, 1)
				open = open[1:]
			}
			if got, want := b.read(slot).Open, int64(len(b.open(b.epoch))); got != want || want != int64(len(open)) {
				b.t.Fatalf("step %d: %d slots taken, %d records, %d granted and not settled", i, got, want, len(open))
			}
		}
	}},
}
