package upstream

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestSlotsOfTheProviderAreHeldUntilTheAnswerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		p := gateway(m, Limits{Concurrency: 2})
		a := mustTake(t, p, "a")
		mustTake(t, p, "b")
		if _, err := p.take(t.Context(), request{id: "c", team: "t"}); err == nil {
			t.Fatal("a third call went to a provider of two slots")
		} else if f := capacity(t, err); f.Limit.By != "provider/p/concurrency" {
			t.Errorf("refused by %s", f.Limit.By)
		}
		start := time.Now()
		var group sync.WaitGroup
		group.Go(func() {
			if _, err := p.take(t.Context(), request{id: "d", team: "t", maxWait: time.Minute}); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(3 * time.Second)
		a.settle(1, 0)
		group.Wait()
		if d := time.Since(start); d > 3*time.Second {
			t.Errorf("the slot was free after 3 s and taken after %s", d)
		}
	})
}

func TestASlotThatAnotherGatewayFreesIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		here, there := gateway(m, Limits{Concurrency: 1}), gateway(m, Limits{Concurrency: 1})
		held := mustTake(t, there, "there")
		var group sync.WaitGroup
		start := time.Now()
		group.Go(func() {
			if _, err := here.take(t.Context(), request{id: "here", team: "t", maxWait: time.Minute}); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(time.Second)
		held.settle(1, 0)
		group.Wait()
		if d := time.Since(start); d > time.Second+slotPoll {
			t.Errorf("found after %s", d)
		}
	})
}

func TestAProviderWithSlotsAloneIsPausedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := gateway(newMemory(), Limits{Concurrency: 5})
		p.hold(3 * time.Second)
		start := time.Now()
		if _, err := p.take(t.Context(), request{id: "r", team: "t", maxWait: time.Minute}); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d != 3*time.Second {
			t.Errorf("a pause of 3 s held a call for %s", d)
		}
	})
}
