package lease_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/budget/memstore"
)

func TestNothingIsLeasedWhereItCannotBe(t *testing.T) {
	for name, lines := range map[string][]budget.Line{
		"a small limit":                 {line(tpm(600), 10)},
		"few slots":                     {line(tpm(1_000_000), 10), line(slots(20), 1)},
		"a shadow limit":                {line(changed(func(l *budget.Limit) { l.Mode = budget.Shadow }), 10)},
		"a candidate beside":            {line(changed(func(l *budget.Limit) { l.Candidate = 5 }), 10)},
		"a sliding window":              {line(changed(func(l *budget.Limit) { l.Algorithm, l.Bank = budget.SlidingWindow, 0 }), 10)},
		"a sliding log among others":    {line(tpm(1_000_000), 10), line(changed(func(l *budget.Limit) { l.Name, l.Algorithm, l.Bank = "log", budget.SlidingLog, 0 }), 1)},
		"a turn with a provider":        {line(changed(func(l *budget.Limit) { l.Place, l.Scope, l.Algorithm = "provider/p", budget.Provider, budget.Pacing }), 1)},
		"the last tenth of a budget":    {line(tpm(1_000_000), 10), line(spent(monthly(1_000_000), 900_001), 10)},
		"a request of a tenth at least": {line(tpm(1_000_000), 90_000)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGateway(t, "one", memstore.New(time.Now))
				for _, l := range lines {
					if n := spendings[l.Limit]; n > 0 {
						id, _ := g.ask(line(l.Limit, n))
						g.end(id, n)
					}
				}
				for range 1000 {
					id, v, fromLease := g.asks(lines...)
					if fromLease {
						t.Fatal("granted from a lease")
					}
					if v.Outcome == budget.Granted {
						g.end(id, make([]int64, len(lines))...)
					}
					time.Sleep(10 * time.Millisecond)
				}
			})
		})
	}
}

// changed is a limit of a million a minute, changed.
func changed(change func(*budget.Limit)) *budget.Limit {
	l := tpm(1_000_000)
	change(l)
	return l
}

// spendings are what is to be spent of limits before a test.
var spendings = map[*budget.Limit]int64{}

func spent(l *budget.Limit, n int64) *budget.Limit {
	spendings[l] = n
	return l
}

func TestManyBusyCallersTogetherHoldATenthAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, "one", memstore.New(time.Now))
		all := monthly(1_000_000)
		least, leased := int64(1_000_000), 0
		for n := range 6000 {
			lines := []budget.Line{line(all, 1000), {Limit: perUser, Value: string(rune('a' + n%20)), Amount: 1}}
			id, _, fromLease := g.asks(lines...)
			if fromLease {
				leased++
			}
			g.end(id, 0, 0)
			least = min(least, g.stored(all).Remaining)
			time.Sleep(time.Millisecond)
		}
		if leased == 0 {
			t.Error("nothing was granted from leases")
		}
		if least < 1_000_000-2*90_000 { // a lease makes way for the next within 50 ms
			t.Errorf("the store had as little as %d of 1000000 left: more than a tenth was leased", least)
		}
	})
}

// Slots come back within a lease, what is spent does not: neither may a lease end
// with its first slots' worth of requests, nor may those that have ended pile up
// slots that nobody uses.
func TestALeaseServesMoreRequestsThanItHasSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, "one", memstore.New(time.Now))
		spend, slot := monthly(1_000_000_000), slots(200)
		lines := []budget.Line{line(spend, 1), line(slot, 1)}
		var open []string
		least, leased := int64(200), 0
		for n := range 9000 { // 3,000 a second, of which six are in flight
			id, v, fromLease := g.asks(lines...)
			if v.Outcome != budget.Granted {
				t.Fatalf("request %d: got %+v, want it granted", n, v)
			}
			if n >= 6000 && fromLease {
				leased++
			}
			if open = append(open, id); len(open) == 6 {
				g.end(open[0], 1, 1)
				open = open[1:]
			}
			least = min(least, g.stored(slot).Remaining)
			time.Sleep(time.Second / 3000)
		}
		if leased < 2900 {
			t.Errorf("of the last 3000 requests %d were granted from leases, want nearly all", leased)
		}
		if least < 200-2*45-6 { // a quarter of 180, twice while a lease makes way for the next
			t.Errorf("the store had as little as %d of 200 slots", least)
		}
	})
}

