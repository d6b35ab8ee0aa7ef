package blackbox

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// hostile is a request of 5 MB whose prompt is the slowest to count that is
// known: long rows of signs that together are one word. Every one is another, so
// that none is remembered.
func hostile(model string, n int) string {
	row := 5000 + n
	text := strings.Repeat("-", row) + strings.Repeat(`\n`, row) + strings.Repeat("/", row) + `\nend`
	return fmt.Sprintf(`{"model":%q,"max_tokens":1,"messages":[{"role":"user","content":"%s"}]}`, model, strings.Repeat(text, 5<<20/len(text)))
}

// p99 sends small requests one after the other, and returns the time that 99 of a
// hundred stayed within.
func (w *world) p99(n int) time.Duration {
	w.t.Helper()
	times := make([]time.Duration, n)
	for i := range times {
		began := time.Now()
		if a := w.Post(secret, chat, ask("sim-in8-out1", bound(9+i%50))); a.Status != 200 {
			w.t.Fatalf("got %d\n%s", a.Status, a.Body)
		}
		times[i] = time.Since(began)
	}
	slices.Sort(times)
	return times[n*99/100]
}

func TestAHostilePromptHoldsNobodyUp(t *testing.T) {
	const small = 1000
	// The hostile ones are counted and then refused: nothing else of them
	// happens that could be in the way.
	w := start(t, setup{alone: true, models: "{name: refused, targets: [{provider: sim}], limits: [{name: tiny, unit: tokens, amount: 1000, per: minute}]}"})
	w.p99(small) // connections are made, and the vocabulary is read
	round := 0
	w.withinReach(10, func() (beside, alone time.Duration) {
		body := hostile("refused", round)
		round++
		done := make(chan int, 1)
		began := time.Now()
		go func() {
			a, err := w.Try(secret, chat, body)
			if err != nil {
				t.Errorf("the hostile request: %v", err)
			}
			done <- a.Status
		}()
		beside = w.p99(small)
		during := time.Since(began)
		if status := <-done; status != 400 {
			t.Errorf("the hostile request: got %d, want 400, for it exceeds its limit", status)
		}
		took := time.Since(began)
		alone = w.p99(small)
		t.Logf("99 %% of %d small requests within %v beside a hostile one (%v of its %v), %v alone",
			small, beside, during.Round(time.Millisecond), took.Round(time.Millisecond), alone)
		return beside, alone
	})
	w.settled()
}
