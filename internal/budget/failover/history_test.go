package failover

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"llmgw/internal/budget"
)

var (
	histories = flag.Int("histories", 200, "how many random histories of faults to play")
	firstSeed = flag.Uint64("seed", 1, "the first history's seed")
)

// Whatever happens to the calls, in the end what is charged is what was used by
// the requests that were granted, nothing is open, and no slot is taken.
func TestNoHistoryOfFaultsLosesOrInventsAToken(t *testing.T) {
	for seed := *firstSeed; seed < *firstSeed+uint64(*histories); seed++ {
		synctest.Test(t, func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf("the history of -seed %d", seed)
				}
			}()
			h := newHistory(t, seed)
			for range 60 {
				h.step()
			}
			h.finish()
		})
	}
}

// history is a random one.
type history struct {
	*world
	rng      *rand.Rand
	n        int
	running  []budget.Request
	expected map[*budget.Limit]int64
	granted  int
}

func newHistory(t *testing.T, seed uint64) *history {
	h := &history{rng: rand.New(rand.NewPCG(seed, 0)), expected: map[*budget.Limit]int64{}}
	h.world = newWorld(t, func(c *Config) { c.Failures = 1 + h.rng.IntN(4) })
	h.keeper.live = 1 + h.rng.IntN(4)
	return h
}

var menu = []*budget.Limit{tpm, rpm, slots, money, loose}

// step does one thing of what can happen.
func (h *history) step() {
	switch p := h.rng.IntN(100); {
	case p < 40:
		h.ask()
	case p < 70:
		h.settleOne()
	case p < 75 && len(h.running) > 0:
		r := h.running[h.rng.IntN(len(h.running))]
		[]func(string, []int64){h.Sent, h.Report}[h.rng.IntN(2)](r.ID, h.uses(r))
	case p < 80:
		h.weather()
	case p < 83:
		h.ledger.mu.Lock()
		h.ledger.fenced[h.keeper.Epoch()] = h.rng.IntN(2) == 0
		h.ledger.mu.Unlock()
	default:
		time.Sleep(time.Duration(h.rng.IntN(1<<h.rng.IntN(13))) * time.Millisecond)
	}
}

// weather chooses what happens to calls from now on.
func (h *history) weather() {
	kinds := []fault{none, none, lost, replyLost, barelyLate, late, veryLate, repeated, slow, refused, readonly, oom}
	one := kinds[h.rng.IntN(len(kinds))]
	often := []int{100, 50, 10}[h.rng.IntN(3)]
	rng := rand.New(rand.NewPCG(h.rng.Uint64(), 1)) // the faults' own: calls come from several goroutines, one at a time
	h.faults.set(func(string) fault {
		if rng.IntN(100) < often {
			return one
		}
		return none
	})
}

func (h *history) ask() {
	h.n++
	r := budget.Request{ID: fmt.Sprint("r", h.n)}
	for _, l := range menu {
		if h.rng.IntN(2) == 0 {
			continue
		}
		n := int64(1)
		if l.Unit == budget.Tokens || l.Unit == budget.USD {
			n = []int64{0, 1, 10, 100, l.Amount / 3, l.Amount, l.Amount + 1}[h.rng.IntN(7)]
		}
		r.Lines = append(r.Lines, line(l, n))
	}
	start := time.Now()
	v := h.Reserve(h.t.Context(), r)
	if took := time.Since(start); took > timeout {
		h.t.Errorf("%s: a decision took %v, want at most %v", r.ID, took, timeout)
	}
	if (v.Outcome == budget.Granted) != (v.Binding < 0) || len(v.Lines) != len(r.Lines) {
		h.t.Errorf("%s: got an odd verdict %+v", r.ID, v)
	}
	if v.Outcome == budget.Granted {
		h.running = append(h.running, r)
		h.granted++
	}
}

// uses draws what a request uses: often nothing, sometimes more than it reserved.
func (h *history) uses(r budget.Request) []int64 {
	out := make([]int64, len(r.Lines))
	for i, l := range r.Lines {
		if l.Limit.Unit == budget.Concurrency {
			out[i] = 1
			continue
		}
		out[i] = []int64{0, l.Amount / 2, l.Amount, l.Amount + 5}[h.rng.IntN(4)]
	}
	return out
}

func (h *history) settleOne() {
	if len(h.running) == 0 {
		return
	}
	i := h.rng.IntN(len(h.running))
	r := h.running[i]
	h.running = slices.Delete(h.running, i, i+1)
	used := h.uses(r)
	for i, l := range r.Lines {
		if l.Limit.Unit != budget.Concurrency {
			h.expected[l.Limit] += used[i]
		}
	}
	h.Settle(r.ID, used)
}

func (h *history) finish() {
	for len(h.running) > 0 {
		h.settleOne()
	}
	time.Sleep(time.Minute)
	h.rise()
	for _, l := range menu {
		if got, want := h.ledger.charged(line(l, 0)), h.expected[l]; got != want {
			h.t.Errorf("got %d charged of %s, want %d", got, l.Name, want)
		}
	}
	if got := h.ledger.open(); len(got) != 0 {
		h.t.Errorf("got %v open in the store, want none", got)
	}
	if h.Open() != 0 || h.Unwritten() != 0 {
		h.t.Errorf("got %d open and %d unwritten, want none", h.Open(), h.Unwritten())
	}
	if got := h.seen.result("dropped"); got != 0 {
		h.t.Errorf("got %d dropped, want 0", got)
	}
	h.end()
}
