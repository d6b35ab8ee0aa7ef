package tokens

import (
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// list makes prices by their names; above a bound, if any, others hold.
func list(rates map[Class]Rate, over Count, above map[Class]Rate) *Prices {
	p := new(Prices)
	for c, r := range rates {
		p.Set(c, r)
	}
	for c, r := range above {
		p.SetAbove(over, c, r)
	}
	p.Fill()
	return p
}

func TestPricesOfEachClass(t *testing.T) {
	claude := list(map[Class]Rate{Input: 3_000_000, CachedInput: 300_000, CacheWrite: 3_750_000, CacheWrite1h: 6_000_000, Output: 15_000_000},
		200_000, map[Class]Rate{Input: 6_000_000, Output: 22_500_000})
	claude.SetPiece(WebSearch, 10_000)
	claude.SetTier(Fast, 6*One)
	claude.SetTier(US, 1_100_000)
	gpt := list(map[Class]Rate{Input: 2_500_000, Output: 10_000_000, AudioInput: 40_000_000, AudioOutput: 80_000_000, ImageOutput: 40_000_000, Reasoning: 3_000_000}, 0, nil)
	gpt.SetTier(Flex, One/2)
	gpt.SetTier(Priority, 1_750_000)
	sonar := list(map[Class]Rate{Input: One, Output: One}, 0, nil)
	sonar.SetPiece(Request, 5000)
	for _, s := range []struct {
		what   string
		prices *Prices
		usage  Usage
		micro  Count
	}{
		{"nothing", claude, Usage{}, 0},
		{"a request has a price too", sonar, Usage{Input: 11, Output: 6}, 17 + 5000},
		{"unless it used nothing", sonar, Usage{}, 0},
		{"cache writes of both kinds", claude, Usage{Input: 15250, CachedInput: 12000, CacheWrite: 3200, CacheWrite1h: 200, Output: 4}, 150 + 3600 + 11250 + 1200 + 60},
		{"a search beside tokens", claude, Usage{Input: 10682, Output: 510, Calls: Calls{WebSearch: 1}}, 32046 + 7650 + 10_000},
		{"fast, and in one country", claude, Usage{Input: 1000, Output: 100, Tiers: Tiers(0).With(Fast).With(US)}, 29_700},
		{"a tier has no effect on searches", claude, Usage{Input: 1000, Calls: Calls{WebSearch: 2}, Tiers: Tiers(0).With(Fast)}, 18_000 + 20_000},
		{"at the bound", claude, Usage{Input: 200_000, Output: 10}, 600_150},
		{"above it all tokens cost more", claude, Usage{Input: 200_001, Output: 10}, 1_200_006 + 225},
		{"what was not set above it rises with the input", claude, Usage{Input: 300_000, CachedInput: 100_000, CacheWrite: 100_000, CacheWrite1h: 100_000}, 60_000 + 1_200_000 + 600_000},
		{"sound both ways", gpt, Usage{Input: 40, AudioInput: 26, Output: 96, AudioOutput: 80}, 35 + 1040 + 160 + 6400},
		{"pictures", gpt, Usage{Input: 10, Output: 1056, ImageOutput: 1056}, 25 + 42_240},
		{"reasoning with a price of its own", gpt, Usage{Output: 100, Reasoning: 60}, 400 + 180},
		{"half price", gpt, Usage{Input: 1000, Output: 100, Tiers: Tiers(0).With(Flex)}, 1750},
		{"a tier by its other name", gpt, Usage{Input: 1000, Output: 100, Tiers: Tiers(0).With(Fast)}, 6125},
		{"a tier without a factor counts as 1", gpt, Usage{Input: 1000, Tiers: Tiers(0).With(Scale)}, 2500},
		{"parts larger than their whole", gpt, Usage{Input: 10, AudioInput: 50, Output: 1, AudioOutput: 9}, 400 + 80},
		{"negative counts are no credit", gpt, Usage{Input: -5, CachedInput: -5, Output: 1, Calls: Calls{WebSearch: -3}}, 10},
	} {
		if got := s.prices.Cost(s.usage); got != s.micro {
			t.Errorf("%s: got %d, want %d", s.what, got, s.micro)
		}
	}
}

func TestTheMostCoversWhateverTheAnswerReports(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyPrices(t)
		var a Allows
		for c := range classes {
			if rapid.Bool().Draw(t, "allows") {
				a.Allow(c)
			}
		}
		reserved := Usage{Input: Count(rapid.Int64Range(0, 400_000).Draw(t, "input")), Output: Count(rapid.Int64Range(0, 50_000).Draw(t, "output"))}
		used := reserved // in the same band, with parts of the classes that are allowed
		part := func(c Class, n *Count, whole Count) {
			if a.Classes&(1<<c) != 0 {
				*n = Count(rapid.Int64Range(0, int64(whole)).Draw(t, c.String()))
			}
		}
		part(CacheWrite, &used.CacheWrite, used.Input)
		if used.CacheWrite > 0 {
			part(CacheWrite1h, &used.CacheWrite1h, used.CacheWrite)
		}
		part(AudioInput, &used.AudioInput, used.Input)
		part(ImageInput, &used.ImageInput, used.Input)
		part(AudioOutput, &used.AudioOutput, used.Output)
		part(ImageOutput, &used.ImageOutput, used.Output)
		a.Tiers = Tiers(rapid.Uint8().Draw(t, "tiers"))
		used.Tiers = a.Tiers
		if rapid.Bool().Draw(t, "downgraded") {
			used.Tiers = 0
		}
		a.Calls[WebSearch] = Count(rapid.Int64Range(0, 10).Draw(t, "searches"))
		used.Calls[WebSearch] = a.Calls[WebSearch]
		if got, most := p.Cost(used), p.Most(reserved, a); got > most {
			t.Fatalf("%+v at %v: costs %d, reserved %d", used, p, got, most)
		}
	})
}

