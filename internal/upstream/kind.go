package upstream

import (
	"math"
	"time"
)

// LimitKind says how a provider counts its limits of a minute.
type LimitKind string

// The kinds of limits. The empty one is ByWindow.
const (
	ByWindow LimitKind = "window" // every closed interval of a window's length
	ByBucket LimitKind = "bucket" // a bucket that holds one minute's worth
	ByFixed  LimitKind = "fixed"  // calendar minutes
)

// How a bucket of a provider becomes one of ours.
//
// A bucket of capacity R, refilled at ρ = R/60 s, takes what arrives if no
// interval of length t brings more than R + ρ·t. What arrives within t left us
// within less than t + J. Our bucket has the same rate and the capacity
// b = R − ρ·J, so at most b + ρ·(t + J) = R + ρ·t arrive. The whole rate is
// used, and of the capacity all but J/60 s, less than a thousandth.
//
// A bucket that would not hold one call holds one, at the rate ρ/(1 + ρ·J):
// calls leave J later than the provider's rate demands, and arrive in time.
//
// A cost above b, up to R, is granted at a full bucket. It may arrive J early,
// and then finds that thousandth missing.

// bucketJitter is by how much transit times may differ where a bucket counts.
const bucketJitter = maxJitter

// paceBucket is the pace of a bucket of perMinute, for calls and tokens alike.
func paceBucket(perMinute int64) pace {
	n := float64(perMinute)
	drift := n * bucketJitter.Minutes()
	p := pace{burst: n - drift, perMinute: n, n: n, flow: n, window: time.Minute, jitter: bucketJitter}
	if p.burst < 1 {
		p.burst, p.perMinute = 1, n/(1+drift)
	}
	return p
}

// fixedShare is the part of a calendar minute that may go at once. The rest
// flows evenly, since the gateway does not know when the provider's minute begins.
const fixedShare = 0.02

// paceFixed is the pace of perMinute in calendar minutes: at most perMinute in
// any minute, wherever it begins. With b = 1 + x for calls, as for a window.
func paceFixed(perMinute int64, whole float64) pace {
	p, l, _ := frame(perMinute, time.Minute)
	x := math.Floor(p.n * fixedShare)
	p.burst = max(1, whole+x)
	p.flow = max(p.n-x, p.n/2)
	p.perMinute = 60 * p.flow / l
	return p
}

// calls is the pace of requests under l.
func (l Limits) calls() pace {
	switch l.Kind {
	case ByBucket:
		return paceBucket(l.RequestsPerMinute)
	case ByFixed:
		return paceFixed(l.RequestsPerMinute, 1)
	default:
		return paceCalls(l.RequestsPerMinute, l.Window)
	}
}

// tokens is the pace of tokens under l.
func (l Limits) tokens() pace {
	switch l.Kind {
	case ByBucket:
		return paceBucket(l.TokensPerMinute)
	case ByFixed:
		return paceFixed(l.TokensPerMinute, 0)
	default:
		return paceTokens(l.TokensPerMinute, l.Window)
	}
}
