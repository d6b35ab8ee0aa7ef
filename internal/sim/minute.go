package sim

import (
	"fmt"

	"llmgw/internal/budget"
)

// Minute is a limit of tokens a minute and what its clients ask of it.
type Minute struct {
	Amount int64 // tokens a minute, and of a bucket the burst
	Large  int64 // tokens of the large request among small ones
	// Pressure is what the small ones ask for together, in thousandths of the rate.
	Pressure int64
	Reserve  int64 // tokens that a request reserves …
	Use      int64 // … and of them uses …
	RunsMS   int64 // … by the time that it ends
}

// The largest limits that are played: in tokens, and in requests, a minute.
const (
	mostTokens   = 1_000_000_000_000
	mostRequests = 100_000
)

// check tells what of m cannot be played.
func (m Minute) check() error {
	switch {
	case m.Amount < 1 || m.Large < 1 || m.Reserve < 1 || m.RunsMS < 1:
		return fmt.Errorf("tokens a minute, a large request, what a request reserves and how long it runs must be at least 1: %+v", m)
	case m.Large > m.Amount || m.Reserve > m.Amount:
		return fmt.Errorf("a request for more than the %d tokens of the limit never fits", m.Amount)
	case m.Use < 0 || m.Use > m.Reserve:
		return fmt.Errorf("a request that reserves %d tokens cannot be played with %d used", m.Reserve, m.Use)
	case m.Pressure < 0 || m.Pressure > 10_000:
		return fmt.Errorf("small requests can be played for 0 to 10 times the rate, not %g times", float64(m.Pressure)/1000)
	case m.Amount > mostTokens:
		return fmt.Errorf("%d tokens a minute are too many to play: %d at most", m.Amount, int64(mostTokens))
	case m.Amount/m.Reserve > mostRequests:
		return fmt.Errorf("%d requests a minute are too many to play: %d at most", m.Amount/m.Reserve, mostRequests)
	}
	return nil
}

// Bucket is the limit as a token bucket with that bank cap, 0 for none.
func (m Minute) Bucket(bank int64) (*Limiter, error) {
	return NewLimiter(&budget.Limit{
		Name: "tpm", Unit: budget.Tokens, Amount: m.Amount, Period: budget.Minute, Algorithm: budget.TokenBucket,
		Burst: m.Amount, Bank: bank, MaxDebt: m.Amount,
	})
}

// patience is how long a large request is tried, in ms.
const patience = 55 * 60 * second

// LargeWaits plays a request for Large that comes each second to an empty
// bucket, among small ones that take what they can get, and returns when it is
// granted; not at all in 55 minutes is false. With a claim, as the product has
// it, its refusals set half of the refill aside (S33).
func (m Minute) LargeWaits(claim Claim) (ms int64, granted bool, err error) {
	b, err := m.Bucket(4)
	if err != nil {
		return 0, false, err
	}
	b.Charge(0, m.Amount)
	const step, minute = 50, 60 * second
	rate, owed := m.Amount*m.Pressure/1000, int64(0) // of the small ones; owed in tokens × minute
	for now := int64(0); now < patience; now += step {
		if now%second == 0 && b.ask(now, m.Large, claim) {
			return now, true, nil
		}
		owed += rate * step
		b.Allow(now, owed/minute)
		owed %= minute
	}
	return 0, false, nil
}

// Claim says whether a large request that is refused claims a part of the refill.
type Claim int

// The two ways to treat a large request.
const (
	Polls  Claim = iota // it takes what it finds
	Claims              // what the product does
)

// ask is Allow for a request that may claim what it is refused.
func (m *Limiter) ask(now, cost int64, claim Claim) bool {
	if m.Allow(now, cost) {
		return true
	}
	if out, wait := m.counter.Judge(cost, now); claim == Claims && out == budget.Exceeded {
		m.counter.Claim(cost, wait, now)
	}
	return false
}

// Utilisation plays an hour of as many requests as limiter admits, each of which
// holds Reserve until it ends and gives back what it did not use, and returns
// the part of the limit that was used by those that ended (S35).
func (m Minute) Utilisation(limiter *Limiter) float64 {
	type running struct {
		ends int64
		hold budget.Hold
	}
	const step, minutes, minute = 100, 60, 60 * second
	var open []running // in the order of their ends
	used := int64(0)
	for now := int64(0); now < minutes*minute; now += step {
		for len(open) > 0 && open[0].ends <= now {
			limiter.Settle(now, open[0].hold, m.Use)
			used += m.Use
			open = open[1:]
		}
		for {
			hold, ok := limiter.Reserve(now, m.Reserve, now+m.RunsMS)
			if !ok {
				break
			}
			open = append(open, running{now + m.RunsMS, hold})
		}
	}
	return float64(used) / float64(minutes*m.Amount)
}
