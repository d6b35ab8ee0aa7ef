package budget

// Entry is what was used in one millisecond.
type Entry struct{ At, Amount int64 }

// A sliding log lists what was used in the last Window milliseconds: exact, and
// as long as its amount is large, so for small limits on valuable things. An
// entry counts until At + Window.

// expire drops the entries that no longer count.
func (c *Counter) expire(now int64) {
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

func (c *Counter) judgeLog(cost, now int64) (Outcome, int64) {
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

// append notes n at now and returns the moment that it is listed under.
func (c *Counter) append(n, now int64) int64 {
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

// strike takes n out of the entry at mark, if it still counts.
func (c *Counter) strike(mark, n int64) {
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
