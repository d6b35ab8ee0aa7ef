package proxy

import (
	"container/heap"
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/budget/memstore"
)

// visit is when a client of a herd comes back.
type visit struct {
	due    time.Time
	client int
}

type visits []visit

func (v visits) Len() int           { return len(v) }
func (v visits) Less(i, j int) bool { return v[i].due.Before(v[j].due) }
func (v visits) Swap(i, j int)      { v[i], v[j] = v[j], v[i] }
func (v *visits) Push(x any)        { *v = append(*v, x.(visit)) }
func (v *visits) Pop() any {
	last := (*v)[len(*v)-1]
	*v = (*v)[:len(*v)-1]
	return last
}

// tells is what a client that is refused is told.
type tells func(client int, t turn) time.Duration

// stampede lets clients ask for one request each of a limit that has nothing
// left, every one coming back when it is told to. It returns how many calls that
// took, and how long.
func stampede(t *testing.T, clients int, perMinute int64, told tells) (calls int, took time.Duration) {
	t.Helper()
	store := memstore.New(nil)
	l := teamTPM()
	l.Amount, l.Burst, l.Bank, l.Unit = perMinute, perMinute, 0, budget.Requests
	line := budget.Line{Limit: l, Amount: 1}
	ask := func(n int64) budget.Verdict {
		calls++
		v, err := store.Reserve(context.Background(), budget.Request{ID: fmt.Sprint(calls), Epoch: "e", Lines: []budget.Line{{Limit: l, Amount: n}}})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	ask(l.Burst)
	began := time.Now()
	queue := &visits{}
	for c := range clients {
		heap.Push(queue, visit{began, c})
	}
	for queue.Len() > 0 {
		v := heap.Pop(queue).(visit)
		time.Sleep(time.Until(v.due))
		if answer := ask(1); answer.Outcome != budget.Granted {
			wait := told(v.client, turn{queue: queueOf(l, line), wait: answer.Wait, gain: l.Gain(1)})
			heap.Push(queue, visit{time.Now().Add(wait), v.client})
		}
	}
	return calls - 1, time.Since(began) // without the one that emptied the limit
}

// A thousand clients that are all told the one exact moment come back for it
// together, and one of them is served: half a million calls. Each told its own,
// they need little more than one each for asking and one for having.
func TestS34AHerdIsSpreadSoThatItsCallsStayFew(t *testing.T) {
	exact := func(*herd) tells { return func(_ int, t turn) time.Duration { return t.wait } }
	ofOne := func(h *herd) tells { return func(_ int, t turn) time.Duration { return h.spread(t) } }
	ofMany := func(h *herd) tells {
		return func(client int, t turn) time.Duration {
			t.caller = fmt.Sprint(client)
			return h.spread(t)
		}
	}
	ofConnections := func(h *herd) tells {
		return func(client int, t turn) time.Duration {
			t.client = fmt.Sprint(client)
			return h.spread(t)
		}
	}
	for _, s := range []struct {
		what      string
		told      func(*herd) tells
		from, to  int // calls
		perMinute int64
	}{
		{"exact waits", exact, 500_000, 502_000, 1200},
		{"spread waits of one caller's clients", ofOne, 2000, 2200, 1200},
		{"spread waits of a thousand callers", ofMany, 2000, 2200, 1200},
		{"spread waits of one caller's thousand connections", ofConnections, 2000, 2200, 1200},
		{"spread waits of one caller, longer than a client is told to sleep", ofOne, 2000, 8000, 300},
		{"spread waits of a thousand, longer than a client is told to sleep", ofMany, 2000, 8000, 300},
	} {
		t.Run(s.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls, took := stampede(t, 1000, s.perMinute, s.told(newHerd()))
				t.Logf("%d calls in %v", calls, took)
				if calls < s.from || calls > s.to {
					t.Errorf("got %d calls, want %d to %d", calls, s.from, s.to)
				}
				// Nobody waits much longer than the limit needs for a thousand.
				if most := time.Duration(1000)*time.Minute/time.Duration(s.perMinute) + longestHint; took > most {
					t.Errorf("took %v, want %v at most", took, most)
				}
			})
		})
	}
}

