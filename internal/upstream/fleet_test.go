package upstream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"llmgw/internal/shared"
)

// fleet is gateways that share a store, each with a transport of its own.
type fleet struct {
	t        *testing.T
	store    *flaky
	gateways []*Client
	asked    []*byKey
	targets  []Target
}

// flaky is a shared map that can be away.
type flaky struct {
	shared.Memory
	mu   sync.Mutex
	away error
}

func (f *flaky) state() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.away
}

func (f *flaky) turn(away error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away = away
}

func (f *flaky) Fields(ctx context.Context, name string) (map[string]string, error) {
	if err := f.state(); err != nil {
		return nil, err
	}
	return f.Memory.Fields(ctx, name)
}

func (f *flaky) Set(ctx context.Context, name, field, value string) error {
	if err := f.state(); err != nil {
		return err
	}
	return f.Memory.Set(ctx, name, field, value)
}

// newFleet starts n gateways of two providers, a with the dead key.
func newFleet(t *testing.T, n int, dead answer) *fleet {
	f := &fleet{t: t, store: &flaky{}}
	for range n {
		a := provider("a", func(p *Provider) { p.APIKeys, p.Retries = []string{deadKey}, 0 })
		b := provider("b", func(p *Provider) { p.APIKeys = []string{goodKey} })
		transport := &byKey{answers: map[string]answer{deadKey: dead}}
		c := transport.client(nil, nil, nil, a, b)
		f.targets = []Target{{Provider: a, Model: "m", Weight: 1}, {Provider: b, Model: "m", Weight: 1}}
		f.gateways, f.asked = append(f.gateways, c), append(f.asked, transport)
		f.share(c)
	}
	synctest.Wait()
	return f
}

func (f *fleet) share(c *Client) {
	ctx, cancel := context.WithCancel(f.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Share(ctx, f.store)
	}()
	f.t.Cleanup(func() { cancel(); <-done })
}

// run makes a call a second at each gateway, and returns how often the dead key
// was asked by all of them.
func (f *fleet) run(d time.Duration) (asked int) {
	before := f.total()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
		for _, c := range f.gateways {
			spread(f.t, c, 1, f.targets...)
		}
	}
	return f.total() - before
}

func (f *fleet) total() (n int) {
	for _, b := range f.asked {
		b.mu.Lock()
		n += b.asked[deadKey]
		b.mu.Unlock()
	}
	return n
}

// noticed makes the first gateway meet the dead key, and gives the others time.
func (f *fleet) noticed() {
	spread(f.t, f.gateways[0], 2, f.targets...)
	time.Sleep(shareEvery + time.Millisecond)
}

func TestWhatRestsAtOneGatewayRestsAtAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 3, answer{status: 429, body: spentBody})
		f.noticed()
		if n := f.run(59 * time.Second); n != 0 {
			t.Errorf("%d calls went to a quota that one gateway had found spent", n)
		}
		if n := f.run(10 * time.Minute); n < 10 || n > 12 {
			t.Errorf("three gateways probed it %d times in ten minutes", n)
		}
		for _, b := range f.asked {
			b.set(deadKey, answer{status: 200, body: "fine\n"})
		}
		f.run(time.Minute + 4*time.Second)
		for i, c := range f.gateways {
			if got := spread(t, c, 10, f.targets...); got["a"] != 5 {
				t.Errorf("once it is back, at gateway %d %v served", i, got)
			}
		}
		fields, err := f.store.Fields(t.Context(), conditionsMap)
		if err != nil || len(fields) != 0 {
			t.Errorf("the store still has %v, %v", fields, err)
		}
	})
}

func TestAProbeIsTakenOverFromAGatewayWithoutCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 2, answer{status: 401})
		f.noticed()
		f.gateways, f.asked[1].answers = f.gateways[1:], map[string]answer{} // only the other has calls; the key is good again
		f.run(15 * time.Second)
		if got := spread(t, f.gateways[0], 10, f.targets...); got["a"] != 5 {
			t.Errorf("%v served", got)
		}
	})
}

