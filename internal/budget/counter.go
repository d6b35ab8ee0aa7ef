package budget

// clockSlack is how far the store's clock may step back, in milliseconds,
// before a counter follows it (S20).
const clockSlack = 5000

// Counter is the state of one counter: values only, no clock and no store. The
// .lua files of redisstore are the twins of its methods, file by file; the
// oracle test there holds them equal.
//
// Every method but New and Advance wants a counter that was advanced to now.
type Counter struct {
	Rules
	Holds  int64 // reservations open on it
	Open   int64 // reserved and not yet settled or reported as used; slots taken
	Until  int64 // when the last of the reservations must have ended, ms
	Paused int64 // nothing is granted before, ms

	At    int64 // bucket: of the last refill; log: of the newest entry
	Level int64 // bucket: units × Den

	// Claimed is what a large request waits for (see claim.go), 0 if none does;
	// ClaimedAt is from when its refill is set aside, ClaimEnds until when. Of a
	// token bucket only.
	Claimed, ClaimedAt, ClaimEnds int64

	Used int64 // calendar, window: in the period; log: in all
	Prev int64 // window: in the period before
	// Mark names a calendar's period, Start and End bound it, Next is the end of
	// the next. A window has Start only.
	Mark, Start, End, Next int64

	Log []Entry // log: by time
}

// New is a counter that nobody has used.
func New(r Rules, b Bounds, now int64) Counter {
	c := Counter{Rules: r}
	switch r.kind {
	case kindBucket, kindPacing:
		c.At = now
		c.Level = r.Capacity * r.Den
	case kindCalendar:
		c.setBounds(b.at(now))
		c.Mark = c.Start
	case kindWindow:
		c.Start = now - now%r.Window
	case kindLog:
		c.At = now
	}
	if r.Empty {
		c.use(r.Capacity, now)
	}
	return c
}

// use takes n from a new counter.
func (c *Counter) use(n, now int64) {
	switch c.kind {
	case kindBucket, kindPacing:
		c.Level -= n * c.Den
	case kindLog:
		c.append(n, now)
	default:
		c.Used += n
	}
}

// Advance brings the counter to now: refilled, rolled over, and under r if r is
// newer than its own rules. b bounds r's period.
func (c *Counter) Advance(r Rules, b Bounds, now int64) {
	current := r.Version >= c.Version && r.kind == c.kind
	switch c.kind {
	case kindBucket, kindPacing:
		c.refill(now)
		if c.Claimed > 0 && now >= c.ClaimEnds {
			c.unclaim()
		}
	case kindCalendar:
		if !current {
			b = Bounds{}
		}
		c.turn(b, now)
	case kindWindow:
		c.slide(now)
	case kindLog:
		c.expire(now)
	}
	if r.Version > c.Version {
		c.adopt(r, b, now)
	}
}

// adopt puts the counter under newer rules: what was used stays used (S22).
func (c *Counter) adopt(r Rules, b Bounds, now int64) {
	if r.kind != c.kind {
		used := c.Capacity - c.Remaining(now)
		fresh := New(r, b, now)
		fresh.Holds, fresh.Until, fresh.Paused = c.Holds, c.Until, c.Paused
		if r.kind == kindSlots {
			used = 0
		} else if r.Empty {
			used -= r.Capacity // New has taken it
		}
		*c = fresh
		c.use(min(max(used, 0), r.Capacity+r.Debt), now)
		return
	}
	switch r.kind {
	case kindBucket, kindPacing:
		c.rescale(r)
	case kindCalendar, kindWindow:
		c.Used = min(c.Used, r.Capacity+r.Debt)
		c.Prev = min(c.Prev, r.Capacity+r.Debt)
	}
	c.Rules = r
}

// Judge tells whether cost would be granted now, and if not, in how many
// milliseconds it would be if nobody else came (0 for slots).
func (c *Counter) Judge(cost, now int64) (Outcome, int64) {
	out, wait := Granted, int64(0)
	switch c.kind {
	case kindBucket:
		out, wait = c.judgeBucket(cost, now)
	case kindPacing:
		out, wait = c.judgePacing(cost, now)
	case kindCalendar:
		out, wait = c.judgeCalendar(cost, now)
	case kindWindow:
		out, wait = c.judgeWindow(cost, now)
	case kindLog:
		out, wait = c.judgeLog(cost, now)
	case kindSlots:
		out = c.judgeSlots(cost)
	}
	if c.Paused > now && out != NeverFits {
		if out == Granted {
			out = Exceeded
		}
		wait = max(wait, c.Paused-now)
	}
	return out, wait
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