func anyPrices(t *rapid.T) *Prices {
	rate := rapid.Custom(func(t *rapid.T) Rate {
		return Rate(rapid.OneOf(rapid.Int64Range(0, 100_000_000), rapid.SampledFrom([]int64{0, 1, int64(MaxRate)})).Draw(t, "rate"))
	})
	p := new(Prices)
	for c := range classes {
		if c == Input || c == Output || rapid.Bool().Draw(t, "set") {
			p.Set(c, rate.Draw(t, c.String()))
		}
	}
	for range rapid.IntRange(0, 2).Draw(t, "bands") {
		p.SetAbove(Count(rapid.Int64Range(1, 300_000).Draw(t, "over")), Class(rapid.IntRange(0, int(classes)-1).Draw(t, "class")), rate.Draw(t, "above"))
	}
	for k := range pieces {
		p.SetPiece(k, Rate(rapid.Int64Range(0, int64(1000*One)).Draw(t, k.String())))
	}
	for k := range tiers {
		p.SetTier(k, Rate(rapid.Int64Range(0, int64(MaxFactor)).Draw(t, k.String())))
	}
	p.Fill()
	return p
}

func TestMoneyIsExactAgainstBigIntegers(t *testing.T) {
	count := rapid.OneOf(rapid.Int64Range(-1, 2_000_000), rapid.Int64Range(0, int64(MaxCount)))
	rapid.Check(t, func(t *rapid.T) {
		p := anyPrices(t)
		n := func(name string) Count { return Count(count.Draw(t, name)) }
		u := Usage{
			Input: n("input"), CachedInput: n("cached"), CacheWrite: n("written"), CacheWrite1h: n("written 1h"), AudioInput: n("audio"), CachedAudio: n("cached audio"),
			ImageInput: n("image"), Citations: n("citations"), Output: n("output"), Reasoning: n("reasoning"), AudioOutput: n("spoken"), ImageOutput: n("drawn"),
			Tiers: Tiers(rapid.Uint8().Draw(t, "tiers")),
		}
		for k := range Request {
			u.Calls[k] = Count(rapid.Int64Range(-1, 1000).Draw(t, "calls"))
		}
		if got, want := p.Cost(u), exactly(p, u); got != want {
			t.Fatalf("%+v at %v: got %d, want %d", u, p, got, want)
		}
	})
}

// exactly is what u costs, in exact arithmetic.
func exactly(p *Prices, u Usage) Count {
	rates := p.rates
	for _, b := range p.bands {
		if u.Input > b.over {
			rates = b.rates
		}
	}
	sum := new(big.Int)
	var whole [2]Count
	for c, n := range u.of() {
		sum.Add(sum, new(big.Int).Mul(big.NewInt(int64(n)), big.NewInt(int64(rates[c]))))
		if Class(c).isInput() {
			whole[0] += n
		} else {
			whole[1] += n
		}
	}
	if whole != [2]Count{max(0, u.Input), max(0, u.Output)} {
		return -1 // the parts must make the whole
	}
	sum.Mul(sum, big.NewInt(int64(p.factor(u.Tiers))))
	million := new(big.Int).Exp(big.NewInt(10), big.NewInt(12), nil)
	if u.Total() > 0 || u.Calls != (Calls{}) {
		u.Calls[Request] = 1
	}
	for k, n := range u.Calls {
		sum.Add(sum, new(big.Int).Mul(million, big.NewInt(int64(max(n, 0))*int64(p.pieces[k]))))
	}
	sum.Add(sum, new(big.Int).Sub(million, big.NewInt(1))).Div(sum, million)
	if sum.Cmp(big.NewInt(int64(MaxCount))) > 0 {
		return MaxCount
	}
	return Count(sum.Int64())
}

func TestWhatHasNoPriceIsNamed(t *testing.T) {
	p := list(map[Class]Rate{Input: One, Output: One, CachedInput: 0}, 0, nil)
	p.SetTier(Priority, 2*One)
	p.SetPiece(Picture, 0)
	u := Usage{
		Input: 100, CachedInput: 20, CacheWrite: 20, CacheWrite1h: 10, AudioInput: 10, Output: 10, Reasoning: 5, AudioOutput: 2,
		Calls: Calls{WebSearch: 1, Picture: 1}, Tiers: Tiers(0).With(Flex).With(Fast),
	}
	want := []string{"cache_write", "cache_write_1h", "audio_input", "audio_output", "web_search", "tier flex"}
	if got := p.Unpriced(u); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := p.Unpriced(Usage{Input: 5, CachedInput: 5, Output: 5}); got != nil {
		t.Errorf("all has prices: got %q", got)
	}
}

func TestTiersAreKnownByAllTheirNames(t *testing.T) {
	for name, want := range map[string]Tiers{
		"default": 0, "standard": 0, "ON_DEMAND": 0, "": 0, "flex": Tiers(0).With(Flex), "PRIORITY": Tiers(0).With(Priority),
		"ON_DEMAND_FLEX": Tiers(0).With(Flex), "fast": Tiers(0).With(Fast), "us": Tiers(0).With(US), "brand-new": Tiers(0).With(OtherTier),
	} {
		if got := TierOf(name); got != want {
			t.Errorf("%q: got %b, want %b", name, got, want)
		}
	}
}
