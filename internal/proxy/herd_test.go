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

// stampede lets clients ask for one request each of a limit that has nothing
// left, every one coming back when it is told to. It returns how many calls that
// took, and how long.
func stampede(t *testing.T, clients int, perMinute int64, told func(l *budget.Limit, line budget.Line, wait time.Duration) time.Duration) (calls int, took time.Duration) {
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
			heap.Push(queue, visit{time.Now().Add(told(l, line, answer.Wait)), v.client})
		}
	}
	return calls - 1, time.Since(began) // without the one that emptied the limit
}

// A thousand clients that are all told the one exact moment come back for it
// together, and one of them is served: half a million calls. Each told its own,
// they need little more than one each for asking and one for having.
func TestS34AHerdIsSpreadSoThatItsCallsStayFew(t *testing.T) {
	for _, s := range []struct {
		what      string
		told      func(*herd) func(*budget.Limit, budget.Line, time.Duration) time.Duration
		from, to  int // calls
		perMinute int64
	}{
		{"exact waits", func(*herd) func(*budget.Limit, budget.Line, time.Duration) time.Duration {
			return func(_ *budget.Limit, _ budget.Line, wait time.Duration) time.Duration { return wait }
		}, 500_000, 502_000, 1200},
		{"spread waits", func(h *herd) func(*budget.Limit, budget.Line, time.Duration) time.Duration { return h.spread }, 2000, 2200, 1200},
		{"spread waits, longer than a client is told to sleep", func(h *herd) func(*budget.Limit, budget.Line, time.Duration) time.Duration { return h.spread }, 2000, 8000, 300},
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
	for range 1000 {
		h.spread(l, budget.Line{Limit: l, Amount: l.Burst / 4}, exact)
	}
	if got := h.spread(l, budget.Line{Limit: l, Amount: l.Burst/4 + 1}, exact); got != exact {
		t.Errorf("got a wait of %v, want the exact %v: its claim would be over", got, exact)
	}
}
