package tokens

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func TestCostFollowsTheFormula(t *testing.T) {
	for _, s := range []struct {
		what  string
		rates Rates
		usage Usage
		cost  Count
	}{
		{"nothing costs nothing", Even, Usage{}, 0},
		{"even weights count tokens", Even, Usage{Input: 100, Output: 20}, 120},
		{"cached input has its own weight", Rates{Input: One, CachedInput: One / 10, CacheWrite: One, Output: One}, Usage{Input: 1000, CachedInput: 900, Output: 50}, 240},
		{"cache writes have theirs", Rates{Input: One, CacheWrite: 2 * One, Output: One}, Usage{Input: 100, CacheWrite: 40}, 140},
		{"fractions are rounded up once, over the sum", Rates{Input: One / 2, Output: One / 2}, Usage{Input: 1, Output: 2}, 2},
		{"reasoning is part of output", Even, Usage{Output: 40, Reasoning: 30}, 40},
		{"prices are micro-dollars a token", Rates{Input: 2_500_000, CachedInput: 1_250_000, Output: 10_000_000}, Usage{Input: 1000, CachedInput: 400, Output: 100}, 1500 + 500 + 1000},
		{"a cached part larger than its whole counts as the whole", Rates{Input: One}, Usage{Input: 10, CachedInput: 50}, 0},
		{"negative counts are no credit", Even, Usage{Input: -5, Output: 3}, 3},
		{"more than can be counted is the most", Rates{Input: MaxRate}, Usage{Input: MaxCount}, MaxCount},
	} {
		if got := s.rates.Cost(s.usage); got != s.cost {
			t.Errorf("%s: got %d, want %d", s.what, got, s.cost)
		}
	}
}

func TestCostIsExactAgainstBigIntegers(t *testing.T) {
	count := rapid.Int64Range(0, int64(MaxCount))
	rate := rapid.Int64Range(0, int64(MaxRate))
	rapid.Check(t, func(t *rapid.T) {
		u := Usage{Input: Count(count.Draw(t, "input")), Output: Count(count.Draw(t, "output"))}
		u.CachedInput = Count(rapid.Int64Range(0, int64(u.Input)).Draw(t, "cached"))
		u.CacheWrite = Count(rapid.Int64Range(0, int64(u.Input-u.CachedInput)).Draw(t, "written"))
		r := Rates{Rate(rate.Draw(t, "w_input")), Rate(rate.Draw(t, "w_cached")), Rate(rate.Draw(t, "w_write")), Rate(rate.Draw(t, "w_output"))}
		sum := new(big.Int)
		for _, part := range [][2]int64{
			{int64(u.Input - u.CachedInput - u.CacheWrite), int64(r.Input)}, {int64(u.CachedInput), int64(r.CachedInput)},
			{int64(u.CacheWrite), int64(r.CacheWrite)}, {int64(u.Output), int64(r.Output)},
		} {
			sum.Add(sum, new(big.Int).Mul(big.NewInt(part[0]), big.NewInt(part[1])))
		}
		sum.Add(sum, big.NewInt(int64(One)-1)).Div(sum, big.NewInt(int64(One)))
		want := MaxCount
		if sum.Cmp(big.NewInt(int64(MaxCount))) < 0 {
			want = Count(sum.Int64())
		}
		if got := r.Cost(u); got != want {
			t.Fatalf("%+v at %+v: got %d, want %d", u, r, got, want)
		}
	})
}

func TestRatesAreReadExactlyOrNotAtAll(t *testing.T) {
	for _, s := range []struct {
		text string
		rate Rate
		ok   bool
	}{
		{"0", 0, true}, {"1", One, true}, {"2.5", 2_500_000, true}, {"0.000001", 1, true}, {"1000000", MaxRate, true},
		{"1000000.000001", 0, false}, {"0.0000001", 0, false}, {"", 0, false}, {"1.", 0, false}, {".5", 0, false},
		{"-1", 0, false}, {"1e3", 0, false}, {"+1", 0, false}, {"12345678", 0, false},
	} {
		got, err := ParseRate(s.text)
		if (err == nil) != s.ok || got != s.rate {
			t.Errorf("%q: got %d, %v, want %d and ok %v", s.text, got, err, s.rate, s.ok)
		}
	}
}

func TestSumsAndProductsStopAtTheMost(t *testing.T) {
	if got := Add(MaxCount, 1); got != MaxCount {
		t.Errorf("most plus one: got %d, want %d", got, MaxCount)
	}
	if got := Add(3, -1); got != 2 {
		t.Errorf("three minus one: got %d, want 2", got)
	}
	if got := Mul(MaxCount, 2); got != MaxCount {
		t.Errorf("most times two: got %d, want %d", got, MaxCount)
	}
	if got := Mul(1<<40, 1<<40); got != MaxCount {
		t.Errorf("a product beyond 64 bits: got %d, want %d", got, MaxCount)
	}
	if got := Mul(-4, 3); got != 0 {
		t.Errorf("a negative factor: got %d, want 0", got)
	}
}
