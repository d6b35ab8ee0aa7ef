package budget

// clockSlack is how far the store's clock may step back, in milliseconds,
// before a counter follows it (S20).
const clockSlack = 5000

// forever is how long, in milliseconds, a counter is kept that would be wrong
// if it were made anew: one that starts empty.
const forever = 400 * 24 * 3600 * 1000

// Counter is the state of one counter: values only, no clock and no store. The
// Lua twin of its methods is redisstore/counter.lua; the oracle test there
// holds them equal.
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

	Used int64 // calendar, window: in the period; log: in all
	Prev int64 // window: in the period before
	// Mark names a calendar's period, Start and End bound it, Next is the end of
	// the next. A window has Start only.
	Mark, Start, End, Next int64

	Log []Entry // log: by time

	// Rebased says that the last Advance found the clock more than 5 s back.
	Rebased bool
}

// Hold is what one reservation has on one counter.
type Hold struct {
	Taken int64 // -1: nothing was charged, nor will be: a shadow line's refusal
	Noted int64 // reported as used so far
	Mark  int64 // the period or moment that it was taken from
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
	c.Rebased = false
	switch c.kind {
	case kindBucket, kindPacing:
		c.refill(now)
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

// Take takes cost for a reservation that must have ended at deadline. Of a cost
// that Judge refuses it takes what the debt allows.
func (c *Counter) Take(cost, deadline, now int64) Hold {
	h := Hold{Taken: cost}
	switch c.kind {
	case kindBucket, kindPacing:
		h.Taken = c.charge(cost)
	case kindCalendar:
		h.Taken, h.Mark = c.charge(cost), c.Mark
	case kindWindow:
		h.Taken, h.Mark = c.charge(cost), c.Start
	case kindLog:
		h.Taken = min(cost, c.room())
		h.Mark = c.append(h.Taken, now)
	}
	c.Open += h.Taken
	c.Holds++
	c.Until = max(c.Until, deadline)
	return h
}

// Note records that h has used so much so far; Open falls by it.
func (c *Counter) Note(h Hold, used int64) Hold {
	if h.Taken < 0 || used <= h.Noted {
		return h
	}
	if c.kind != kindSlots && c.holds(h) {
		c.Open -= min(used, h.Taken) - min(h.Noted, h.Taken)
	}
	h.Noted = used
	return h
}

// Settle ends h: what was used replaces what was taken. It returns what
// exceeded the debt and was not charged.
func (c *Counter) Settle(h Hold, used, now int64) (unbooked int64) {
	if h.Taken < 0 {
		return 0
	}
	c.Holds = max(0, c.Holds-1)
	if c.kind == kindSlots {
		c.Open = max(0, c.Open-h.Taken)
		return 0
	}
	if c.holds(h) {
		c.Open = max(0, c.Open-(h.Taken-min(h.Noted, h.Taken)))
	}
	if used > h.Taken {
		return c.Overrun(used-h.Taken, now)
	}
	c.refund(h, h.Taken-used)
	return 0
}

// Overrun charges n more, as a debt if need be. It returns what was not charged.
func (c *Counter) Overrun(n, now int64) (unbooked int64) {
	switch c.kind {
	case kindSlots:
		return 0
	case kindLog:
		booked := min(n, c.room())
		c.append(booked, now)
		return n - booked
	default:
		return n - c.charge(n)
	}
}

// Correct lowers what is left to atMost, unless that is negative, and grants
// nothing for pause milliseconds.
func (c *Counter) Correct(atMost, pause, now int64) {
	if left := c.Remaining(now); atMost >= 0 && atMost < left {
		c.Overrun(left-atMost, now)
	}
	if pause > 0 {
		c.Paused = max(c.Paused, now+pause)
	}
}

// holds tells whether what h took is still part of the counter.
func (c *Counter) holds(h Hold) bool { return c.kind != kindCalendar || h.Mark == c.Mark }

func (c *Counter) refund(h Hold, n int64) {
	switch c.kind {
	case kindBucket, kindPacing:
		c.credit(n)
	case kindCalendar:
		if h.Mark == c.Mark {
			c.Used = max(0, c.Used-n)
		}
	case kindWindow:
		c.giveBack(h.Mark, n)
	case kindLog:
		c.strike(h.Mark, n)
	}
}

// room is how much can still be charged before the debt is at its bound.
func (c *Counter) room() int64 {
	if c.kind == kindBucket || c.kind == kindPacing {
		return (c.Level + c.Debt*c.Den) / c.Den
	}
	return max(0, c.Capacity+c.Debt-c.Used)
}

// charge takes n or what there is room for, and returns what it took.
func (c *Counter) charge(n int64) int64 {
	n = min(n, max(0, c.room()))
	if c.kind == kindBucket || c.kind == kindPacing {
		c.Level -= n * c.Den
	} else {
		c.Used += n
	}
	return n
}

// Remaining is what is left in whole units, negative in debt; of slots never.
func (c *Counter) Remaining(now int64) int64 {
	switch c.kind {
	case kindBucket, kindPacing:
		return floorDiv(c.Level, c.Den)
	case kindWindow:
		return floorDiv(c.Capacity*c.Window-c.weighted(now), c.Window)
	case kindSlots:
		return max(0, c.Capacity-c.Open)
	default:
		return c.Capacity - c.Used
	}
}

// Reset is the time until the counter is full or its period ends, in ms.
func (c *Counter) Reset(now int64) int64 {
	switch c.kind {
	case kindBucket, kindPacing:
		return c.untilLevel(c.Capacity*c.Den, now)
	case kindCalendar:
		return max(0, c.End-now)
	case kindWindow:
		return c.untilUnused(now)
	case kindLog:
		if len(c.Log) > 0 {
			return max(0, c.Log[len(c.Log)-1].At+c.Window-now)
		}
	}
	return 0
}

// Life is how long the counter must be kept, in ms: until a new one would be
// the same, and while a reservation is open on it (S25).
func (c *Counter) Life(now int64) int64 {
	life := max(c.Reset(now), c.Paused-now)
	if c.Empty {
		life = forever
	}
	if c.Holds > 0 {
		life = max(life, c.Until-now)
	}
	return life
}

// State describes the counter to one who asked for cost and was told out and wait.
func (c *Counter) State(out Outcome, wait, now int64) LineState {
	return LineState{
		Outcome:   out,
		Remaining: c.Remaining(now),
		Capacity:  c.Capacity,
		Open:      c.Open,
		Wait:      Millis(wait),
		Reset:     Millis(c.Reset(now)),
		Rebased:   c.Rebased,
	}
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
