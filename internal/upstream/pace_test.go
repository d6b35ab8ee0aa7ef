package upstream

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/budget/memstore"
)

// arrivals is the strictest provider: a log of what arrived, judged in every
// closed interval of a window's and of a minute's length.
type arrivals struct {
	at    []time.Duration
	costs []float64
}

// worst is the most that any closed interval of that length holds.
func (j *arrivals) worst(length time.Duration) (most float64) {
	first, sum := 0, 0.0
	for i, at := range j.at {
		sum += j.costs[i]
		for j.at[first] < at-length {
			sum -= j.costs[first]
			first++
		}
		most = max(most, sum)
	}
	return most
}

// drive asks limits for costs in order, as often as a millisecond, for d of
// virtual time, and shows what is granted to a judge after a transit of 0 to
// jitter. Every rest a caller pauses that long, to gather credit.
func drive(t *testing.T, p *paced, d time.Duration, cost func() float64, rest time.Duration) *arrivals {
	t.Helper()
	var now time.Duration
	start := time.UnixMilli(1_700_000_000_000)
	store := memstore.New(func() time.Time { return start.Add(now) })
	random := rand.New(rand.NewPCG(7, 7))
	jitter := max(p.calls.jitter, p.tokens.jitter) - time.Millisecond
	var j arrivals
	c, resting := cost(), d
	if rest > 0 {
		resting = rest
	}
	for n := 0; now < d; {
		lines := make([]budget.Line, 0, 2)
		for _, l := range p.lines {
			amount := int64(milli)
			if l.Unit == budget.Tokens {
				amount = int64(math.Ceil(p.charge(c)))
			}
			lines = append(lines, budget.Line{Limit: l, Amount: amount})
		}
		v, err := store.Reserve(context.Background(), budget.Request{ID: fmt.Sprint(n), Epoch: "e", Lines: lines})
		if err != nil {
			t.Fatal(err)
		}
		if v.Outcome == budget.Granted {
			arrival := now
			if jitter > 0 {
				arrival += rand.N(jitter)
				if random.IntN(3) == 0 { // the worst: one late, the next early
					arrival = now + jitter*time.Duration(random.IntN(2))
				}
			}
			j.at, j.costs = append(j.at, arrival), append(j.costs, c)
			c, n = cost(), n+1
			continue
		}
		if v.Wait <= 0 {
			t.Fatalf("refused without a wait: %+v", v)
		}
		now += v.Wait
		if rest > 0 && now > resting {
			now += rest
			resting = now + rest
		}
	}
	j.sort()
	return &j
}

// sort brings arrivals into their order.
func (j *arrivals) sort() {
	for i := 1; i < len(j.at); i++ {
		for k := i; k > 0 && j.at[k] < j.at[k-1]; k-- {
			j.at[k], j.at[k-1] = j.at[k-1], j.at[k]
			j.costs[k], j.costs[k-1] = j.costs[k-1], j.costs[k]
		}
	}
}

// E9, H6, H8: the bucket is small beside the window, calls are counted, and the
// window may have any length.
func TestNoWindowOfAStrictProviderIsOverrunByCalls(t *testing.T) {
	for _, window := range []time.Duration{100 * time.Millisecond, time.Second, 1500 * time.Millisecond, 10 * time.Second, time.Minute} {
		for _, rpm := range []int64{1, 3, 59, 60, 90, 500, 5000} {
			for _, rest := range []time.Duration{0, 700 * time.Millisecond, 61 * time.Second} {
				p := newPaced(&Provider{Name: "p", Limits: Limits{RequestsPerMinute: rpm, Window: window}}, "")
				const run = 150 * time.Second
				j := drive(t, p, run, func() float64 { return 1 }, rest)
				w := window
				allowed := max(1, math.Floor(float64(rpm)*w.Minutes()))
				if got := j.worst(w); got > allowed {
					t.Errorf("%d a minute, window %s, rests %s: %v in a window of %v", rpm, w, rest, got, allowed)
				}
				if got := j.worst(time.Minute); got > float64(rpm) {
					t.Errorf("%d a minute, window %s, rests %s: %v in a minute", rpm, w, rest, got)
				}
				if rest > 0 || w < time.Second {
					continue
				}
				possible := min(float64(rpm), allowed/w.Minutes())
				if used := float64(len(j.at)) / run.Minutes() / possible; used < 0.9 {
					t.Errorf("%d a minute, window %s: %.3f of what the provider grants is used", rpm, w, used)
				}
			}
		}
	}
}

