package blackbox

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// How much of a budget is put to use, under steady overload, by requests that
// may use 4,096 tokens and use 100: with the maximum reserved, and with what is
// learned.

const (
	utilRate    = 10_000 // tokens a second, and as much at once
	utilBank    = 4      // the default
	utilUsed    = 108    // by each request
	utilAnswer  = 500 * time.Millisecond
	utilClients = 96 // who would use twice the rate
	utilMeasure = 5 * time.Second
)

// use is a request that was admitted, as its client saw it: when it was sent,
// when it was surely admitted, when its answer was there; and what it reserved.
type use struct {
	sent, admitted, done time.Time
	reserved             int
}

// overload runs clients that ask again at once when they are answered, and when
// they were told to when they are not, for so long; and returns what was
// admitted.
func (w *world) overload(clients int, body string, long time.Duration) []use {
	var mu sync.Mutex
	var all []use
	var group sync.WaitGroup
	end := time.Now().Add(long)
	for range clients {
		group.Go(func() {
			for time.Now().Before(end) {
				u, again := w.attempt(body)
				if again > 0 {
					<-time.After(min(again, time.Until(end))) // what the client was told
					continue
				}
				mu.Lock()
				all = append(all, u)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return all
}

// attempt sends one request; it returns how long to wait if it is refused.
func (w *world) attempt(body string) (u use, again time.Duration) {
	u.sent = time.Now()
	a, err := w.Try(secret, chat, body)
	u.done = time.Now()
	u.admitted = u.done.Add(-utilAnswer) // the provider had it by then
	if err != nil {
		w.t.Errorf("a request broke: %v", err)
		return u, time.Second
	}
	if a.Status == 429 {
		ms, err := strconv.Atoi(a.Header.Get("Retry-After-Ms"))
		if err != nil || ms <= 0 {
			w.t.Errorf("refused with retry-after-ms %q", a.Header.Get("Retry-After-Ms"))
			ms = 1000
		}
		return u, time.Duration(ms) * time.Millisecond
	}
	if u.reserved, err = strconv.Atoi(a.Header.Get("X-LLMGW-Estimated-Tokens")); a.Status != 200 || err != nil {
		w.t.Errorf("got %d, %v\n%s", a.Status, err, a.Body)
	}
	return u, 0
}

// utilisation is how much of what the limit granted from a second after the
// first request on was used: then the bucket is empty, and only its rate counts.
func utilisation(all []use) float64 {
	first := all[0].sent
	for _, u := range all {
		if u.sent.Before(first) {
			first = u.sent
		}
	}
	from, to := first.Add(time.Second), first.Add(time.Second+utilMeasure)
	n := 0
	for _, u := range all {
		if u.admitted.After(from) && !u.admitted.After(to) {
			n++
		}
	}
	return float64(n*utilUsed) / (utilRate * utilMeasure.Seconds())
}

// bounds checks T2 and T5 over every interval from one request's sending to
// another's admission: what was surely admitted within it used no more than the
// bounds allow.
func bounds(t *testing.T, what string, all []use) {
	t.Helper()
	slices.SortFunc(all, func(a, b use) int { return a.admitted.Compare(b.admitted) })
	for _, from := range all {
		open := 0 // the most that may come back of what was reserved before
		for _, u := range all {
			if u.sent.Before(from.sent) && u.done.After(from.sent) {
				open += u.reserved - utilUsed
			}
		}
		used := 0
		for _, u := range all {
			if u.sent.Before(from.sent) {
				continue
			}
			used += utilUsed
			long := u.admitted.Sub(from.sent).Seconds()
			if most := utilRate + utilRate*long + float64(open); float64(used) > most {
				t.Fatalf("%s: T2: %d tokens in %.3f s with %d to come back, want %.0f at most", what, used, long, open, most)
			}
			if most := utilBank*utilRate + utilRate*long; float64(used) > most {
				t.Fatalf("%s: T5: %d tokens in %.3f s, want %.0f at most", what, used, long, most)
			}
		}
	}
}

func TestALearnedReservePutsABudgetToUse(t *testing.T) {
	limit := fmt.Sprintf("{name: tps, unit: tokens, amount: %d, per: second}", utilRate)
	body := ask("sim-in8-out100-wait500ms", `"max_tokens":4096`)
	worlds := map[string]*world{}
	for _, reserve := range []string{"max", "learned"} {
		worlds[reserve] = start(t, setup{alone: true, limits: limit, model: "reserve_output: " + reserve})
	}
	var mu sync.Mutex
	uses := map[string][]use{}
	var group sync.WaitGroup
	for reserve, w := range worlds {
		group.Go(func() {
			w.overload(10, ask("sim-in8-out100-wait500ms", `"max_tokens":200`), 2*time.Second) // what is learned
			all := w.overload(utilClients, body, utilMeasure+time.Second+utilAnswer)
			mu.Lock()
			defer mu.Unlock()
			uses[reserve] = all
		})
	}
	group.Wait()
	got := map[string]float64{}
	for reserve, all := range uses {
		got[reserve] = utilisation(all)
		bounds(t, reserve, all)
	}
	t.Logf("used of the budget: %.1f %% with the maximum reserved, %.1f %% with what is learned", 100*got["max"], 100*got["learned"])
	if got["learned"] < 0.9 {
		t.Errorf("with what is learned %.1f %% of the budget is used, want 90", 100*got["learned"])
	}
	if got["max"] > 0.5 {
		t.Errorf("with the maximum %.1f %% of the budget is used: the load does not show what it should", 100*got["max"])
	}
	for _, w := range worlds {
		w.settled()
	}
}