// The gateways that beat share the tenth.
func TestBusyGatewaysTogetherHoldATenthAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := memstore.New(time.Now)
		gateways := []*gateway{newGateway(t, "a", shared), newGateway(t, "b", shared), newGateway(t, "c", shared)}
		for range 2 { // so that each hears of the others
			for _, g := range gateways {
				beat(g)
			}
		}
		lines := []budget.Line{line(monthly(1_000_000), 100)}
		least, leased := int64(1_000_000), 0
		for n := range 9000 {
			g := gateways[n%3]
			id, _, fromLease := g.asks(lines...)
			if fromLease {
				leased++
			}
			g.end(id, 0)
			least = min(least, g.stored(lines[0].Limit).Remaining)
			time.Sleep(time.Second / 3000)
		}
		if leased < 1000 {
			t.Errorf("%d requests were granted from leases: too few to show anything", leased)
		}
		if least < 1_000_000-2*90_000 { // a lease makes way for the next within 50 ms
			t.Errorf("the store had as little as %d of 1000000 left: more than a tenth was leased", least)
		}
	})
}

func TestNothingIsLeasedWhileMostSlotsAreInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, "one", memstore.New(time.Now))
		slot := slots(200)
		for range 150 {
			g.ask(line(slot, 1))
		}
		lines := []budget.Line{line(monthly(1_000_000_000), 1), line(slot, 1)}
		for range 1000 {
			id, _, fromLease := g.asks(lines...)
			if fromLease {
				t.Fatal("granted from a lease")
			}
			g.end(id, 1, 1)
			time.Sleep(10 * time.Millisecond)
		}
	})
}

var perUser = changed(func(l *budget.Limit) { l.Name, l.Scope = "user-tpm", budget.User })

func TestBeforeARefusalWhatIsLeasedGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, "one", memstore.New(time.Now))
		all := monthly(1_000_000)
		small := []budget.Line{line(all, 100)}
		g.busy(small, 0)
		large := []budget.Line{line(all, 1_000_000)}
		id, v, fromLease := g.asks(large...)
		if v.Outcome != budget.Granted || fromLease {
			t.Fatalf("a request for all that is free: got %+v, want it granted by the store", v)
		}
		if _, v := g.ask(small...); v.Outcome != budget.Spent || v.Lines[0].Remaining != 0 {
			t.Errorf("one more: got %+v, want the budget spent", v)
		}
		g.end(id, 0)
		if _, v := g.ask(small...); v.Outcome != budget.Granted {
			t.Errorf("after that: got %+v, want it granted", v)
		}
	})
}

func TestSlotsOfALeaseGoBackBeforeARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, "one", memstore.New(time.Now))
		lines := []budget.Line{line(slots(200), 1)}
		g.busy(lines, 1)
		for i := range 200 {
			if _, v := g.ask(lines...); v.Outcome != budget.Granted {
				t.Fatalf("slot %d of 200: got %+v", i+1, v)
			}
		}
		if _, v := g.ask(lines...); v.Outcome != budget.NoSlot {
			t.Errorf("the 201st: got outcome %d, want no slot", v.Outcome)
		}
	})
}

func TestALeaseIsGivenBackWhenNobodyComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, limit, lines, _ := spending(t, 100)
		long := g.askLeased(lines...)
		used := int64(g.n-1) * 100
		time.Sleep(400 * time.Millisecond)
		if s := g.stored(limit); s.Remaining != 1_000_000-used-100 || s.Open != 100 {
			t.Errorf("with one request open: got %d left and %d open, want %d and 100", s.Remaining, s.Open, 1_000_000-used-100)
		}
		time.Sleep(time.Hour)
		g.end(long, 30)
		time.Sleep(100 * time.Millisecond)
		if s := g.stored(limit); s.Remaining != 1_000_000-used-30 || s.Open != 0 {
			t.Errorf("at the end: got %d left and %d open, want %d and none", s.Remaining, s.Open, 1_000_000-used-30)
		}
		if g.Leases() != 0 {
			t.Errorf("leases: got %d, want none", g.Leases())
		}
	})
}

func TestMoreThanWasReservedIsCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, limit, lines, used := spending(t, 100)
		id, _ := g.ask(lines...)
		g.end(id, 500_000)
		if s := g.state(limit); s.Remaining != 1_000_000-used-500_000 {
			t.Errorf("read at once: got %d left, want %d", s.Remaining, 1_000_000-used-500_000)
		}
		time.Sleep(time.Second)
		if s := g.stored(limit); s.Remaining != 1_000_000-used-500_000 {
			t.Errorf("the store: got %d left, want %d", s.Remaining, 1_000_000-used-500_000)
		}
	})
}

func TestAKilledGatewaysLeaseIsChargedAsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := memstore.New(time.Now)
		g, other := newGateway(t, "one", shared), newGateway(t, "other", shared)
		beat(g)
		limit := monthly(1_000_000)
		lines := []budget.Line{line(limit, 100)}
		g.busy(lines, 100)
		used := int64(g.n) * 100
		for range 3 {
			id, _ := g.ask(lines...)
			g.end(id, 70)
		}
		open, _ := g.ask(lines...)
		g.of(open).Report([]int64{20})
		time.Sleep(60 * time.Millisecond) // it is reported
		g.under.down.Store(true)
		time.Sleep(20 * time.Second)
		beat(other)
		if got, err := other.under.Reclaim(context.Background(), 10*time.Second, 100); err != nil || got.Records != 1 {
			t.Fatalf("reclaim: got %+v, %v, want one record", got, err)
		}
		if s := other.stored(limit); s.Remaining != 1_000_000-used-3*70-20 || s.Open != 0 {
			t.Errorf("got %d left and %d open, want %d and none", s.Remaining, s.Open, 1_000_000-used-3*70-20)
		}
		g.under.down.Store(false) // it was only cut off: what it used beyond that is charged yet (S16)
		g.end(open, 90)
		time.Sleep(3 * time.Second)
		if s := other.stored(limit); s.Remaining != 1_000_000-used-3*70-90 || g.Leases() != 0 {
			t.Errorf("afterwards: got %d left and %d leases, want %d and none", s.Remaining, g.Leases(), 1_000_000-used-3*70-90)
		}
	})
}

// What a crash charges beyond what was reported as used: what open requests say
// that it should, and as much again as ended between the last two reports.
func TestS17_AKilledGatewaysLeaseIsChargedWithItsMargin(t *testing.T) {
	for charge, open := range map[budget.CrashCharge]int64{budget.ChargeProgress: 25, budget.ChargeNone: 0} {
		t.Run(string(charge), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shared := memstore.New(time.Now)
				g, other := newGateway(t, "one", shared), newGateway(t, "other", shared)
				beat(g)
				limit, alone := monthly(1_000_000), int64(0)
				lines := []budget.Line{line(limit, 100)}
				ask := func() (string, bool) {
					g.n++
					id, before := fmt.Sprintf("one-%d", g.n), g.Granted()
					g.request(budget.Request{ID: id, Lines: lines, CrashCharge: charge})
					return id, g.Granted() > before
				}
				running := ""
				for leased := 0; leased < 22; time.Sleep(10 * time.Millisecond) {
					id, ok := ask()
					switch {
					case !ok:
						alone += 70
						g.end(id, 70)
						continue
					case running != "":
						g.end(id, 70)
					default:
						running = id
						g.of(id).Sent([]int64{25})
					}
					leased++
				}
				g.under.down.Store(true) // some have ended since the last report
				synctest.Wait()
				g.under.mu.Lock()
				n := len(g.under.told)
				last, before := g.under.told[n-1], g.under.told[n-2]
				g.under.mu.Unlock()
				if last.ID != before.ID || last.Used[0] <= before.Used[0] {
					t.Fatalf("got %+v after %+v, want two reports of one lease, of which the latter tells more", last, before)
				}
				if want := last.Used[0] + (last.Used[0] - before.Used[0]) + open; last.Crash[0] != want {
					t.Errorf("a crash is to charge %d, want %d", last.Crash[0], want)
				}
				time.Sleep(20 * time.Second)
				beat(other)
				if _, err := other.under.Reclaim(context.Background(), 10*time.Second, 100); err != nil {
					t.Fatal(err)
				}
				if got := 1_000_000 - other.stored(limit).Remaining - alone; got != last.Crash[0] {
					t.Errorf("got %d charged, want the %d that were told", got, last.Crash[0])
				}
				g.under.down.Store(false)
				g.end(running, 90)
				time.Sleep(3 * time.Second)
			})
		})
	}
}

