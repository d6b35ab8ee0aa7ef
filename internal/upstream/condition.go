package upstream

import (
	"maps"
	"slices"
	"time"
)

// cause is why a part of a provider is not asked. The values are a metric's label.
type cause string

// The causes. The zero cause is none.
const (
	refused cause = "refused" // the provider does not take the credential
	spent   cause = "spent"   // the credential's quota is used up
	denied  cause = "denied"  // the credential may not use the model
	limited cause = "limited" // the provider asked to wait
	failing cause = "failing" // attempts failed one after the other
)

var causes = [...]cause{refused, spent, denied, limited, failing}

// bars reports whether what rests for c is not asked although nothing else is
// left. The other causes may come from single requests or from the network: what
// rests for them is passed over while something else can serve.
func (c cause) bars() bool { return c == refused || c == spent || c == limited }

// pause is the n-th rest in a row, from 1, where the provider does not say how
// long.
func (c cause) pause(n int) time.Duration {
	first, most := 10*time.Second, 5*time.Minute
	switch c {
	case spent:
		return time.Minute
	case failing:
		first, most = coolFirst, coolMost
	}
	return min(first<<min(n-1, 10), most)
}

// The measure of a condition.
const (
	// tripAfter is how many failures in a row make a model rest.
	tripAfter = 5
	coolFirst = time.Second
	coolMost  = 30 * time.Second
	// longestHold bounds a wait that a provider asks for: after it, it is asked
	// once more.
	longestHold = time.Hour
	// probeTime is how long a probe keeps others away that brings no answer.
	probeTime = time.Minute
	// maxConditions bounds the conditions of a provider: clients may choose the
	// names of models.
	maxConditions = 1000
)

// scope is the part of a provider that a condition is about.
type scope struct {
	key   string // a credential, by its id; empty: every one
	model string // as the provider names it; empty: every one
}

// condition is the state of a part of a provider.
//
//	        refused, spent, denied, limited, or tripAfter failures in a row
//	serving ──────────────────────────────────────────────────► resting
//	   ▲  ▲                                                      │   ▲
//	   │  └────────────── the wait is over (limited) ────────────┤   │ it failed again:
//	   │                                                         ▼   │ a longer rest
//	   └──────────── it served ─────────────────────────────── probed by one attempt
//
// The zero condition serves.
type condition struct {
	cause    cause
	since    time.Time // when it began to rest
	until    time.Time // when it may be asked again
	rests    int       // in a row
	failures int       // in a row, of attempts that were sent
	probe    time.Time // names the attempt that probes it; zero: none does
	shared   bool      // other gateways know of it
}

// rest is how long a part of a provider rests, and why. The zero rest is none.
type rest struct {
	cause cause
	wait  time.Duration // above 0 if there is a cause
}

// rank orders rests by what they forbid: 0 nothing, 1 may be asked, 2 may not.
func (r rest) rank() int {
	switch {
	case r.cause == "":
		return 0
	case r.cause.bars():
		return 2
	default:
		return 1
	}
}

// at is the rest of d at now.
func (d *condition) at(now time.Time) rest {
	if d.cause == "" {
		return rest{}
	}
	if wait := d.until.Sub(now); wait > 0 {
		return rest{d.cause, wait}
	}
	if wait := d.probe.Add(probeTime).Sub(now); d.cause != limited && !d.probe.IsZero() && wait > 0 {
		return rest{d.cause, wait}
	}
	return rest{}
}

// conditions are those of one provider. They are not safe for concurrent use.
type conditions map[scope]*condition

// meets are the scopes that a request for model with key falls under.
func meets(key, model string) [3]scope { return [...]scope{{key, ""}, {key, model}, {"", model}} }

// look is the strictest rest that a request for model with key meets.
func (c conditions) look(key, model string, now time.Time) (worst rest) {
	if len(c) == 0 {
		return rest{}
	}
	for _, s := range meets(key, model) {
		d := c[s]
		if d == nil {
			continue
		}
		r := d.at(now)
		if r.rank() > worst.rank() || r.rank() == worst.rank() && r.wait > worst.wait {
			worst = r
		}
	}
	return worst
}

// begin notes that an attempt is sent at now: it probes whatever is to be probed.
func (c conditions) begin(key, model string, now time.Time) {
	for _, s := range meets(key, model) {
		if d := c[s]; d != nil && d.cause != "" && d.at(now).cause == "" {
			d.probe = now
		}
	}
}

// end notes that the attempt sent at began is over: if it was a probe that showed
// nothing, the next attempt is one.
func (c conditions) end(key, model string, began time.Time) {
	for _, s := range meets(key, model) {
		if d := c[s]; d != nil && d.probe.Equal(began) {
			d.probe = time.Time{}
		}
	}
}

// served notes that an attempt sent at sent was served. It returns what no longer
// rests by that: not what began to rest after the attempt was sent.
func (c conditions) served(key, model string, sent time.Time) (back []scope) {
	for _, s := range meets(key, model) {
		d := c[s]
		switch {
		case d == nil:
		case d.cause == "":
			delete(c, s)
		case d.cause == limited && sent.Before(d.until), sent.Before(d.since):
			d.failures = 0
		default:
			delete(c, s)
			back = append(back, s)
		}
	}
	return back
}

// rest makes s rest for why, for after if that is above 0, because of an attempt
// sent at sent. It reports whether that is news: attempts that were under way
// when the rest began, or are sent during it for want of anything else, make it no
// longer.
func (c conditions) rest(s scope, why cause, after time.Duration, sent, now time.Time) bool {
	d := c.of(s)
	resting := d.at(now)
	switch {
	case why == failing && resting.cause == limited:
		return false
	case why == limited && resting.cause.bars() && (resting.cause != limited || resting.wait >= after):
		return false
	case why != limited && d.cause == why && (sent.Before(d.since) || now.Before(d.until)):
		return false
	}
	if d.cause != why {
		d.rests = 0
	}
	d.rests++
	if after <= 0 {
		after = why.pause(d.rests)
	}
	d.cause, d.since, d.until, d.probe = why, now, now.Add(min(after, longestHold)), time.Time{}
	return true
}

// fail counts a failure of s, and reports whether s begins to rest by it.
func (c conditions) fail(s scope, sent, now time.Time) bool {
	d := c.of(s)
	d.failures++
	if d.cause != failing && d.failures < tripAfter {
		return false
	}
	return c.rest(s, failing, 0, sent, now)
}

// of is the condition of s, made if there is none. Those of single models give
// way to new ones where there are too many.
func (c conditions) of(s scope) *condition {
	d := c[s]
	if d != nil {
		return d
	}
	if len(c) >= maxConditions {
		for other := range maps.Keys(c) {
			if other.model != "" {
				delete(c, other)
				break
			}
		}
	}
	d = &condition{}
	c[s] = d
	return d
}

// forget drops what is about other keys than these.
func (c conditions) forget(keys []*key) {
	maps.DeleteFunc(c, func(s scope, _ *condition) bool {
		return s.key != "" && !slices.ContainsFunc(keys, func(k *key) bool { return k.id == s.key })
	})
}

// resting counts what rests, or is to be probed, for each cause.
func (c conditions) resting(now time.Time) map[cause]int {
	n := make(map[cause]int, len(causes))
	for _, why := range causes {
		n[why] = 0
	}
	for _, d := range c {
		if d.cause != "" && (d.cause != limited || now.Before(d.until)) {
			n[d.cause]++
		}
	}
	return n
}
