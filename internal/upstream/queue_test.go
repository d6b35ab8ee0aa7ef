package upstream

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// isReady tells whether w is at the front.
func isReady(w *waiter) bool {
	select {
	case <-w.ready:
		return true
	default:
		return false
	}
}

func TestTheFrontIsNarrowUntilTheLimiterKeepsGranting(t *testing.T) {
	var q fairQueue
	var w []*waiter
	for range 20 {
		w = append(w, q.push("t", 1, need{service: 1}))
	}
	front := func() (n int) {
		for _, w := range w {
			if isReady(w) {
				n++
			}
		}
		return n
	}
	if front() != 1 {
		t.Fatalf("%d are at the front of a new queue", front())
	}
	q.serve(w[0])
	if got := front() - 1; got != 2 {
		t.Errorf("after a grant %d are at the front, want 2", got)
	}
	q.serve(w[1])
	q.serve(w[2])
	if got := front() - 3; got != 8 {
		t.Errorf("after three grants %d are at the front, want 8", got)
	}
	q.refuse(w[3])
	before := front()
	for i := 4; i < 11; i++ {
		q.serve(w[i])
	}
	if front() != before {
		t.Errorf("%d overtook one that was refused", front()-before)
	}
	q.serve(w[3])
	if got := front() - before; got == 0 {
		t.Errorf("once it is served nobody comes to the front")
	}
}

// Whatever comes and goes, the counts agree, somebody is at the front while any
// wait, and an empty queue remembers nothing.
func TestAQueueKeepsItsAccounts(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	var q fairQueue
	var all []*waiter
	for range 20_000 {
		switch {
		case len(all) == 0 || random.IntN(5) < 2:
			n := need{calls: 1, service: random.Float64()}
			all = append(all, q.push(fmt.Sprint(random.IntN(4)), random.IntN(3), n))
		default:
			i := random.IntN(len(all))
			w := all[i]
			switch {
			case w.front && random.IntN(3) == 0:
				q.refuse(w)
				continue
			case w.front && random.IntN(2) == 0:
				q.serve(w)
			default:
				q.leave(w)
			}
			all = append(all[:i], all[i+1:]...)
		}
		front, behind, stuck := 0, 0, 0
		var calls float64
		for _, w := range all {
			if w.front != isReady(w) {
				t.Fatal("a waiter at the front was not told, or one that is not was")
			}
			if w.front {
				front++
				calls++
			}
			if w.stuck {
				stuck++
			}
		}
		for _, f := range q.flows {
			behind += len(f.waiters)
			var total need
			for _, w := range f.waiters {
				total = total.plus(w.need, 1)
			}
			if math.Abs(total.service-f.total.service) > 1e-6 || math.Abs(total.calls-f.total.calls) > 1e-6 {
				t.Fatalf("a flow of %+v counts %+v", total, f.total)
			}
			if len(f.waiters) == 0 {
				t.Fatal("a flow without waiters is kept")
			}
		}
		if front != q.front || stuck != q.stuck || front+behind != len(all) || q.n != len(all) {
			t.Fatalf("%d at the front of %d, of %d that wait %d are counted", front, q.front, len(all), q.n)
		}
		if len(all) > 0 && front == 0 {
			t.Fatal("some wait and nobody is at the front")
		}
		if math.Abs(q.asked.calls-calls) > 1e-9 {
			t.Fatalf("the front needs %v calls, %v are counted", calls, q.asked.calls)
		}
		if len(all) == 0 && (len(q.idle) != 0 || q.virtual != 0) {
			t.Fatalf("an empty queue remembers %+v", q)
		}
	}
}

func TestAServedTeamThatComesAgainDoesNotJumpTheQueue(t *testing.T) {
	var q fairQueue
	first := q.push("greedy", 1, need{service: 10})
	q.push("other", 1, need{service: 1})
	q.serve(first)
	q.width = 1
	q.push("greedy", 1, need{service: 10})
	q.push("fresh", 1, need{service: 10})
	if greedy, fresh := q.flow("greedy").start, q.flow("fresh").start; greedy != 10 || fresh != 0 {
		t.Errorf("the team that was served starts at %v and the one that was not at %v, want 10 and 0", greedy, fresh)
	}
}

func TestWhoLeavesFromTheFrontCostsItsTeamNothing(t *testing.T) {
	for _, stays := range []string{"another of the team", "nobody of the team"} {
		var q fairQueue
		gone := q.push("a", 1, need{service: 10})
		q.push("b", 1, need{service: 1})
		if stays == "another of the team" {
			q.push("a", 1, need{service: 1})
		}
		q.leave(gone)
		if stays == "nobody of the team" {
			q.push("a", 1, need{service: 1})
		}
		if got := q.flow("a").start; got != 0 {
			t.Errorf("%s stays: the team starts at %v, want 0", stays, got)
		}
	}
}

// What goes before a newcomer: the front, its own team, and of the others what
// their weight lets pass meanwhile.
func TestANewcomerKnowsWhatGoesBeforeIt(t *testing.T) {
	var q fairQueue
	one := need{calls: 1, service: 1}
	for range 11 {
		q.push("other", 2, one)
	}
	q.push("own", 1, one)
	q.push("own", 1, one)
	for _, s := range []struct {
		team   string
		weight int
		want   float64
	}{
		{"own", 1, 1 + 2 + 6},   // the three of this team cost as much as six of the other
		{"fresh", 1, 1 + 1 + 2}, // one of own, two of other
		{"heavy", 100, 1 + 0.01 + 0.02},
		{"other", 2, 1 + 10 + 2}, // both of own pass within the eleven
	} {
		if got := q.ahead(s.team, s.weight, one).calls; math.Abs(got-s.want) > 1e-9 {
			t.Errorf("before one of %s go %v calls, want %v", s.team, got, s.want)
		}
	}
}

// A round trip to the store must not bound the rate of a fast provider.
func TestAFastProviderIsUsedToTheFullOverASlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.latency = 5 * time.Millisecond
		p := gateway(m, Limits{RequestsPerMinute: 60_000})
		var mu sync.Mutex
		var j arrivals
		start := time.Now()
		var group sync.WaitGroup
		for i := range 200 {
			group.Go(func() {
				for n := 0; time.Since(start) < 10*time.Second; n++ {
					if _, err := p.take(t.Context(), request{id: fmt.Sprint(i, "-", n), team: fmt.Sprint(i % 7), maxWait: time.Hour}); err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					j.at, j.costs = append(j.at, time.Since(start)), append(j.costs, 1)
					mu.Unlock()
				}
			})
		}
		group.Wait()
		if got := j.worst(time.Second); got > 1000 {
			t.Errorf("%v calls in a second of 1000", got)
		}
		if got := len(j.at); got < 9000 {
			t.Errorf("%d calls in ten seconds of 1000", got)
		}
	})
}

func BenchmarkQueue(b *testing.B) {
	var q fairQueue
	var w []*waiter
	for i := range 1000 {
		w = append(w, q.push(fmt.Sprint(i%20), 1, need{calls: 1, service: 1}))
	}
	b.ReportAllocs()
	for b.Loop() {
		for i, v := range w {
			if v.front {
				team := v.flow.team
				q.serve(v)
				w[i] = q.push(team, 1, need{calls: 1, service: 1})
				break
			}
		}
	}
}