func TestNoWindowOfAStrictProviderIsOverrunByTokens(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, s := range []struct {
		what   string
		tpm    int64
		window time.Duration
		cost   func(p *paced) func() float64
		least  float64 // of the rate that is used
	}{
		{"small ones of any size", 800_000, time.Second, func(p *paced) func() float64 {
			return func() float64 { return 1 + float64(random.IntN(int(p.tokens.burst))) }
		}, 0.9},
		{"small ones, by ten seconds", 100_000, 10 * time.Second, func(p *paced) func() float64 {
			return func() float64 { return 1 + float64(random.IntN(int(p.tokens.burst))) }
		}, 0.9},
		{"small ones, by the minute", 30_000, time.Minute, func(p *paced) func() float64 {
			return func() float64 { return 1 + float64(random.IntN(int(p.tokens.burst))) }
		}, 0.9},
		{"a twelfth of the window", 800_000, time.Second, fixed(1100), 0.88},
		{"a third of the window", 800_000, time.Second, fixed(4444), 0.9},
		{"half the window", 800_000, time.Second, fixed(6666), 0.9},
		{"nearly half the window", 800_000, time.Second, fixed(6000), 0.85},
		{"nearly half the minute, by the second", 30_000, time.Second, fixed(13500), 0.85},
		{"all of the window", 800_000, time.Second, fixed(13333), 0.9},
		{"a fifth of the minute", 30_000, time.Minute, fixed(6000), 0.9},
		{"all of the minute", 30_000, time.Minute, fixed(30000), 0.9},
	} {
		p := newPaced(&Provider{Name: "p", Limits: Limits{TokensPerMinute: s.tpm, Window: s.window}}, "")
		const run = 6 * time.Minute
		j := drive(t, p, run, s.cost(p), 0)
		n := math.Floor(float64(s.tpm) * s.window.Minutes())
		if got := j.worst(s.window); got > n && j.costs[0] <= n {
			t.Errorf("%s: %v tokens in a window of %v", s.what, got, n)
		}
		if got := j.worst(time.Minute); got > float64(s.tpm) {
			t.Errorf("%s: %v tokens in a minute of %d", s.what, got, s.tpm)
		}
		var sum float64
		for _, c := range j.costs {
			sum += c
		}
		if used := sum / run.Minutes() / float64(s.tpm); used < s.least {
			t.Errorf("%s: %.3f of the limit is used, want %v", s.what, used, s.least)
		}
	}
}

func fixed(n float64) func(*paced) func() float64 {
	return func(*paced) func() float64 { return func() float64 { return n } }
}

func TestACostAboveTheLimitIsChargedAsTheLimit(t *testing.T) {
	p := newPaced(&Provider{Name: "p", Limits: Limits{TokensPerMinute: 30_000}}, "")
	whole, more := p.charge(30_000), p.charge(1_000_000)
	if more != whole {
		t.Errorf("a million tokens are charged %v, the whole limit %v", more, whole)
	}
	if whole < 30_000 || whole > 31_000 {
		t.Errorf("the whole limit is charged %v", whole)
	}
}

func TestLimitsAreValidAndNamedForTheirProvider(t *testing.T) {
	for _, limits := range []Limits{
		{RequestsPerMinute: 1, TokensPerMinute: 1, Concurrency: 1},
		{RequestsPerMinute: 10_000_000, TokensPerMinute: 1_000_000_000, Concurrency: 100_000, Window: time.Minute},
		{RequestsPerMinute: 7, TokensPerMinute: 7, Window: time.Millisecond},
		{RequestsPerMinute: 100, TokensPerMinute: 100, Window: time.Hour},
	} {
		p := newPaced(&Provider{Name: "openai", Limits: limits, Version: 9}, "")
		for _, l := range p.lines {
			if err := budget.Validate(l); err != nil {
				t.Errorf("%+v: %s: %v", limits, l.Name, err)
			}
			if got, want := l.By(), "provider/openai/"+l.Name; got != want {
				t.Errorf("a limit is called %q, want %q", got, want)
			}
			if l.Version != 9 || l.Tag != l.Place {
				t.Errorf("%s has version %d and tag %q", l.Name, l.Version, l.Tag)
			}
		}
	}
	if p := newPaced(&Provider{Name: "free"}, ""); p != nil {
		t.Errorf("a provider without limits has %+v", p)
	}
}

func TestAKeysLimitsAreNamedByItsHashAlone(t *testing.T) {
	limits := Limits{RequestsPerMinute: 60, Keys: PerKey}
	a := newPaced(&Provider{Name: "p", Limits: limits}, "secret-a").lines[0]
	b := newPaced(&Provider{Name: "p", Limits: limits}, "secret-b").lines[0]
	if a.Place == b.Place {
		t.Errorf("two keys share the place %q", a.Place)
	}
	if want := "provider/p/"; a.Place[:len(want)] != want || len(a.Place) != len(want)+12 {
		t.Errorf("a key's place is %q", a.Place)
	}
	if a.By() != "provider/p/requests" {
		t.Errorf("a key's limit is called %q", a.By())
	}
}
