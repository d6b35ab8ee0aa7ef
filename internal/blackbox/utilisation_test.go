package blackbox

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// How much of a budget is put to use, under steady overload, by requests that
// may use 4,096 tokens and use 100: with the maximum reserved, with what is
// learned, and with what is learned where one of 250 uses 2,000.

const (
	utilRate    = 10_000 // tokens a second, and as much at once
	utilBank    = 4      // the default
	utilAnswer  = 500 * time.Millisecond
	utilClients = 96 // who would use twice the rate
	utilMeasure = 5 * time.Second
)

// use is a request that was admitted, as its client saw it: when it was sent,
// when it was surely admitted, when its answer was there; what it reserved
// and what it used.
type use struct {
	sent, admitted, done time.Time
	reserved, used       int
}

// overrun is what was used above the reserve.
func (u use) overrun() int { return max(0, u.used-u.reserved) }

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
	var answer struct {
		Usage struct {
			Total int `json:"total_tokens"`
		}
	}
	err = json.Unmarshal([]byte(a.Body), &answer)
	u.used = answer.Usage.Total
	if u.reserved, _ = strconv.Atoi(a.Header.Get("X-LLMGW-Estimated-Tokens")); a.Status != 200 || err != nil || u.used == 0 || u.reserved == 0 {
		w.t.Errorf("got %d with %+v, %v\n%s", a.Status, u, err, a.Body)
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
			n += u.used
		}
	}
	return float64(n) / (utilRate * utilMeasure.Seconds())
}

// bounds checks T2 and T5 over every interval from one request's sending to
// another's admission: what was surely admitted within it used no more than the
// bounds allow, but for what came on top of its reserves: that is debt.
func bounds(t *testing.T, what string, all []use) {
	t.Helper()
	slices.SortFunc(all, func(a, b use) int { return a.admitted.Compare(b.admitted) })
	for _, from := range all {
		open := 0 // the most that may come back of what was reserved before
		for _, u := range all {
			if u.sent.Before(from.sent) && u.done.After(from.sent) {
				open += max(0, u.reserved-u.used)
			}
		}
		used := 0 // within what was reserved
		for _, u := range all {
			if u.sent.Before(from.sent) {
				continue
			}
			used += u.used - u.overrun()
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
	worlds := map[string]*world{}
	for name, target := range map[string]string{
		"max":     "targets: [{provider: sim, model: sim-in8-out100-wait500ms}]",
		"learned": "targets: [{provider: sim, model: sim-in8-out100-wait500ms}], reserve_output: learned",
		"rare": "targets: [{provider: sim, model: sim-in8-out100-wait500ms, weight: 249}, {provider: sim, model: sim-in8-out2000-wait500ms, weight: 1}], " +
			"reserve_output: learned",
	} {
		worlds[name] = start(t, setup{alone: true, limits: limit, models: "{name: chat, " + target + "}"})
	}
	var mu sync.Mutex
	uses := map[string][]use{}
	var group sync.WaitGroup
	for name, w := range worlds {
		group.Go(func() {
			w.overload(10, ask("chat", `"max_tokens":2000`), 2*time.Second) // what is learned
			all := w.overload(utilClients, ask("chat", `"max_tokens":4096`), utilMeasure+time.Second+utilAnswer)
			mu.Lock()
			defer mu.Unlock()
			uses[name] = all
		})
	}
	group.Wait()
	got, over := map[string]float64{}, 0
	for name, all := range uses {
		got[name] = utilisation(all)
		bounds(t, name, all)
		for _, u := range all {
			over += u.overrun()
		}
	}
	t.Logf("used of the budget: %.1f %% with the maximum reserved, %.1f %% with what is learned, %.1f %% where some answers use %d more",
		100*got["max"], 100*got["learned"], 100*got["rare"], over)
	for _, name := range []string{"learned", "rare"} {
		if got[name] < 0.9 {
			t.Errorf("%s: %.1f %% of the budget is used, want 90", name, 100*got[name])
		}
	}
	if got["max"] > 0.5 || over == 0 {
		t.Error("the load does not show what it should")
	}
	for _, w := range worlds {
		w.settled()
	}
}
