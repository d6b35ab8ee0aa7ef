package upstream

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/fault"
	"llmgw/internal/tokens"
)

// gateway is a pacer for p over m, as one of several gateways has it.
func gateway(m *memory, limits Limits) *pacer {
	return newPacer(m, newPaced(&Provider{Name: "p", Limits: limits}, ""))
}

// order collects who was granted, and when since the start.
type order struct {
	mu   sync.Mutex
	from time.Time
	who  []string
	at   []time.Duration
}

func (o *order) add(who string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.who = append(o.who, who)
	o.at = append(o.at, time.Since(o.from))
}

// capacity is the refusal that err must be.
func capacity(t *testing.T, err error) *fault.Error {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) || f.Code != fault.UpstreamCapacity {
		t.Fatalf("got %v, want a refusal for capacity", err)
	}
	return f
}

// H1: paced, in the order of weight, and nobody is refused who could be served
// in time.
func TestTenCallsAtOnceAreSpreadOverTheProvidersRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		p := gateway(m, Limits{RequestsPerMinute: 60})
		o := order{from: time.Now()}
		var refused []*fault.Error
		var group sync.WaitGroup
		for i := range 10 {
			group.Go(func() {
				turn, err := p.take(t.Context(), request{id: fmt.Sprint(i), team: "t", weight: 1, maxWait: 5 * time.Second})
				if err != nil {
					o.mu.Lock()
					refused = append(refused, capacity(t, err))
					o.mu.Unlock()
					// Who is expected within the 5 s by less than a turn may find out late.
					if d := time.Since(o.from); d != 0 && d < 4*time.Second {
						t.Errorf("refused after %s, want at once", d)
					}
					return
				}
				o.add("t")
				turn.settle(1, 0)
			})
		}
		group.Wait()
		if len(o.at) != 5 {
			t.Errorf("%d calls were granted within 5 s at one a second, want 5", len(o.at))
		}
		for i, at := range o.at {
			// 1.02 s apart, rounded up to the millisecond by the counter.
			least := time.Duration(i) * 1020 * time.Millisecond
			if at < least || at > least+time.Duration(i)*time.Millisecond {
				t.Errorf("call %d went at %s, want %s", i, at, least)
			}
		}
		// Ten came at once, and each may ask before it knows of the others. Of the
		// four that waited, each asked once a horizon while it was at the front,
		// and when its time had come.
		if m.reserves > 50 {
			t.Errorf("the limiter was asked %d times, want 50 at most", m.reserves)
		}
		for _, f := range refused {
			if f.Wait <= time.Second || f.Limit.By != "provider/p/requests" || f.Limit.Amount != 60 || f.Limit.Per != "minute" {
				t.Errorf("refused with a wait of %s by %+v", f.Wait, f.Limit)
			}
		}
		m.idle(t)
	})
}

// mustTake takes a turn that must come at once.
func mustTake(t *testing.T, p *pacer, id string) *turn {
	t.Helper()
	turn, err := p.take(t.Context(), request{id: id, team: "t"})
	if err != nil {
		t.Fatalf("turn %s: %v", id, err)
	}
	return turn
}

func TestACallThatMustGoAtOnceIsToldWhenItCould(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := gateway(newMemory(), Limits{RequestsPerMinute: 60})
		mustTake(t, p, "a")
		_, err := p.take(t.Context(), request{id: "b", team: "t"})
		f := capacity(t, err)
		time.Sleep(f.Wait - time.Millisecond)
		if _, err := p.take(t.Context(), request{id: "c", team: "t"}); err == nil {
			t.Errorf("a turn came before the %s that were told", f.Wait)
		}
		time.Sleep(time.Millisecond)
		mustTake(t, p, "d")
	})
}

// E9 for tokens of any sizes in any order, from one gateway.
func TestNoWindowIsOverrunByCallsOfMixedSizes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := gateway(newMemory(), Limits{TokensPerMinute: 60_000})
		random := rand.New(rand.NewPCG(3, 4))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		var mu sync.Mutex
		var j arrivals
		start := time.Now()
		var group sync.WaitGroup
		for i := range 8 {
			group.Go(func() {
				for n := 0; ; n++ {
					mu.Lock()
					size := []int{5, 40, 300, 700, 1000, 2500}[random.IntN(6)]
					mu.Unlock()
					_, err := p.take(ctx, request{id: fmt.Sprint(i, "-", n), team: fmt.Sprint(i % 3), tokens: tokens.Count(size), maxWait: time.Hour})
					if err != nil {
						return
					}
					mu.Lock()
					j.at, j.costs = append(j.at, time.Since(start)), append(j.costs, float64(size))
					mu.Unlock()
				}
			})
		}
		group.Wait()
		var sum float64
		for i, at := range j.at {
			sum += j.costs[i]
			windows := math.Ceil(j.costs[i] / 1000)
			held := 0.0
			for k := i; k >= 0 && j.at[k] > at-time.Duration(windows)*time.Second; k-- {
				held += j.costs[k]
			}
			if held > windows*1000 {
				t.Fatalf("call %d of %v tokens at %s: %v in %v windows of 1000", i, j.costs[i], at, held, windows)
			}
		}
		if got := j.worst(time.Minute); got > 60_000 {
			t.Errorf("%v tokens in a minute of 60000", got)
		}
		if used := sum / 180_000; used < 0.55 {
			t.Errorf("%.2f of the rate is used, want more than half", used)
		}
	})
}

func TestSeveralGatewaysShareOneProvidersLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		limits := Limits{RequestsPerMinute: 600}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		var mu sync.Mutex
		var j arrivals
		count := make([]int, 3)
		start := time.Now()
		var group sync.WaitGroup
		for g := range 3 {
			p := gateway(m, limits)
			for i := range 5 {
				group.Go(func() {
					for n := 0; ; n++ {
						if _, err := p.take(ctx, request{id: fmt.Sprint(g, i, n), team: "t", maxWait: time.Hour}); err != nil {
							return
						}
						mu.Lock()
						j.at, j.costs = append(j.at, time.Since(start)), append(j.costs, 1)
						count[g]++
						mu.Unlock()
					}
				})
			}
		}
		group.Wait()
		if got := j.worst(time.Second); got > 10 {
			t.Errorf("%v calls in a second of 10", got)
		}
		if got := len(j.at); got < 1080 || got > 1200 {
			t.Errorf("%d calls in two minutes of 600", got)
		}
		for g, n := range count {
			if n < 200 {
				t.Errorf("gateway %d made %d of %d calls", g, n, len(j.at))
			}
		}
	})
}

func TestTheOutlookFollowsWhatIsTakenAndGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for what, limits := range map[string]Limits{
			"a slot": {Concurrency: 1}, "tokens": {TokensPerMinute: 60_000},
		} {
			p := gateway(newMemory(), limits)
			outlook := func() time.Duration {
				_, wait := p.outlook(100, time.Now())
				return wait
			}
			if got := outlook(); got != 0 {
				t.Errorf("%s: at first a call waits %s", what, got)
			}
			turn, err := p.take(t.Context(), request{id: "r", team: "t", tokens: 100})
			if err != nil {
				t.Fatal(err)
			}
			if got := outlook(); got <= 0 {
				t.Errorf("%s: with all of it taken a call does not wait", what)
			}
			turn.settle(0, 0)
			if got := outlook(); got != 0 {
				t.Errorf("%s: with all of it given back a call waits %s", what, got)
			}
		}
	})
}

func TestTokensThatWereNotUsedMakeRoomAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := gateway(newMemory(), Limits{TokensPerMinute: 60_000})
		for i := range 50 {
			turn, err := p.take(t.Context(), request{id: fmt.Sprint(i), team: "t", tokens: 900, maxWait: 10 * time.Millisecond})
			if err != nil {
				t.Fatalf("call %d: %v", i, err)
			}
			turn.settle(1, 1)
		}
	})
}

func TestSettlingGivesBackWhatWasNotUsedAndFreesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		p := gateway(m, Limits{RequestsPerMinute: 6000, TokensPerMinute: 600_000, Concurrency: 5})
		turn, err := p.take(t.Context(), request{id: "r", team: "t", tokens: 100})
		if err != nil {
			t.Fatal(err)
		}
		turn.settle(1, 40)
		turn.settle(1, 90)
		turn.full()
		if got := fmt.Sprint(m.settled["r"]); got != "[1000 40 0]" {
			t.Errorf("settled as %s", got)
		}
		m.idle(t)
	})
}

func TestAReloadKeepsTheQueueAndFollowsTheNewLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := gateway(newMemory(), Limits{RequestsPerMinute: 1})
		mustTake(t, p, "a")
		start := time.Now()
		var group sync.WaitGroup
		group.Go(func() {
			if _, err := p.take(t.Context(), request{id: "b", team: "t", maxWait: time.Hour}); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(time.Second)
		p.set(newPaced(&Provider{Name: "p", Limits: Limits{RequestsPerMinute: 600}, Version: 1}, ""))
		group.Wait()
		if d := time.Since(start); d > 1500*time.Millisecond {
			t.Errorf("a call that waits went after %s", d)
		}
		p.set(nil)
		for i := range 100 {
			if turn, err := p.take(t.Context(), request{id: fmt.Sprint("free", i)}); turn != nil || err != nil {
				t.Fatalf("without limits: %v, %v", turn, err)
			}
		}
	})
}

// generous is a limiter that grants everything.
type generous struct{}

func (generous) Reserve(_ context.Context, r budget.Request) (*budget.Reservation, budget.Verdict) {
	return nil, budget.Verdict{Binding: -1, Lines: make([]budget.LineState, len(r.Lines))}
}
func (generous) Correct(budget.Correction) {}

func BenchmarkTurn(b *testing.B) {
	p := newPacer(generous{}, newPaced(&Provider{Name: "p", Limits: Limits{
		RequestsPerMinute: 1 << 40, TokensPerMinute: 1 << 40, Concurrency: 1 << 20}}, ""))
	b.ReportAllocs()
	for b.Loop() {
		turn, err := p.take(b.Context(), request{id: "r", team: "t", tokens: 1000})
		if err != nil {
			b.Fatal(err)
		}
		turn.settle(1, 400)
	}
}
