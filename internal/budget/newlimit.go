package budget

import (
	"cmp"
	"fmt"
	"time"
)

// What a limit is unless it says otherwise.
const (
	// DefaultBank is k of statement T5 for a token bucket.
	DefaultBank = 4
	// DefaultDebtFactor is MaxDebt in capacities. Calendar budgets have no bound.
	DefaultDebtFactor = 10
	// NoDebt as a Limit's MaxDebt asks NewLimit for a counter that never goes below
	// zero, since 0 asks for the default.
	NoDebt = -1
)

// NewLimit returns l with every default filled in, ready for a store. The fields
// that have no default are Name, Unit, Amount and, but for Concurrency, Period.
// It returns an error if l cannot be counted exactly.
func NewLimit(l Limit) (*Limit, error) {
	l = l.WithDefaults()
	if err := Validate(&l); err != nil {
		return nil, fmt.Errorf("limit %q: %w", l.Name, err)
	}
	return &l, nil
}

// WithDefaults returns l with the default in each field that is zero, and 0
// debt where MaxDebt is NoDebt. It checks nothing.
func (l Limit) WithDefaults() Limit {
	l.Place = cmp.Or(l.Place, string(Gateway))
	l.Scope = cmp.Or(l.Scope, Gateway)
	l.Tag = cmp.Or(l.Tag, l.Place)
	l.Mode = cmp.Or(l.Mode, Enforce)
	l.WhenStoreDown = cmp.Or(l.WhenStoreDown, Local)
	l.Algorithm = cmp.Or(l.Algorithm, defaultAlgorithm(l.Unit, l.Period))
	l.Burst = cmp.Or(l.Burst, l.Amount)
	l.ResetDay = cmp.Or(l.ResetDay, 1)
	if l.Location == nil {
		l.Location = time.UTC
	}
	if l.Algorithm == TokenBucket {
		l.Bank = cmp.Or(l.Bank, DefaultBank)
	}
	switch {
	case l.MaxDebt == NoDebt || l.Algorithm == Slots:
		l.MaxDebt = 0
	case l.MaxDebt == 0 && l.Algorithm == CalendarUsage:
		l.UnboundedDebt = true
	case l.MaxDebt == 0 && !l.UnboundedDebt:
		l.MaxDebt = DefaultDebtFactor * l.Capacity()
	}
	return l
}

// defaultAlgorithm is a calendar budget for calendar periods, a bucket for lengths
// up to an hour, and a window for those beyond.
func defaultAlgorithm(u Unit, p Period) Algorithm {
	switch {
	case u == Concurrency:
		return Slots
	case p.Calendar():
		return CalendarUsage
	case p.Length() > time.Hour:
		return SlidingWindow
	default:
		return TokenBucket
	}
}
