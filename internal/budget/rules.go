package budget

import (
	"fmt"
	"time"
)

// MaxExact bounds every number that a counter keeps or computes: above it the
// doubles of a Redis script are no longer exact.
const MaxExact = 1<<53 - 1

// maxLogAmount bounds a sliding log, which keeps an entry for each grant.
const maxLogAmount = 1000

// kind is an algorithm as the stores write it down.
type kind byte

const (
	kindBucket kind = iota + 1
	kindPacing
	kindCalendar
	kindWindow
	kindLog
	kindSlots
)

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
func RulesOf(l *Limit) Rules {
	r := Rules{Version: l.Version, Capacity: l.Capacity(), Debt: l.MaxDebt, Empty: l.StartEmpty}
	most := int64(MaxExact) // that capacity and debt may come to
	switch l.Algorithm {
	case TokenBucket, Pacing:
		r.kind = kindBucket
		if l.Algorithm == Pacing {
			r.kind = kindPacing
		}
		per := l.Period.Length().Milliseconds()
		g := gcd(l.Amount, per)
		r.Num, r.Den = l.Amount/g, per/g
		most = (MaxExact - r.Num - r.Den) / r.Den
		if l.Algorithm == TokenBucket {
			r.Bank = l.Bank
		}
	case CalendarUsage:
		r.kind = kindCalendar
	case SlidingWindow:
		r.kind = kindWindow
		r.Window = rolling(l.Period).Milliseconds()
		most = MaxExact / (2 * r.Window)
	case SlidingLog:
		r.kind = kindLog
		r.Window = rolling(l.Period).Milliseconds()
	case Slots:
		r.kind = kindSlots
		r.Debt = 0
	}
	if l.UnboundedDebt {
		r.Debt = most - r.Capacity
	}
	return r
}

// rolling is the length of a sliding window: of calendar periods their usual one.
func rolling(p Period) time.Duration {
	const day = 24 * time.Hour
	switch p {
	case Day:
		return day
	case Week:
		return 7 * day
	case Month:
		return 30 * day
	default:
		return p.Length()
	}
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
	r := RulesOf(l)
	if err := r.validate(); err != nil {
		return err
	}
	if c := CandidateOf(l); c != nil {
		if err := Validate(c); err != nil {
			return fmt.Errorf("candidate: %w", err)
		}
	}
	return nil
}

func validateParts(l *Limit) error {
	between := func(what string, v, least, most int64) error {
		if v < least || v > most {
			return fmt.Errorf("%s: %d is not between %d and %d", what, v, least, most)
		}
		return nil
	}
	if err := between("amount", l.Amount, 1, MaxExact); err != nil {
		return err
	}
	if err := between("candidate", l.Candidate, 0, MaxExact); err != nil {
		return err
	}
	if err := between("max_debt", l.MaxDebt, 0, MaxExact); err != nil {
		return err
	}
	if (l.Unit == Concurrency) != (l.Algorithm == Slots) {
		return fmt.Errorf("algorithm %s does not count %s", l.Algorithm, l.Unit)
	}
	switch l.Algorithm {
	case TokenBucket, Pacing:
		if l.Period.Length() == 0 {
			return fmt.Errorf("algorithm %s: the period is %q, not a second, minute or hour", l.Algorithm, l.Period)
		}
		if err := between("burst", l.Burst, 1, MaxExact); err != nil {
			return err
		}
		return between("bank", l.Bank, 0, MaxExact/l.Burst)
	case CalendarUsage:
		return validateCalendar(l)
	case SlidingWindow, SlidingLog:
		if rolling(l.Period) == 0 {
			return fmt.Errorf("algorithm %s: there is no period %q", l.Algorithm, l.Period)
		}
		if l.Algorithm == SlidingLog && l.Amount > maxLogAmount {
			return fmt.Errorf("algorithm %s: amount: %d is more than the %d grants it can list", l.Algorithm, l.Amount, maxLogAmount)
		}
		return nil
	case Slots:
		return nil
	default:
		return fmt.Errorf("there is no algorithm %q", l.Algorithm)
	}
}

func validateCalendar(l *Limit) error {
	most := map[Period]int{Day: 1, Week: 7, Month: 31}[l.Period]
	switch {
	case most == 0:
		return fmt.Errorf("algorithm %s: the period is %q, not a day, week or month", l.Algorithm, l.Period)
	case l.Location == nil:
		return fmt.Errorf("algorithm %s: there is no time zone", l.Algorithm)
	case l.ResetDay < 0 || l.ResetDay > most:
		return fmt.Errorf("reset_day: %d is not between 1 and %d", l.ResetDay, most)
	}
	return nil
}

// validate proves the bound of the algorithm; all terms are at most MaxExact.
func (r *Rules) validate() error {
	total, most := r.Capacity+r.Debt, int64(MaxExact)
	switch r.kind {
	case kindBucket, kindPacing:
		// (B + D)·den + num + den < 2^53: a whole refill, and the sum under a
		// rounded-up division.
		most = (MaxExact - r.Num - r.Den) / r.Den
	case kindWindow:
		// Both windows' use, each times the length.
		most = MaxExact / (2 * r.Window)
	}
	if r.Debt < 0 || total > most {
		return fmt.Errorf("a capacity of %d with a debt of %d cannot be counted exactly: both together may be %d at this rate", r.Capacity, r.Debt, max(most, 0))
	}
	return nil
}

// WithKind are rules read from a stored counter, whose algorithm is a number.
func (r Rules) WithKind(k byte) Rules {
	r.kind = kind(k)
	return r
}
