package budget

import (
	"strconv"
	"sync/atomic"
	"time"
	"unique"
)

// Scope is what a limit counts over.
type Scope string

// The scopes. Gateway, team, key, model and provider limits have one counter
// each; user, ip and (inside a team or key) model limits one for each value.
const (
	Gateway  Scope = "gateway"
	Team     Scope = "team"
	Key      Scope = "key"
	User     Scope = "user"
	IP       Scope = "ip"
	Model    Scope = "model"
	Provider Scope = "provider"
)

// Unit is what a limit counts.
type Unit string

// The units. USD is counted in micro-dollars, Concurrency in slots.
const (
	Tokens       Unit = "tokens"        // weighted tokens, input and output
	InputTokens  Unit = "input_tokens"  // unweighted input
	OutputTokens Unit = "output_tokens" // unweighted output
	Requests     Unit = "requests"
	USD          Unit = "usd"
	Concurrency  Unit = "concurrency"
)

// Period is what an amount is granted per. Concurrency has none.
type Period string

// The periods. Day and those after it are calendar periods in a time zone. Any
// other is a length: a whole number of s, m, h or d, such as 10m or 5h.
const (
	Second  Period = "second"
	Minute  Period = "minute"
	Hour    Period = "hour"
	Day     Period = "day"
	Week    Period = "week"
	Month   Period = "month"
	Quarter Period = "quarter"
	Year    Period = "year"
)

// LongestPeriod bounds a period of any length.
const LongestPeriod = 366 * 24 * time.Hour

// Calendar reports whether p is a calendar period.
func (p Period) Calendar() bool {
	return p == Day || p == Week || p == Month || p == Quarter || p == Year
}

// Length is the period's fixed length, or 0 for a calendar period, "", and what
// is none.
func (p Period) Length() time.Duration {
	switch p {
	case Second:
		return time.Second
	case Minute:
		return time.Minute
	case Hour:
		return time.Hour
	case "", Day, Week, Month, Quarter, Year:
		return 0
	}
	unit, ok := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}[p[len(p)-1]]
	n, err := strconv.ParseUint(string(p[:len(p)-1]), 10, 32)
	if d := time.Duration(n) * unit; ok && err == nil && d > 0 && d <= LongestPeriod && p[0] != '0' {
		return d
	}
	return 0
}

// Algorithm is how a limit is counted.
type Algorithm string

// The algorithms.
const (
	TokenBucket   Algorithm = "token_bucket"
	CalendarUsage Algorithm = "calendar"
	SlidingWindow Algorithm = "sliding_window"
	SlidingLog    Algorithm = "sliding_log"
	// Slots counts what is in flight; of Concurrency limits only.
	Slots Algorithm = "slots"
	// Pacing smooths calls to a provider: a small bucket that also grants a
	// cost above its capacity once it is full, and then goes below zero.
	Pacing Algorithm = "pacing"
)

// Mode says whether a limit refuses.
type Mode string

// The modes.
const (
	Enforce Mode = "enforce"
	Shadow  Mode = "shadow" // never refuses; what it would have refused is reported
)

// StorePolicy is what a limit does while its store cannot be asked.
type StorePolicy string

// The policies. Local grants this instance's share: amount ÷ live instances.
const (
	Local  StorePolicy = "local"
	Open   StorePolicy = "open"
	Closed StorePolicy = "closed"
)

// Limit is one configured limit, complete: the configuration has filled in all
// defaults and proven the bounds. A Limit is never changed once in use; a
// reload makes new ones. Amounts are in budget units: weighted tokens, tokens,
// requests, micro-dollars, slots.
type Limit struct {
	// Place is what the limit is written under: "gateway", "team/search",
	// "key/search-prod", "model/gpt-4o", "provider/openai". With Name, Unit and
	// Period it is the identity of the limit's counters over reloads.
	Place string
	Scope Scope
	// Owner is the team, key id, model or provider that Place names; empty for
	// the gateway.
	Owner string
	Name  string
	Unit  Unit

	Amount int64 // per Period; slots for Concurrency. 1 to 2^53-1
	Period Period
	// Burst is the capacity of a bucket; Amount for the other algorithms.
	Burst int64
	// Bank is k of statement T5: the refill stops while level + open ≥ k·Burst.
	// 0: no such cap. Of TokenBucket only.
	Bank int64
	// MaxDebt is how far below zero a counter may go; 0 with UnboundedDebt.
	MaxDebt       int64
	UnboundedDebt bool
	StartEmpty    bool // a new counter has nothing, instead of all

	Algorithm Algorithm
	// Location and ResetDay place calendar periods. ResetDay is 1 (Monday) to 7
	// for weeks, 1 to 31 for months (a shorter month resets on its last day).
	Location *time.Location
	ResetDay int

	Mode Mode
	// Candidate is another Amount watched in shadow; 0: none.
	Candidate int64

	WhenStoreDown StorePolicy
	// Wait says that a request over the limit is held up to MaxWait.
	Wait    bool
	MaxWait time.Duration

	// Tag groups counters that must share a slot of a Redis Cluster: the team's
	// name for team, key, user and ip counters within a team; otherwise Place.
	Tag string
	// Version orders configurations: a store keeps the newest that it has seen
	// for a counter. Unix milliseconds of the configuration's last change.
	Version int64

	// Configured is the Amount that the configuration says, where an operator has put
	// another one in its place. 0: Amount.
	Configured int64
	// Values are what is in force instead for single counters of a limit that has
	// several. nil: nothing.
	Values map[string]*Limit

	compiled *compiled
}

