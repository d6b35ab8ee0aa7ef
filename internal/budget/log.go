package budget

import "fmt"

// Entry is what was used in one millisecond.
type Entry struct{ At, Amount int64 }

// maxLogAmount bounds a sliding log, which keeps an entry for each grant.
const maxLogAmount = 1000

// A slidingLog lists what was used in the last Window milliseconds: exact, and
// as long as its amount is large, so for small limits on valuable things. An
// entry counts until At + Window.
type slidingLog struct{ counted }

func (slidingLog) compile(l *Limit, r *Rules) { r.Window = rolling(l.Period).Milliseconds() }

func (slidingLog) validate(l *Limit) error {
	if l.Amount > maxLogAmount {
		return fmt.Errorf("algorithm %s: amount: %d is more than the %d grants it can list", l.Algorithm, l.Amount, maxLogAmount)
	}
	return validateRolling(l)
}

func (slidingLog) fresh(c *Counter, _ Bounds, now int64) { c.At = now }

// advance drops the entries that no longer count.
func (slidingLog) advance(c *Counter, _ Bounds, now int64) {
	if now < c.At-clockSlack {
		c.rebaseLog(now)
	}
	n := 0
	for n < len(c.Log) && c.Log[n].At+c.Window <= now {
		c.Used -= c.Log[n].Amount
		n++
	}
	c.Log = c.Log[n:]
	c.At = max(c.At, now)
}

// rebaseLog follows a clock that stepped back: what is in its future becomes
// its present, and counts for a whole window.
func (c *Counter) rebaseLog(now int64) {
	c.At = now
	late := int64(0)
	for len(c.Log) > 0 && c.Log[len(c.Log)-1].At >= now {
		late += c.Log[len(c.Log)-1].Amount
		c.Log = c.Log[:len(c.Log)-1]
	}
	if late > 0 {
		c.Log = append(c.Log, Entry{now, late})
	}
}

func (slidingLog) judge(c *Counter, cost, now int64) (Outcome, int64) {
	switch {
	case cost > c.Capacity:
		return NeverFits, 0
	case cost == 0 || c.Used+cost <= c.Capacity:
		return Granted, 0
	}
	used := c.Used
	for _, e := range c.Log {
		if used -= e.Amount; used+cost <= c.Capacity {
			return Exceeded, max(0, e.At+c.Window-now)
		}
	}
	return Exceeded, c.Window // not reached: an empty log grants its capacity
}

// use lists n at now and returns the moment that it is listed under.
func (slidingLog) use(c *Counter, n, now int64) int64 {
	at := max(now, c.At)
	if n == 0 {
		return at
	}
	c.Used += n
	if last := len(c.Log) - 1; last >= 0 && c.Log[last].At == at {
		c.Log[last].Amount += n
		return at
	}
	c.Log = append(c.Log, Entry{at, n})
	return at
}

// refund takes n out of the entry at mark, if it still counts.
func (slidingLog) refund(c *Counter, mark, n int64) {
	for i := range c.Log {
		if c.Log[i].At != mark {
			continue
		}
		n = min(n, c.Log[i].Amount)
		c.Used -= n
		if c.Log[i].Amount -= n; c.Log[i].Amount == 0 {
			c.Log = append(c.Log[:i], c.Log[i+1:]...)
		}
		return
	}
}

func (slidingLog) reset(c *Counter, now int64) int64 {
	if len(c.Log) == 0 {
		return 0
	}
	return max(0, c.Log[len(c.Log)-1].At+c.Window-now)
}