// beat lets g live, and hear how many others do.
func beat(g *gateway) {
	b, err := g.under.Heartbeat(context.Background(), g.keeper.Epoch())
	if err != nil {
		g.t.Fatalf("beat: %v", err)
	}
	if g.alive.Store(int64(b.Live)); b.Fenced {
		g.keeper.Renew(g.keeper.Epoch())
	}
}

func TestAFencedEpochGrantsFromNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := memstore.New(time.Now)
		g := newGateway(t, "one", shared)
		lines := []budget.Line{line(tpm(1_000_000), 10)}
		g.busy(lines, 10)
		if _, err := shared.Reclaim(context.Background(), -time.Second, 100); err != nil { // everybody is silent
			t.Fatal(err)
		}
		beat(g)
		id, v, fromLease := g.asks(lines...)
		if fromLease || v.Outcome != budget.Granted || g.keeper.Epoch() != "one.1" {
			t.Errorf("got %+v in epoch %s, want it granted by the store in a new one", v, g.keeper.Epoch())
		}
		g.end(id, 0)
	})
}

func TestALeaseEndsWithItsBudgetsPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, "one", memstore.New(time.Now))
		limit := monthly(1_000_000)
		lines := []budget.Line{line(limit, 10)}
		end := g.state(limit).Reset
		time.Sleep(end - 4*time.Second)
		g.busy(lines, 10)
		for g.state(limit).Reset < 24*time.Hour {
			id, _ := g.ask(lines...)
			g.end(id, 10)
			time.Sleep(time.Millisecond)
		}
		// A new month: what was leased of the old one is not granted from.
		_, v, fromLease := g.asks(lines...)
		if fromLease || v.Lines[0].Remaining != 1_000_000-10 {
			t.Errorf("the month's first request: got %+v, want it decided by the store", v)
		}
	})
}

func TestAStoreThatFailsLeavesNothingOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, "one", memstore.New(time.Now))
		limit := monthly(100_000_000)
		lines := []budget.Line{line(limit, 100)}
		g.busy(lines, 100)
		used := int64(g.n) * 100
		for i := range 3000 {
			if i%300 == 100 {
				g.under.down.Store(true)
			}
			if i%300 == 200 {
				g.under.down.Store(false)
			}
			if id, v := g.ask(lines...); v.Outcome == budget.Granted {
				g.end(id, 60)
				used += 60
			}
			time.Sleep(5 * time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		if s := g.stored(limit); s.Remaining != 100_000_000-used || s.Open != 0 || g.Leases() != 0 {
			t.Errorf("got %d left, %d open, %d leases, want %d left and nothing else", s.Remaining, s.Open, g.Leases(), 100_000_000-used)
		}
	})
}

func TestOpenIDsAndRetireKnowLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, limit, _, used := spending(t, 100)
		ids, err := g.under.OpenIDs(context.Background(), "one")
		if g.Strangers(ids); err != nil || len(ids) != 0 {
			t.Errorf("strangers: got %v, %v, want none: the lease is known", ids, err)
		}
		if err := g.stop(time.Minute); err != nil {
			t.Fatal(err)
		}
		if s := g.stored(limit); s.Remaining != 1_000_000-used || s.Open != 0 {
			t.Errorf("retired: got %d left and %d open, want %d and none", s.Remaining, s.Open, 1_000_000-used)
		}
	})
}

// A lease that the store has granted, and whose answer is on its way, is given
// back before a refusal, too.
func TestALeaseThatIsOnItsWayGoesBackBeforeARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, "one", memstore.New(time.Now))
		g.under.slow = 15 * time.Millisecond
		all := monthly(1_000_000)
		small, leases := []budget.Line{line(all, 100)}, 0
		for range 400 {
			id, _ := g.ask(small...)
			g.end(id, 0)
			if synctest.Wait(); g.stored(all).Remaining < 1_000_000 && g.Granted() == 0 {
				large := []budget.Line{line(all, 1_000_000)}
				id, v := g.ask(large...)
				if v.Outcome != budget.Granted {
					t.Fatalf("a request for all that is free, while a lease is on its way: got %+v", v)
				}
				g.end(id, 0)
				leases++
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if leases == 0 {
			t.Error("no lease was on its way")
		}
		time.Sleep(time.Second)
		if s := g.stored(all); s.Remaining != 1_000_000 || s.Open != 0 || g.Leases() != 0 {
			t.Errorf("at the end: got %d left, %d open, %d leases, want all and nothing else", s.Remaining, s.Open, g.Leases())
		}
	})
}

