package lease_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/budget/memstore"
)

// judged is how the counters stand for a request of these lines.
func (g *gateway) judged(lines ...budget.Line) []budget.LineState {
	g.t.Helper()
	states, _, err := g.Read(context.Background(), lines)
	if err != nil {
		g.t.Fatal(err)
	}
	return states
}

func TestWhatIsReadIsOfOneMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, limit, lines, _ := spending(t, 70)
		id := g.askLeased(lines...)
		open := 1
		for _, s := range []struct {
			what      string
			meanwhile func()
		}{
			{"the store is told of a lease", func() { time.Sleep(60 * time.Millisecond) }},
			{"a lease ends with its last request", func() {
				g.end(id, 70)
				open = 0
				time.Sleep(2 * time.Second)
			}},
			{"a lease is made", func() { g.busy(lines, 70) }},
			{"a lease ends", func() { time.Sleep(2 * time.Second) }},
		} {
			first := true
			g.under.meanwhile = func() {
				if first {
					first = false
					s.meanwhile()
				}
			}
			got, left := g.state(limit), int64(1_000_000-70*(g.n-open)-100*open)
			if got.Remaining != left || got.Open != int64(100*open) {
				t.Errorf("%s: got %d left and %d open, want %d and %d", s.what, got.Remaining, got.Open, left, 100*open)
			}
		}
	})
}

// What is leased changes nothing of what Read and verdicts say: a twin that has
// no leases and does the same is the measure.
func TestWhatIsReadIsWhatItWouldBeWithoutLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, plain := newGateway(t, "one", memstore.New(time.Now)), memstore.New(time.Now)
		bucket, month, slot := tpm(600_000), monthly(10_000_000), slots(300)
		lines := []budget.Line{line(bucket, 600), line(month, 1000), line(slot, 1)}
		fromLease := false
		both := func(id string, lines []budget.Line) (v, want budget.Verdict) {
			synctest.Wait() // no lease is on its way
			r := budget.Request{ID: id, Epoch: "one", Lines: lines}
			before := g.Granted()
			v = g.request(r)
			fromLease = g.Granted() > before
			want, err := plain.Reserve(context.Background(), r)
			if err != nil {
				t.Fatal(err)
			}
			return v, want
		}
		end := func(id string) {
			g.end(id, 90, 900, 1)
			s := []budget.Settlement{{ID: id, Epoch: "one", Lines: lines, Used: []int64{90, 900, 1}}}
			if _, err := plain.Settle(context.Background(), s); err != nil {
				t.Fatal(err)
			}
		}
		// What an earlier lease has to give back when a new one is made is not known
		// to it for 50 ms: two requests' worth.
		late := []struct {
			left, open int64
			reset      time.Duration
		}{{1030, 1200, 112 * time.Millisecond}, {210, 2000, 10 * time.Millisecond}, {2, 2, 0}}
		near := func(what string, i int, got, want budget.LineState) {
			t.Helper()
			if less := want.Remaining - got.Remaining; less < -10 || less > late[i].left {
				t.Errorf("%s, line %d: got %d left, want %d", what, i, got.Remaining, want.Remaining)
			}
			if off := got.Reset - want.Reset; off < -10*time.Millisecond || off > late[i].reset {
				t.Errorf("%s, line %d: got full in %v, want %v", what, i, got.Reset, want.Reset)
			}
			if more := got.Open - want.Open; more < 0 || more > late[i].open {
				t.Errorf("%s, line %d: got %d open, want %d", what, i, got.Open, want.Open)
			}
			if got.Outcome != want.Outcome || (got.Wait-want.Wait).Abs() > 10*time.Millisecond {
				t.Errorf("%s, line %d: got outcome %d, wait %v, want %d, %v", what, i, got.Outcome, got.Wait, want.Outcome, want.Wait)
			}
		}
		leased, reads, later := 0, 0, []string(nil)
		for n := range 500 {
			large := slices.Clone(lines)
			if n%50 == 25 { // too large for a lease, and it stays open
				large[0].Amount, large[1].Amount = 70_000, 700_000
			}
			v, want := both(fmt.Sprint(n), large)
			switch {
			case n%25 == 0: // stays open
			case n%3 == 1 && fromLease: // ends when another lease is granted from
				later = append(later, fmt.Sprint(n))
			default:
				end(fmt.Sprint(n))
			}
			if len(later) > 20 && fromLease {
				end(later[0])
				later = later[1:]
			}
			if fromLease {
				leased++
			}
			for i := range lines {
				near("verdict", i, v.Lines[i], want.Lines[i])
			}
			synctest.Wait()
			for _, more := range []int64{0, 550_000, 600_000} {
				asked := []budget.Line{line(bucket, more), line(month, 16*more), line(slot, more/2000)}
				wants, _, err := plain.Read(context.Background(), asked)
				if err != nil {
					t.Fatal(err)
				}
				for i, got := range g.judged(asked...) {
					near("read", i, got, wants[i])
					if wants[i].Outcome != budget.Granted {
						reads++
					}
				}
			}
			if t.Failed() {
				t.Fatalf("at request %d, %d of them leased", n, leased)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if leased < 100 || reads < 100 {
			t.Errorf("%d were leased, and %d times a request would have been refused: too few to show anything", leased, reads)
		}
	})
}

// A claim holds what small requests would find, though leases of others are held.
func TestALeaseElsewhereLiftsNoRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, "one", memstore.New(time.Now))
		elsewhere := []budget.Line{line(monthly(1_000_000), 100)}
		g.busy(elsewhere, 0)
		g.ask(elsewhere...) // stays open
		bucket := tpm(60_000)
		id, _ := g.ask(line(bucket, 40_000))
		if _, v := g.ask(line(bucket, 40_000)); v.Outcome != budget.Exceeded {
			t.Fatalf("got %+v, want it exceeded, and a claim", v)
		}
		time.Sleep(200 * time.Millisecond)
		if g.Leases() == 0 {
			t.Fatal("no lease is held any more")
		}
		want, _, err := g.under.Read(context.Background(), []budget.Line{line(bucket, 20_150)})
		if err != nil || want[0].Outcome == budget.Granted {
			t.Fatalf("the store: got %+v, %v, want what is set aside held back", want, err)
		}
		if got := g.judged(line(bucket, 20_150)); got[0] != want[0] {
			t.Errorf("got %+v, want %+v", got[0], want[0])
		}
		g.end(id, 0)
	})
}

func TestABucketThatTakesCenturiesIsNotToldFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, "one", memstore.New(time.Now))
		slow := changed(func(l *budget.Limit) {
			l.Amount, l.Period, l.Burst, l.MaxDebt = 1, budget.Hour, 1_000_000_000, 1_000_000_000
		})
		lines := []budget.Line{line(slow, 100_000)} // a lease of these takes longer than a Duration is long
		g.busy(lines, 0)
		_, v, fromLease := g.asks(lines...)
		if !fromLease || v.Lines[0].Reset < 100_000*time.Hour {
			t.Errorf("got %+v, want it leased, and full in 100,000 hours at the soonest", v)
		}
	})
}
