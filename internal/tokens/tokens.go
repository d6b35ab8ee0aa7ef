// Package tokens is the unit of account: counts of tokens, what one request
// used, and what that costs. It knows no provider and no budget.
//
// This file has counts, usage and the weights of token budgets; prices.go has
// what a model costs in money, and classes.go the words for what is billed.
package tokens

import (
	"fmt"
	"math"
	"math/bits"
	"strings"
)

// Count is a number of tokens, or of the budget units made from them. Valid
// counts are 0 to MaxCount; differences may be negative.
type Count int64

// MaxCount is the largest count that every part of the system (Redis's Lua
// included, whose numbers are doubles) holds exactly.
const MaxCount Count = 1<<53 - 1

// Usage is what one request used, in the normal form of every dialect. The
// zero Usage used nothing.
type Usage struct {
	Input       Count // everything the model read, cache reads and writes included
	CachedInput Count // the part of Input that was read from a cache
	CacheWrite  Count // the part of Input that was written to a cache
	Output      Count // everything the model produced, reasoning included
	Reasoning   Count // the part of Output that was reasoning

	// Parts that some APIs report and bill apart. Each is at most its whole.
	CacheWrite1h Count // the part of CacheWrite that is kept for an hour
	AudioInput   Count // the part of Input that was sound
	CachedAudio  Count // the part of CachedInput that was sound
	ImageInput   Count // the part of Input that was pictures
	Citations    Count // the part of Input that was sources which the provider read
	AudioOutput  Count // the part of Output that was sound
	ImageOutput  Count // the part of Output that was pictures

	Calls Calls // what is billed by the piece
	Tiers Tiers // how the provider served the request
}

// Total is Input + Output.
func (u Usage) Total() Count { return u.Input + u.Output }

// Rate is what one token counts for, in millionths of a unit: a weight of 1 is
// 1_000_000; a price of 2.5 USD per million tokens, which is 2.5 micro-dollars
// a token, is 2_500_000.
type Rate int64

// One is the Rate of 1.
const One Rate = 1_000_000

// MaxRate bounds a rate: a million units a token.
const MaxRate Rate = 1_000_000 * One

// ParseRate reads a decimal with up to six fractional digits. It returns an
// error for anything else: signs, exponents, more digits, or above MaxRate.
func ParseRate(s string) (Rate, error) {
	whole, frac, _ := strings.Cut(s, ".")
	if whole == "" || len(whole) > 7 || len(frac) > 6 || strings.HasSuffix(s, ".") {
		return 0, fmt.Errorf("%q is not a decimal from 0 to 1000000 with at most six fractional digits", s)
	}
	var n int64
	for _, c := range whole + frac + strings.Repeat("0", 6-len(frac)) {
		if c < '0' || c > '9' {
			return 0, fmt.Errorf("%q is not a decimal number", s)
		}
		n = n*10 + int64(c-'0')
	}
	if Rate(n) > MaxRate {
		return 0, fmt.Errorf("%q is more than 1000000", s)
	}
	return Rate(n), nil
}

// String writes r as a decimal, such as 2.5.
func (r Rate) String() string {
	text := fmt.Sprintf("%d.%06d", r/One, r%One)
	return strings.TrimRight(strings.TrimRight(text, "0"), ".")
}

// Rates is what each class of token counts for in a token budget.
type Rates struct {
	Input, CachedInput, CacheWrite, Output Rate
}

// Even counts every token as one unit.
var Even = Rates{Input: One, CachedInput: One, CacheWrite: One, Output: One}

// Cost is ⌈(input − cached − cache writes)·Input + cached·CachedInput +
// cache writes·CacheWrite + output·Output⌉ in units, never less than 0 nor
// more than MaxCount. Parts larger than their whole count as the whole.
func (r Rates) Cost(u Usage) Count {
	cached := clamp(u.CachedInput, u.Input)
	written := clamp(u.CacheWrite, u.Input-cached)
	var sum total
	for _, part := range [...]struct {
		n    Count
		rate Rate
	}{
		{u.Input - cached - written, r.Input},
		{cached, r.CachedInput},
		{written, r.CacheWrite},
		{u.Output, r.Output},
	} {
		sum.add(uint64(clamp(part.n, MaxCount)), part.rate)
	}
	sum.times(One)
	return sum.units()
}

// clamp brings n between 0 and limit; a negative limit counts as 0.
func clamp(n, limit Count) Count { return max(0, min(n, limit)) }

// Mul is a·b, or MaxCount where that would be more. Negative factors count as 0.
func Mul(a, b Count) Count {
	hi, lo := bits.Mul64(uint64(max(a, 0)), uint64(max(b, 0)))
	if hi != 0 || lo > uint64(MaxCount) {
		return MaxCount
	}
	return Count(lo)
}

// Add is a+b, or MaxCount where that would be more.
func Add(a, b Count) Count {
	if a > math.MaxInt64-max(b, 0) {
		return MaxCount
	}
	return min(a+b, MaxCount)
}
