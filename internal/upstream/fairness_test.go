package upstream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestTeamsShareByWeightWhateverTheyThrowIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := gateway(newMemory(), Limits{RequestsPerMinute: 60})
		o := order{from: time.Now()}
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		ask := func(team string, weight, n int) {
			for i := range n {
				group.Go(func() {
					if _, err := p.take(ctx, request{id: fmt.Sprint(team, i), team: team, weight: weight, maxWait: time.Hour}); err == nil {
						o.add(team)
					}
				})
			}
			synctest.Wait()
		}
		ask("flood", 1, 300)
		ask("heavy", 3, 60)
		ask("light", 1, 2)
		time.Sleep(42 * time.Second)
		cancel()
		group.Wait()
		got := map[string]int{}
		for _, who := range o.who[:40] {
			got[who]++
		}
		if got["light"] != 2 {
			t.Errorf("of the first 40 turns, light got %d of 2: %v", got["light"], o.who[:40])
		}
		if got["heavy"] < 27 || got["heavy"] > 30 {
			t.Errorf("of the first 40 turns, heavy got %d and flood %d, want 3 to 1", got["heavy"], got["flood"])
		}
		for i, who := range o.who[:8] {
			if who == "light" {
				break
			}
			if i == 7 {
				t.Errorf("light is not among the first eight: %v", o.who[:8])
			}
		}
	})
}

func TestACallerThatGivesUpKeepsNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		p := gateway(m, Limits{RequestsPerMinute: 60})
		mustTake(t, p, "first")
		gone, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		for i := range 20 {
			group.Go(func() {
				if _, err := p.take(gone, request{id: fmt.Sprint("gone", i), team: "t", maxWait: time.Hour}); !errors.Is(err, context.Canceled) {
					t.Errorf("a caller that left got %v", err)
				}
			})
		}
		synctest.Wait()
		start := time.Now()
		var waited time.Duration
		group.Go(func() {
			if _, err := p.take(t.Context(), request{id: "stays", team: "t", maxWait: time.Hour}); err != nil {
				t.Error(err)
			}
			waited = time.Since(start)
		})
		synctest.Wait()
		cancel()
		group.Wait()
		if waited > 1100*time.Millisecond {
			t.Errorf("behind 20 callers that left, the wait is %s", waited)
		}
		if p.queue.n != 0 || p.queue.front != 0 || len(p.queue.flows) != 0 {
			t.Errorf("%d wait, %d flows are left", p.queue.n, len(p.queue.flows))
		}
	})
}

func TestALargeCallIsNotStarvedBySmallOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := gateway(newMemory(), Limits{TokensPerMinute: 60_000})
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		for i := range 40 { // 1.2 times the rate, for ever
			group.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					p.take(ctx, request{id: fmt.Sprint(i, "-", n), team: "small", tokens: 20, maxWait: time.Hour})
				}
			})
		}
		time.Sleep(2 * time.Second)
		start := time.Now()
		if _, err := p.take(ctx, request{id: "large", team: "large", tokens: 5000, maxWait: time.Minute}); err != nil {
			t.Error(err)
		}
		if d := time.Since(start); d > 8*time.Second {
			t.Errorf("a call of five seconds' tokens waited %s", d)
		}
		cancel()
		group.Wait()
	})
}
