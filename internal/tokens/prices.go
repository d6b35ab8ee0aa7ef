package tokens

import (
	"encoding/json"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// Prices is what a model costs. Set, Fill and their like make one; the zero
// Prices costs nothing and has no price of anything.
type Prices struct {
	rates  [classes]Rate // micro-dollars a token
	set    uint32        // the classes that were set, as bits
	bands  []band        // by their bounds, from the lowest
	pieces [pieces]Rate  // micro-dollars a piece
	billed uint32        // the pieces that were set, as bits
	tiers  [tiers]Rate   // factors; 0: none was set
}

// band has the rates of a request that read more than over tokens: all of its
// tokens cost these.
type band struct {
	over  Count
	rates [classes]Rate
	set   uint32
}

// MaxFactor bounds the factor of a tier, and of several together.
const MaxFactor = 1000 * One

// maxPieces is how many pieces of a kind are charged for one request.
const maxPieces Count = 1_000_000

// Set sets the price of a class of tokens, in micro-dollars a token, which is
// dollars per million.
func (p *Prices) Set(c Class, r Rate) { p.rates[c], p.set = r, p.set|1<<c }

// SetAbove is Set for requests that read more than over tokens.
func (p *Prices) SetAbove(over Count, c Class, r Rate) {
	i, found := slices.BinarySearchFunc(p.bands, over, func(b band, over Count) int { return int(b.over - over) })
	if !found {
		p.bands = slices.Insert(p.bands, i, band{over: over})
	}
	p.bands[i].rates[c], p.bands[i].set = r, p.bands[i].set|1<<c
}

// SetPiece sets the price of a piece in dollars: a millionth of a dollar is a
// micro-dollar.
func (p *Prices) SetPiece(k Piece, dollars Rate) { p.pieces[k], p.billed = dollars, p.billed|1<<k }

// SetTier sets the factor on the tokens of requests that are served in a tier.
func (p *Prices) SetTier(t Tier, factor Rate) { p.tiers[t] = factor }

// Fill gives the classes that were not set their prices: a class that is a part
// of another costs what that does. Above a bound, what was not set there rises
// as the input does, or the output, of which it is a part. It is to be called
// once, after all that was set.
func (p *Prices) Fill() {
	for c := range classes { // a class stands behind that which it falls back to, or two
		if p.set&(1<<c) == 0 {
			p.rates[c] = p.rates[c.fallback()]
		}
	}
	for i := range p.bands {
		p.bands[i].fill(p.rates)
	}
}

func (b *band) fill(base [classes]Rate) {
	for _, whole := range [...]Class{Input, Output} {
		if b.set&(1<<whole) == 0 {
			b.rates[whole] = base[whole]
		}
	}
	for c := range classes {
		whole := Output
		if c.isInput() {
			whole = Input
		}
		switch {
		case b.set&(1<<c) != 0 || c == whole:
		case b.set&(1<<c.fallback()) != 0 && base[c] == base[c.fallback()]:
			b.rates[c] = b.rates[c.fallback()]
		default:
			b.rates[c] = risen(base[c], b.rates[whole], base[whole])
		}
	}
}

// risen is ⌈rate·now/before⌉, at most MaxRate.
func risen(rate, now, before Rate) Rate {
	if before <= 0 {
		return max(rate, now)
	}
	hi, lo := bits.Mul64(uint64(rate), uint64(now))
	lo, carry := bits.Add64(lo, uint64(before)-1, 0)
	if hi += carry; hi >= uint64(before) {
		return MaxRate
	}
	q, _ := bits.Div64(hi, lo, uint64(before))
	return min(Rate(q), MaxRate)
}

// at returns the rates of a request that read input tokens.
func (p *Prices) at(input Count) *[classes]Rate {
	rates := &p.rates
	for i := range p.bands {
		if input > p.bands[i].over {
			rates = &p.bands[i].rates
		}
	}
	return rates
}

// Cost is what a request cost in micro-dollars, rounded up once, over the sum:
//
//	⌈Σ tokens of a class · its rate · factor of the tiers + Σ pieces · their price⌉
//
// It is never less than 0 nor more than MaxCount. Pieces have no tier. A request
// that used anything is one piece itself.
func (p *Prices) Cost(u Usage) Count {
	rates := p.at(u.Input)
	var sum total
	for c, n := range u.of() {
		sum.add(uint64(n), rates[c])
	}
	sum.times(p.factor(u.Tiers))
	if u.Total() > 0 || u.Calls != (Calls{}) {
		u.Calls[Request] = 1
	}
	p.addPieces(&sum, u.Calls)
	return sum.units()
}

func (p *Prices) addPieces(sum *total, calls Calls) {
	for k, n := range calls {
		sum.add(uint64(clamp(n, maxPieces))*uint64(One*One), p.pieces[k])
	}
}

// factor is the product of the factors of tiers, rounded up to a millionth. One
// that has none counts as 1. OpenAI calls priority fast too.
func (p *Prices) factor(s Tiers) Rate {
	product := One
	for t := range tiers {
		f := p.tiers[t]
		switch {
		case !s.Has(t):
			continue
		case f == 0 && t == Priority:
			f = p.tiers[Fast]
		case f == 0 && t == Fast:
			f = p.tiers[Priority]
		}
		if f > 0 {
			product = min(MaxFactor, (product*f+One-1)/One)
		}
	}
	return product
}

// Allows is what a request may be billed for beyond plain tokens. The zero
// Allows is a request for text.
type Allows struct {
	Classes uint32 // the classes that its tokens may be in, as bits; see Allow
	Audio   Count  // the part of the input that is sound
	Images  Count  // the part of the input that is pictures
	Calls   Calls  // the most pieces
	Tiers   Tiers  // the tier that it asks for
}

// Allow adds a class.
func (a *Allows) Allow(c Class) { a.Classes |= 1 << c }

// Or returns what a or b allows.
func (a Allows) Or(b Allows) Allows {
	a.Classes |= b.Classes
	a.Audio, a.Images = max(a.Audio, b.Audio), max(a.Images, b.Images)
	for k, n := range b.Calls {
		a.Calls[k] = max(a.Calls[k], n)
	}
	a.Tiers |= b.Tiers
	return a
}

// Most is the most that a request can cost which uses at most u's input and
// output, read from no cache: each token at the dearest of the classes that it
// may be in. A tier that makes a request cheaper counts as 1, as it may be
// served without.
func (p *Prices) Most(u Usage, a Allows) Count {
	rates := p.at(u.Input)
	dearest := func(whole Class) Rate {
		most := rates[whole]
		for c := range classes {
			if a.Classes&(1<<c) != 0 && c.isInput() == whole.isInput() {
				most = max(most, rates[c])
			}
		}
		return most
	}
	input := clamp(u.Input, MaxCount)
	audio := clamp(a.Audio, input)
	images := clamp(a.Images, input-audio)
	plain := dearest(Input)
	var sum total
	sum.add(uint64(input-audio-images), plain)
	sum.add(uint64(audio), max(plain, rates[AudioInput]))
	sum.add(uint64(images), max(plain, rates[ImageInput]))
	sum.add(uint64(clamp(u.Output, MaxCount)), dearest(Output))
	sum.times(max(One, p.factor(a.Tiers)))
	a.Calls[Request] = 1
	p.addPieces(&sum, a.Calls)
	return sum.units()
}

// Has reports whether c has a price of its own. A nil Prices has none.
func (p *Prices) Has(c Class) bool { return p != nil && p.set&(1<<c) != 0 }

// Unpriced returns the names of what u has and p has no price of its own for.
func (p *Prices) Unpriced(u Usage) []string {
	var names []string
	for c, n := range u.of() {
		if c := Class(c); n > 0 && p.set&(1<<c) == 0 && c != Reasoning {
			names = append(names, c.String())
		}
	}
	for k, n := range u.Calls {
		if k := Piece(k); n > 0 && p.billed&(1<<k) == 0 {
			names = append(names, k.String())
		}
	}
	for t := range tiers {
		if u.Tiers.Has(t) && p.tiers[t] == 0 && !p.renames(t) {
			names = append(names, "tier "+t.String())
		}
	}
	return names
}

// renames reports whether the factor of t was set under its other name.
func (p *Prices) renames(t Tier) bool {
	return t == Priority && p.tiers[Fast] > 0 || t == Fast && p.tiers[Priority] > 0
}

// String writes the prices as a configuration has them: what was set, and what
// cached input and cache writes cost in any case.
func (p *Prices) String() string {
	parts := []string{ratesText(p.rates, p.set|1<<CachedInput|1<<CacheWrite)}
	group := func(name string, members []string) {
		if len(members) > 0 {
			parts = append(parts, name+": {"+strings.Join(members, ", ")+"}")
		}
	}
	var calls, factors, above []string
	for k := range pieces {
		if p.billed&(1<<k) != 0 {
			calls = append(calls, k.String()+": "+p.pieces[k].String())
		}
	}
	for t := range tiers {
		if p.tiers[t] > 0 {
			factors = append(factors, t.String()+": "+p.tiers[t].String())
		}
	}
	for _, b := range p.bands {
		above = append(above, fmt.Sprintf("%d: {%s}", b.over, ratesText(b.rates, b.set)))
	}
	group("per_call", calls)
	group("tiers", factors)
	group("above", above)
	return strings.Join(parts, ", ")
}

// MarshalJSON implements json.Marshaler: the members that a configuration has, in
// dollars.
func (p *Prices) MarshalJSON() ([]byte, error) {
	rates := func(rates [classes]Rate, set uint32) map[string]any {
		object := map[string]any{}
		for c := range classes {
			if set&(1<<c) != 0 {
				object[c.String()] = json.Number(rates[c].String())
			}
		}
		return object
	}
	all := rates(p.rates, p.set|1<<CachedInput|1<<CacheWrite)
	calls, factors, above := map[string]any{}, map[string]any{}, map[string]any{}
	for k := range pieces {
		if p.billed&(1<<k) != 0 {
			calls[k.String()] = json.Number(p.pieces[k].String())
		}
	}
	for t := range tiers {
		if p.tiers[t] > 0 {
			factors[t.String()] = json.Number(p.tiers[t].String())
		}
	}
	for _, b := range p.bands {
		above[strconv.FormatInt(int64(b.over), 10)] = rates(b.rates, b.set)
	}
	for name, members := range map[string]map[string]any{"per_call": calls, "tiers": factors, "above": above} {
		if len(members) > 0 {
			all[name] = members
		}
	}
	return json.Marshal(all)
}

func ratesText(rates [classes]Rate, set uint32) string {
	var parts []string
	for c := range classes {
		if set&(1<<c) != 0 {
			parts = append(parts, c.String()+": "+rates[c].String())
		}
	}
	return strings.Join(parts, ", ")
}

// total is a sum of products in 128 bits. Tokens of a request in one class each,
// and the bounds of rates and factors, keep it far below that.
type total struct{ hi, lo uint64 }

// add adds n·r millionths.
func (t *total) add(n uint64, r Rate) {
	hi, lo := bits.Mul64(n, uint64(max(r, 0)))
	var carry uint64
	t.lo, carry = bits.Add64(t.lo, lo, 0)
	t.hi, _ = bits.Add64(t.hi, hi, carry)
}

// times multiplies t by f: millionths become millionths of millionths.
func (t *total) times(f Rate) {
	hi, lo := bits.Mul64(t.lo, uint64(f))
	t.hi, t.lo = t.hi*uint64(f)+hi, lo
}

// units is ⌈t⌉ in units, at most MaxCount.
func (t *total) units() Count {
	const one = uint64(One * One)
	lo, carry := bits.Add64(t.lo, one-1, 0)
	hi := t.hi + carry
	if hi >= one {
		return MaxCount
	}
	q, _ := bits.Div64(hi, lo, one)
	return Count(min(q, uint64(MaxCount)))
}