func TestAWaitThatAProviderAsksForIsKeptByAllGateways(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 2, answer{status: 503, header: map[string]string{"Retry-After": "30"}})
		spread(t, f.gateways[0], 2, f.targets...)
		time.Sleep(2 * time.Second)
		if n := f.run(27 * time.Second); n != 0 {
			t.Errorf("%d calls went to a provider that had asked for 30 s", n)
		}
		f.asked[0].set(deadKey, answer{status: 200})
		f.asked[1].set(deadKey, answer{status: 200})
		time.Sleep(time.Second)
		for i, c := range f.gateways {
			if got := spread(t, c, 10, f.targets...); got["a"] != 5 {
				t.Errorf("after its time, at gateway %d %v served", i, got)
			}
		}
	})
}

// What was learned while the store was away is written when it is back.
func TestAStoreThatIsAwayLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 2, answer{status: 429, body: spentBody})
		f.store.turn(errors.New("away"))
		f.noticed()
		if n := f.run(time.Second); n != 1 {
			t.Errorf("while the store is away the other gateway asks %d times, want once", n)
		}
		f.store.turn(nil)
		time.Sleep(2 * time.Second)
		fields, err := f.store.Fields(t.Context(), conditionsMap)
		if err != nil || len(fields) != 1 {
			t.Errorf("when it is back it has %v, %v", fields, err)
		}
	})
}

// Clients choose the names of models that the configuration does not name.
func TestNamesOfClientsChoosingAreNotShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1, answer{status: 403})
		for i := range 20 {
			j := job(fmt.Sprint("r", i), Target{Provider: f.targets[0].Provider}, Target{Provider: f.targets[1].Provider})
			call := *j.Call
			call.Model, j.Call = fmt.Sprint("made-up-", i), &call
			r, err := f.gateways[0].Do(t.Context(), j)
			if err != nil {
				t.Fatal(err)
			}
			whole(t, r)
		}
		time.Sleep(2 * time.Second)
		fields, err := f.store.Fields(t.Context(), conditionsMap)
		if err != nil || len(fields) != 0 {
			t.Errorf("the store has %d of them, %v", len(fields), err)
		}
	})
}

// A gateway whose way to the provider is broken does not undo what others see, and
// tries it seldom itself.
func TestOneGatewaysTroubleDoesNotFlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 2, answer{status: 500})
		f.asked[1].answers = map[string]answer{}
		if n := f.run(5 * time.Minute); n > 170 {
			t.Errorf("asked %d times in five minutes", n)
		}
		f.asked[0].mu.Lock()
		defer f.asked[0].mu.Unlock()
		if n := f.asked[0].asked[deadKey]; n > 30 {
			t.Errorf("the gateway whose way is broken asked %d times in five minutes", n)
		}
	})
}

// A key that was replaced, or a provider that went, is no longer shown as resting.
func TestAReloadForgetsTheKeysThatWent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 2, answer{status: 401})
		w := &watcher{}
		c := f.gateways[1]
		c.mu.Lock()
		c.observer = w
		c.mu.Unlock()
		refused := func() int {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.resting["a refused"]
		}
		f.noticed()
		if n := refused(); n != 1 {
			t.Fatalf("%d are shown as refused, want 1", n)
		}
		a := *f.targets[0].Provider
		a.APIKeys = []string{goodKey}
		c.Reload([]*Provider{&a, f.targets[1].Provider})
		time.Sleep(2 * time.Second)
		if n := refused(); n != 0 {
			t.Errorf("with another key %d are shown as refused", n)
		}
		c.Reload([]*Provider{f.targets[0].Provider, f.targets[1].Provider})
		time.Sleep(2 * time.Second)
		if n := refused(); n != 1 {
			t.Errorf("with the old key again %d are shown as refused, want what the store has", n)
		}
		c.Reload([]*Provider{f.targets[1].Provider})
		if n := refused(); n != 0 {
			t.Errorf("of a provider that went %d are shown as refused", n)
		}
	})
}
