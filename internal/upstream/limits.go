package upstream

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"slices"
	"time"

	"llmgw/internal/budget"
)

// How a provider's limit becomes a bucket.
//
// A strict provider grants at most n calls in any window of length W, and R in
// any minute (n = ⌊R·W/60 s⌋). We let calls go by a bucket of capacity b,
// refilled at ρ, and allow for transit times that differ by less than J. Let k
// calls reach the provider in one closed window. They left us within less than
// L = W + J, and the bucket, which had at most b before the first of them, was
// not below zero after the last, so k ≤ b + ρ·(less than L). With
//
//	b = 1 + x    ρ = (n − x)/L    x = ⌊n·s⌋
//
// k < n + 1, that is k ≤ n: the window is never overrun. In a minute there are
// at most x + (n−x)·(60 s+J)/(W+J) + 1 ≤ n·60 s/W + 1, and strictly fewer
// than R + 1: the same argument. Where the window is too short for one call
// (n < 1), the shortest one that takes a call stands for it: W = 60 s/R.
//
// For tokens the costs are not 1. A cost up to b is granted when the level
// covers it: no window sees more than b + ρ·L, which is n for
//
//	b = n·s      ρ = (n − b)/L
//
// s is what remains of a tenth once jitter took its share, so that the rate is
// never below nine tenths of what the provider grants (of n, for calls): short
// bursts go at once, and no capacity beyond that tenth is given up.
//
// A cost above b is granted at a full bucket, which then goes below zero. Calls
// of one size c > b still keep to any window, because c is charged as a k-th of
// what flows in L, with k = ⌊n/c⌋ the number of them that the window takes
// (charge). Costs above b of mixed sizes could exceed a window by less than one
// of them, which no bucket can prevent at this rate: each gateway also counts
// every interval of what it sent itself (spans). What remains is the chance
// that large calls of several gateways meet, and then the provider's 429.

// The bounds of a pace.
const (
	minJitter = 10 * time.Millisecond
	maxJitter = 50 * time.Millisecond
	// milli is how many units of a limit one call is: thousandths, so that a
	// rate can be fine and a throttled call can cost a little more.
	milli = 1000
)

// pace is a bucket: capacity, and refill per minute.
type pace struct {
	burst, perMinute float64
	// n is what the window takes, flow what the bucket gives in it.
	n, flow        float64
	window, jitter time.Duration
}

// frame is the pace of a limit as far as the window decides: W and J, and the
// numbers n, L and s of above. n may be a fraction.
func frame(perMinute int64, window time.Duration) (p pace, l, s float64) {
	if window <= 0 {
		window = time.Second
	}
	p.window = min(window, time.Minute)
	p.jitter = max(minJitter, min(p.window/50, maxJitter))
	p.n = float64(perMinute) * p.window.Minutes()
	l = (p.window + p.jitter).Seconds()
	return p, l, max(0, 0.1-p.jitter.Seconds()/l)
}

// paceCalls is the pace of a limit of perMinute calls.
func paceCalls(perMinute int64, window time.Duration) pace {
	p, l, s := frame(perMinute, window)
	if p.n < 1 {
		p, l, _ = frame(perMinute, time.Minute/time.Duration(perMinute))
		p.n, s = 1, 0
	}
	p.n = math.Floor(p.n)
	x := math.Floor(p.n * s)
	p.burst, p.flow = 1+x, p.n-x
	p.perMinute = 60 * p.flow / l
	return p
}

// paceTokens is the pace of a limit of perMinute tokens.
func paceTokens(perMinute int64, window time.Duration) pace {
	p, l, s := frame(perMinute, window)
	p.n = max(1, math.Floor(p.n))
	p.burst = max(1, math.Floor(p.n*s))
	p.flow = max(p.n-p.burst, p.n/2)
	p.perMinute = 60 * p.flow / l
	return p
}

// paced is the limits of one set of counters: a provider's, or a key's.
type paced struct {
	limits Limits
	lines  []*budget.Limit // in the order requests, tokens, concurrency
	calls  pace
	tokens pace
}

// newPaced returns p's limits, or nil if it has none. key is empty unless the
// limits hold for that key alone.
func newPaced(p *Provider, key string) *paced {
	s := &paced{limits: p.Limits}
	add := func(name string, unit budget.Unit, alg budget.Algorithm, amount, burst float64) {
		l := &budget.Limit{
			Place: place(p.Name, key), Scope: budget.Provider, Owner: p.Name, Name: name, Unit: unit,
			Amount: max(1, int64(amount)), Burst: max(1, int64(burst)), Algorithm: alg,
			Mode: budget.Enforce, WhenStoreDown: budget.Local, Version: p.Version,
		}
		l.Tag = l.Place
		if alg == budget.Pacing {
			l.Period = budget.Minute
			l.MaxDebt = 2*l.Amount + l.Burst
		}
		s.lines = append(s.lines, l.Compile())
	}
	if n := p.Limits.RequestsPerMinute; n > 0 {
		s.calls = p.Limits.calls()
		add("requests", budget.Requests, budget.Pacing, s.calls.perMinute*milli, s.calls.burst*milli)
	}
	if n := p.Limits.TokensPerMinute; n > 0 {
		s.tokens = p.Limits.tokens()
		add("tokens", budget.Tokens, budget.Pacing, s.tokens.perMinute, s.tokens.burst)
	}
	if n := p.Limits.Concurrency; n > 0 {
		add("concurrency", budget.Concurrency, budget.Slots, float64(n), float64(n))
	}
	if len(s.lines) == 0 {
		return nil
	}
	return s
}

// index is the place of unit's limit in lines, -1 if there is none.
func (s *paced) index(unit budget.Unit) int {
	return slices.IndexFunc(s.lines, func(l *budget.Limit) bool { return l.Unit == unit })
}

// place is where a provider's limits stand; a key is named by its hash.
func place(provider, key string) string {
	if key == "" {
		return "provider/" + provider
	}
	return "provider/" + provider + "/" + keyID(key)
}

// keyID names a key by the start of its hash; empty: there is none.
func keyID(secret string) string {
	if secret == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:6])
}

// charge is what a call of n tokens is charged, so that calls of its size keep
// to the window and to the minute. A cost above a window's share takes several
// windows; one above the minute's whole limit can never be granted by the
// provider, and is charged that limit.
func (s *paced) charge(n float64) float64 {
	minute := float64(s.limits.TokensPerMinute)
	n = min(n, minute)
	if n <= s.tokens.burst || s.limits.Kind == ByBucket {
		return n
	}
	k := math.Ceil(n / s.tokens.n)
	c := max(n, k*s.tokens.flow/math.Floor(k*s.tokens.n/n))
	if n > minute/10 {
		c = max(c, s.tokens.perMinute*(time.Minute+s.tokens.jitter).Minutes()/math.Floor(minute/n))
	}
	return c
}
