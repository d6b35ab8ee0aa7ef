package sim

import (
	"slices"
	"testing"

	"llmgw/internal/budget"
)

// minute is a bucket of amount a minute, or another algorithm for it.
func minute(t *testing.T, amount int64) *Limiter {
	t.Helper()
	m, err := NewLimiter(&budget.Limit{
		Name: "tpm", Unit: budget.Tokens, Amount: amount, Period: budget.Minute, Burst: amount, Bank: 4, MaxDebt: 10 * amount, Algorithm: budget.TokenBucket,
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A request that wants most of a bucket comes each second, among small ones for
// 1.2 times the rate. The small ones take what comes back before it is enough.
func TestS33PollingStarvesALargeRequestAndAClaimDoesNot(t *testing.T) {
	const large, amount, hour = 50_000, 60_000, 55 * 60 * second
	wait := func(claims bool) (at int64) {
		m := minute(t, amount)
		m.Charge(0, amount)
		for now := int64(0); now < hour; now += 50 {
			if now%second == 0 {
				m.counter.Advance(m.rules, m.bounds(now), now)
				out, after := m.counter.Judge(large, now)
				if out == budget.Granted {
					return now
				}
				if claims {
					m.counter.Claim(large, after, now)
				}
			}
			for range 3 {
				m.Allow(now, amount*6/5/3/20/60)
			}
		}
		return hour
	}
	if got := wait(false); got != hour {
		t.Errorf("without a claim it was granted after %d ms, want not at all in 55 minutes", got)
	}
	got := wait(true)
	t.Logf("with a claim: %d ms", got)
	if most := int64(2*large) + second; got > most {
		t.Errorf("with a claim it was granted after %d ms, want %d at most: at half of the rate", got, most)
	}
}

// Requests that reserve twice what they use, and run for longer than a minute,
// give the rest back when the window that they took it from is gone.
func TestS35ABucketIsUsedWhereAFixedWindowIsHalfEmpty(t *testing.T) {
	const amount, reserved, used, runs, hour = 60_000, 1000, 500, 90 * second, 3600 * second
	type running struct {
		ends int64
		hold budget.Hold
	}
	utilisation := func(m *Limiter) float64 {
		var open []running
		total := int64(0)
		for now := int64(0); now < hour; now += 100 {
			m.counter.Advance(m.rules, m.bounds(now), now)
			open = slices.DeleteFunc(open, func(r running) bool {
				if r.ends > now {
					return false
				}
				m.counter.Settle(r.hold, used, now)
				total += used
				return true
			})
			for {
				if out, _ := m.counter.Judge(reserved, now); out != budget.Granted {
					break
				}
				open = append(open, running{now + runs, m.counter.Take(reserved, now+runs, now)})
			}
		}
		return float64(total) / (amount * hour / (60 * second))
	}
	if got := utilisation(FixedWindow(amount, 60*second)); got < 0.47 || got > 0.52 {
		t.Errorf("a fixed window: got %.3f, want about half", got)
	}
	got := utilisation(minute(t, amount))
	t.Logf("a bucket: %.3f", got)
	if got < 0.95 || got > 1.05 {
		t.Errorf("a bucket: got %.3f, want nearly all", got)
	}
}