func TestALargeRequestDoesNotComeBackBehindAHerdOfSmallOnes(t *testing.T) {
	h, l, exact := newHerd(), teamTPM(), 1500*time.Millisecond
	ask := func(amount int64) time.Duration {
		return h.spread(turn{queue: queueOf(l, budget.Line{Limit: l, Amount: amount}), wait: exact, gain: l.Gain(amount)})
	}
	for range 1000 {
		ask(l.Burst / 4)
	}
	if got := ask(l.Burst/4 + 1); got != exact {
		t.Errorf("got a wait of %v, want the exact %v: its claim would be over", got, exact)
	}
}

// One caller ignores what it is told and asks a hundred times a second. What the
// others are told stays near their exact waits.
func TestWhoIgnoresItsWaitsPutsOffItsOwnTurnAndNotTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHerd()
		const exact, each = 500 * time.Millisecond, 600 * time.Millisecond
		ask := func(caller string) time.Duration {
			return h.spread(turn{queue: "tpm", caller: caller, wait: exact, gain: each})
		}
		longest := time.Duration(0)
		for i := range 6000 { // a minute
			longest = max(longest, ask("flood"))
			if i%100 == 99 { // each comes when it was told, and is refused again
				for _, polite := range []string{"ann", "bob", "cleo"} {
					// Its own turn, and one of each other at most.
					if got := ask(polite); got < exact || got > exact+4*each {
						t.Fatalf("after %d requests of the flood %s is told %v, want %v at most", i, polite, got, exact+4*each)
					}
				}
				time.Sleep(4 * each)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if longest < longestHint/2 {
			t.Errorf("the flood is told %v at most, want its own turns to be far away", longest)
		}
	})
}

func TestALoneClientsWaitIsExactHoweverOftenItComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHerd()
		for i := range 100 {
			const exact = 500 * time.Millisecond
			if got := h.spread(turn{queue: "tpm", caller: "ann", wait: exact, gain: time.Second}); got != exact {
				t.Fatalf("visit %d: got a wait of %v, want the exact %v", i, got, exact)
			}
			time.Sleep(exact + time.Nanosecond)
		}
	})
}

// A bucket may hold what it takes longer to gain than a duration can say.
func TestWhatIsNeverGainedIsNotWaitedFor(t *testing.T) {
	l := teamTPM()
	l.Amount, l.Period, l.Burst = 1, budget.Hour, 1<<50
	h := newHerd()
	for range 2 * herdSize {
		told := h.spread(turn{queue: "q", caller: "c", wait: 10 * time.Second, gain: l.Gain(1 << 50)})
		if told < 10*time.Second || told > longestHint {
			t.Errorf("told to wait for %v, want 10 s to %v", told, longestHint)
		}
	}
}

// One client asks a hundred times a second for a minute, whatever it is told.
func TestALoneClientThatHammersKeepsItsOnePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHerd()
		const exact = time.Second
		for range 6000 {
			got := h.spread(turn{queue: "tpm", caller: "flood", client: "127.0.0.1:4711", wait: exact, gain: exact})
			if got != exact {
				t.Fatalf("got a wait of %v, want the exact %v", got, exact)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if others := h.spread(turn{queue: "tpm", caller: "ann", client: "127.0.0.1:4712", wait: exact, gain: exact}); others != exact {
			t.Errorf("another client is told %v, want %v", others, exact)
		}
	})
}

// A client of a herd that comes early is told the rest of its own wait.
func TestAClientOfAHerdThatComesEarlyKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHerd()
		told := map[int]time.Time{}
		ask := func(client int) time.Duration {
			return h.spread(turn{queue: "tpm", caller: "herd", client: fmt.Sprint(client), wait: 500 * time.Millisecond, gain: 200 * time.Millisecond})
		}
		for c := range 40 {
			told[c] = time.Now().Add(ask(c))
		}
		time.Sleep(time.Second)
		for c := 20; c < 40; c++ {
			if got := time.Now().Add(ask(c)); !got.Equal(told[c]) {
				t.Errorf("client %d comes early and is told %v, want its own %v", c, got, told[c])
			}
		}
	})
}

func BenchmarkSpread(b *testing.B) {
	h := newHerd()
	b.ReportAllocs()
	for b.Loop() {
		h.spread(turn{queue: "team/search\x00tpm\x00", caller: "search-prod\x00anonymous\x0010.0.0.1", wait: time.Second, gain: time.Millisecond})
	}
}
