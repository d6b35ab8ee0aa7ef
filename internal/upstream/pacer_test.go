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
					if d := time.Since(o.from); d != 0 {
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
			if f.Wait <= 5*time.Second || f.Limit.By != "provider/p/requests" || f.Limit.Amount != 60 || f.Limit.Per != "minute" {
				t.Errorf("refused with a wait of %s by %+v", f.Wait, f.Limit)
			}
		}
		m.idle(t)
	})
}

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

func TestARefusalOfTheProviderPausesAndSlowsEveryCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		p, other := gateway(m, Limits{RequestsPerMinute: 6000}), gateway(m, Limits{RequestsPerMinute: 6000})
		sent := time.Now()
		time.Sleep(100 * time.Millisecond)
		p.hold(3*time.Second, sent)
		p.hold(3*time.Second, sent) // another of the same moment: one cut
		if got := p.throttle.factor(time.Now()); got != 0.7 {
			t.Errorf("the factor is %v after one refusal", got)
		}
		for name, g := range map[string]*pacer{"here": p, "there": other} {
			_, err := g.take(t.Context(), request{id: name, team: "t", maxWait: time.Second})
			if f := capacity(t, err); f.Wait < 2900*time.Millisecond || f.Wait > 3*time.Second {
				t.Errorf("%s a call during the pause is told to wait %s", name, f.Wait)
			}
		}
		start := time.Now()
		if _, err := p.take(t.Context(), request{id: "later", team: "t", maxWait: 5 * time.Second}); err != nil {
			t.Error(err)
		}
		if d := time.Since(start); d != 3*time.Second {
			t.Errorf("the pause of 3 s held a call for %s", d)
		}
		if got := p.throttle.factor(time.Now()); math.Abs(got-0.76) > 0.001 {
			t.Errorf("the factor is %v three seconds later, want 0.76", got)
		}
		time.Sleep(time.Minute)
		if got := p.throttle.factor(time.Now()); got != 1 {
			t.Errorf("the factor is %v a minute later", got)
		}
	})
}

func TestAProviderWithSlotsAloneIsPausedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := gateway(newMemory(), Limits{Concurrency: 5})
		if !p.hold(3*time.Second, time.Now()) {
			t.Errorf("nothing is held back")
		}
		start := time.Now()
		if _, err := p.take(t.Context(), request{id: "r", team: "t", maxWait: time.Minute}); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d != 3*time.Second {
			t.Errorf("a pause of 3 s held a call for %s", d)
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

func TestAThrottledProviderIsAskedLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := gateway(newMemory(), Limits{RequestsPerMinute: 60})
		p.hold(0, time.Now())
		mustTake(t, p, "a")
		start := time.Now()
		if _, err := p.take(t.Context(), request{id: "b", team: "t", maxWait: time.Minute}); err != nil {
			t.Fatal(err)
		}
		// A second and the jitter, at seven tenths of the rate.
		if d := time.Since(start); d < 1450*time.Millisecond || d > 1460*time.Millisecond {
			t.Errorf("the next call went after %s, want 1.457 s", d)
		}
	})
}

func TestWhatTheProviderSaysIsLeftLowersTheLevelAndNeverRaisesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		p := gateway(m, Limits{RequestsPerMinute: 6000, TokensPerMinute: 600_000})
		level := func(unit budget.Unit) int64 {
			states, _, err := m.store.Read(t.Context(), []budget.Line{{Limit: p.paced.lines[p.paced.index(unit)]}})
			if err != nil {
				t.Fatal(err)
			}
			return states[0].Remaining
		}
		full := level(budget.Tokens)
		p.correct(budget.Tokens, 1_000_000)
		if got := level(budget.Tokens); got != full {
			t.Errorf("more left than the bucket holds: level %d, want %d", got, full)
		}
		if len(m.atMost) != 0 {
			t.Errorf("the store was asked to correct what needed none")
		}
		p.correct(budget.Tokens, 17)
		if got := level(budget.Tokens); got != 17 {
			t.Errorf("17 left: level %d", got)
		}
		p.correct(budget.Requests, 2)
		if got := level(budget.Requests); got != 2*milli {
			t.Errorf("2 calls left: level %d thousandths", got)
		}
		p.correct(budget.Requests, 4)
		if got := level(budget.Requests); got != 2*milli {
			t.Errorf("4 calls left after 2: level %d thousandths", got)
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

func TestAQueueIsBounded(t *testing.T) {
	var q fairQueue
	for range maxWaiters {
		q.push("t", 1, need{})
	}
	p := gateway(newMemory(), Limits{RequestsPerMinute: 1})
	p.queue = q
	_, err := p.take(t.Context(), request{id: "one more", team: "u", maxWait: 1000 * time.Hour})
	capacity(t, err)
}

// generous is a limiter that grants everything.
type generous struct{}

func (generous) Reserve(_ context.Context, r budget.Request) budget.Verdict {
	return budget.Verdict{Binding: -1, Lines: make([]budget.LineState, len(r.Lines))}
}
func (generous) Settle(string, []int64)    {}
func (generous) Report(string, []int64)    {}
func (generous) Sent(string, []int64)      {}
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
