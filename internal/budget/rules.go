package budget

import "fmt"

// MaxExact bounds every number that a counter keeps or computes: above it the
// doubles of a Redis script are no longer exact.
const MaxExact = 1<<53 - 1

// Rules are a Limit in the numbers that its counters compute with. A counter
// keeps the newest Rules that it has seen.
type Rules struct {
	kind     kind
	Version  int64
	Capacity int64
	// Debt is how far below zero the counter may go.
	Debt int64
	// Num/Den is a bucket's refill in units a millisecond, in lowest terms.
	Num, Den int64
	// Bank is k of T5, 0 for no cap.
	Bank int64
	// Window is a sliding window's or log's length in milliseconds.
	Window int64
	// Empty says that a new counter has nothing to give.
	Empty bool
}

// Kind is the algorithm's number in stored counters.
func (r *Rules) Kind() byte { return byte(r.kind) }

// RulesOf returns the rules of a limit that Validate accepts.
func RulesOf(l *Limit) Rules { return l.parts().rules }

func rulesOf(l *Limit) Rules {
	r := Rules{Version: l.Version, Capacity: l.Capacity(), Debt: l.MaxDebt, Empty: l.StartEmpty}
	r.kind, _ = kindOf(l.Algorithm) // Validate has accepted it
	alg := r.kind.algorithm()
	alg.compile(l, &r)
	if l.UnboundedDebt {
		r.Debt = alg.bound(&r) - r.Capacity
	}
	return r
}

// Amount is what the rules grant per period p. Only a rate needs p, of which
// compile has made it.
func (r *Rules) Amount(p Period) int64 {
	if r.Num == 0 {
		return r.Capacity
	}
	return r.Num * (p.Length().Milliseconds() / r.Den)
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// Validate tells why l cannot be counted exactly, or nil. It proves that no
// number of l's counters, nor any step of their arithmetic, exceeds MaxExact.
func Validate(l *Limit) error {
	if err := validateParts(l); err != nil {
		return err
	}
	r := rulesOf(l)
	if err := r.validate(); err != nil {
		return err
	}
	if c := candidate(l); c != nil {
		if err := Validate(c); err != nil {
			return fmt.Errorf("candidate: %w", err)
		}
	}
	return nil
}

func validateParts(l *Limit) error {
	if err := between("amount", l.Amount, 1, MaxExact); err != nil {
		return err
	}
	if err := between("candidate", l.Candidate, 0, MaxExact); err != nil {
		return err
	}
	if err := between("max_debt", l.MaxDebt, 0, MaxExact); err != nil {
		return err
	}
	k, err := kindOf(l.Algorithm)
	if err != nil {
		return err
	}
	if (l.Unit == Concurrency) != (k == kindSlots) {
		return fmt.Errorf("algorithm %s does not count %s", l.Algorithm, l.Unit)
	}
	return k.algorithm().validate(l)
}

func between(what string, v, least, most int64) error {
	if v < least || v > most {
		return fmt.Errorf("%s: %d is not between %d and %d", what, v, least, most)
	}
	return nil
}

// validate proves the bound of the algorithm; all terms are at most MaxExact.
func (r *Rules) validate() error {
	most := r.kind.algorithm().bound(r)
	if r.Debt < 0 || r.Capacity+r.Debt > most {
		return fmt.Errorf("a capacity of %d with a debt of %d cannot be counted exactly: both together may be %d at this rate", r.Capacity, r.Debt, max(most, 0))
	}
	return nil
}

// WithKind are rules read from a stored counter, whose algorithm is a number.
func (r Rules) WithKind(k byte) Rules {
	r.kind = kind(k)
	return r
}