// For is what is in force for the counter of value: l, or an exception of it.
func (l *Limit) For(value string) *Limit {
	if one := l.Values[value]; one != nil {
		return one
	}
	return l
}

// WithAmount is a copy of l with another amount, newer by its version. What
// follows from the amount unless a file says otherwise follows it.
func (l *Limit) WithAmount(amount, version int64) *Limit {
	c := *l
	c.Version, c.Configured, c.Values, c.compiled = version, l.FromFile(), nil, nil
	c.Amount = amount
	if l.Burst == l.Amount {
		c.Burst = amount
	}
	if l.MaxDebt == DefaultDebtFactor*l.Capacity() {
		c.MaxDebt = DefaultDebtFactor * c.Capacity()
	}
	return &c
}

// FromFile is the amount that the configuration says.
func (l *Limit) FromFile() int64 {
	if l.Configured != 0 {
		return l.Configured
	}
	return l.Amount
}

// compiled is what is worked out of a Limit once.
type compiled struct {
	of        *Limit // a changed copy must not take it for its own
	key       unique.Handle[string]
	rules     Rules
	by        string
	candidate *Limit
	bounds    atomic.Pointer[Bounds] // of the period that was last asked for
}

// Compile works out what counters need of l, which Validate accepts, and returns l.
// It is called before l is in use; again it does nothing. A Limit that is not compiled works too,
// but slowly.
func (l *Limit) Compile() *Limit {
	if parts := l.parts(); parts != l.compiled {
		l.compiled = parts
	}
	return l
}

func (l *Limit) parts() *compiled {
	if c := l.compiled; c != nil && c.of == l {
		return c
	}
	return l.compile()
}

func (l *Limit) compile() *compiled {
	return &compiled{of: l, key: unique.Make(keyPrefix(l)), rules: rulesOf(l), by: l.named(), candidate: candidate(l)}
}

// Single reports whether the limit has one counter, and not one for each user,
// address or model: a model limit has one where it is written under its model.
func (l *Limit) Single() bool {
	switch l.Scope {
	case User, IP:
		return false
	case Model:
		return l.Place == string(Model)+"/"+l.Owner
	default:
		return true
	}
}

// InForce is l with the amounts that its store, which said s, counts by: l itself
// unless the file of another gateway is newer.
func (l *Limit) InForce(s LineState) *Limit {
	if !l.Drifts(s) {
		return l
	}
	c := *l
	c.Amount, c.Burst = s.Amount, s.Burst
	return &c
}

// Drifts reports whether s names other amounts than l has.
func (l *Limit) Drifts(s LineState) bool {
	return s.Amount != 0 && (s.Amount != l.Amount || s.Burst != l.Capacity())
}

// longestGain bounds what Gain returns, so that it can be added up: 73 years.
const longestGain = 1 << 61

// Gain is how long the limit takes to gain n, or has taken if n is negative; 0
// where nothing is gained by the time, and 73 years at most.
func (l *Limit) Gain(n int64) time.Duration {
	length := l.Period.Length()
	if length == 0 || l.Amount == 0 {
		return 0
	}
	ns := float64(length) * float64(n) / float64(l.Amount)
	return time.Duration(min(max(ns, -longestGain), longestGain))
}

// By is the limit's name on the wire (X-LLMGW-Limited-By): scope, owner and
// name, such as "team/search/tpm", "gateway/all-tpm" or "user/user-tpm".
func (l *Limit) By() string {
	if c := l.compiled; c != nil && c.of == l {
		return c.by
	}
	return l.named()
}

func (l *Limit) named() string {
	switch l.Scope {
	case Gateway, User, IP:
		return string(l.Scope) + "/" + l.Name
	default:
		return string(l.Scope) + "/" + l.Owner + "/" + l.Name
	}
}

// Claims reports whether a request for amount that l refuses claims a part of the
// refill: more than a quarter of a token bucket (see claim.go).
func (l *Limit) Claims(amount int64) bool {
	return l.Algorithm == TokenBucket && claims(amount, l.Burst)
}

// Capacity is what a counter of l can rise to: the most that one request can
// ever take, but for Pacing, which also grants more.
func (l *Limit) Capacity() int64 {
	if l.Algorithm == TokenBucket || l.Algorithm == Pacing {
		return l.Burst
	}
	return l.Amount
}