// A gateway that stops waits for the lease that it has asked for: left to the
// reclaim it would be charged in full where a crash is.
func TestALeaseThatIsOnItsWayAtTheEndCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, "one", memstore.New(time.Now))
		g.under.slow = 15 * time.Millisecond
		all := monthly(1_000_000)
		lines := []budget.Line{line(all, 100)}
		for n := 0; g.stored(all).Remaining == 1_000_000; n++ {
			if n > 400 {
				t.Fatal("no lease was on its way")
			}
			time.Sleep(10 * time.Millisecond)
			id := fmt.Sprint(n)
			g.request(budget.Request{ID: id, Lines: lines, CrashCharge: budget.ChargeFull})
			g.end(id, 0)
			synctest.Wait()
		}
		if err := g.stop(time.Minute); err != nil {
			t.Fatal(err)
		}
		if s := g.stored(all); s.Remaining != 1_000_000 || s.Open != 0 {
			t.Errorf("retired: got %d left and %d open, want all and none", s.Remaining, s.Open)
		}
	})
}

// One request in ten is too large for any lease; the others are granted from
// leases as they would be alone.
func TestLargeRequestsAmongSmallOnesKeepNoLeaseAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, "one", memstore.New(time.Now))
		limit, leased := monthly(10_000_000), 0
		for n := range 1000 {
			lines := []budget.Line{line(limit, 100)}
			if n%10 == 5 {
				lines[0].Amount = 200_000
			}
			id, v, fromLease := g.asks(lines...)
			if v.Outcome != budget.Granted {
				t.Fatalf("request %d: got %+v", n, v)
			}
			if fromLease {
				leased++
			}
			g.end(id, 0)
			time.Sleep(10 * time.Millisecond)
		}
		if leased < 600 {
			t.Errorf("got %d of 1000 from leases, want most of those after two seconds", leased)
		}
	})
}

func TestALeaseServesItsOwnEpochAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _, lines, _ := spending(t, 70)
		g.keeper.Renew("one")
		if _, v, fromLease := g.asks(lines...); fromLease || v.Outcome != budget.Granted {
			t.Errorf("got outcome %d, from a lease %v, want it granted by the store", v.Outcome, fromLease)
		}
	})
}

func TestACrashChargesNoRequestOfALeaseMoreThanItReserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _, lines, _ := spending(t, 70)
		id := g.askLeased(lines...)
		time.Sleep(time.Second) // what has ended is told twice and stands still
		g.of(id).Sent([]int64{500})
		time.Sleep(time.Second)
		synctest.Wait()
		last := g.under.told[len(g.under.told)-1]
		if got := last.Crash[0] - last.Used[0]; got != 100 {
			t.Errorf("a crash is to charge %d beyond what is used, want the 100 that are reserved", got)
		}
	})
}

func TestALeaseMayBeOverBeforeItsReportIsAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, all, small, used := spending(t, 100)
		open := g.askLeased(small...)
		g.under.late = 200 * time.Millisecond
		var asking sync.WaitGroup
		asking.Go(func() { g.request(budget.Request{ID: "large", Lines: []budget.Line{line(all, 1_000_000-used)}}) }) // gives the lease back
		time.Sleep(10 * time.Millisecond)
		g.end(open, 70)
		asking.Wait()
		time.Sleep(3 * time.Second)
		if s := g.stored(all); s.Remaining != 1_000_000-used-70 || s.Open != 0 || g.Leases() != 0 {
			t.Errorf("got %d left, %d open, %d leases, want %d and nothing else", s.Remaining, s.Open, g.Leases(), 1_000_000-used-70)
		}
	})
}

func TestACrashChargesARequestOfALeaseWhatMayHaveComeSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _, lines, _ := spending(t, 70)
		id := g.askLeased(lines...)
		for _, s := range []struct{ used, margin int64 }{{20, 0}, {50, 30}, {60, 10}, {60, 0}} {
			time.Sleep(time.Second) // what has ended is told twice and stands still
			g.of(id).Report([]int64{s.used})
			time.Sleep(time.Second)
			synctest.Wait()
			last := g.under.told[len(g.under.told)-1]
			if got := last.Crash[0] - last.Used[0]; got != s.margin {
				t.Errorf("%d used: a crash is to charge %d beyond it, want %d", s.used, got, s.margin)
			}
		}
	})
}
