package budget

import (
	"fmt"
	"time"
)

// Bounds are a calendar period and the end of the next, in Unix milliseconds. A
// gateway sends them with each request; the store's clock chooses (S37). The
// zero Bounds mean that the sender has none.
type Bounds struct{ Start, End, Next int64 }

// BoundsOf is the period of l that now (ms) is in, zero unless l is counted by
// calendar periods.
func BoundsOf(l *Limit, now int64) Bounds {
	if l.Algorithm != CalendarUsage {
		return Bounds{}
	}
	parts := l.parts()
	if b := parts.bounds.Load(); b != nil && now >= b.Start && now < b.End {
		return *b
	}
	start, end := PeriodAt(l, time.UnixMilli(now))
	_, next := PeriodAt(l, end)
	b := Bounds{start.UnixMilli(), end.UnixMilli(), next.UnixMilli()}
	parts.bounds.Store(&b)
	return b
}

// PeriodAt is the calendar period of l that t is in: its first instant, and
// that of the next. Days have 23 to 25 hours where clocks change.
func PeriodAt(l *Limit, t time.Time) (start, end time.Time) {
	loc, reset := l.Location, max(1, l.ResetDay)
	t = t.In(loc)
	y, m, d := t.Date()
	switch l.Period {
	case Week:
		weekday := (int(t.Weekday())+6)%7 + 1 // Monday is 1
		d -= (weekday - reset + 7) % 7
		return dayStart(y, m, d, loc), dayStart(y, m, d+7, loc)
	case Month:
		if t.Before(resetIn(y, m, reset, loc)) {
			return resetIn(y, m-1, reset, loc), resetIn(y, m, reset, loc)
		}
		return resetIn(y, m, reset, loc), resetIn(y, m+1, reset, loc)
	case Quarter:
		return monthsFrom(t, y, m-(m-1)%3, 3, reset, loc)
	case Year:
		return monthsFrom(t, y, time.January, 12, reset, loc)
	default:
		return dayStart(y, m, d, loc), dayStart(y, m, d+1, loc)
	}
}

// monthsFrom is the period of n months that t is in, where one begins at the reset
// of month m.
func monthsFrom(t time.Time, y int, m time.Month, n, reset int, loc *time.Location) (start, end time.Time) {
	if t.Before(resetIn(y, m, reset, loc)) {
		m -= time.Month(n)
	}
	return resetIn(y, m, reset, loc), resetIn(y, m+time.Month(n), reset, loc)
}

// resetIn is the reset of a month, on its last day if it is shorter.
func resetIn(y int, m time.Month, reset int, loc *time.Location) time.Time {
	last := time.Date(y, m+1, 0, 12, 0, 0, 0, time.UTC).Day()
	return dayStart(y, m, min(reset, last), loc)
}

// dayStart is the first instant of a day, which is not midnight where clocks
// are put forward then, and the first of two midnights where they are put back.
func dayStart(y int, m time.Month, d int, loc *time.Location) time.Time {
	midnight := time.Date(y, m, d, 0, 0, 0, 0, time.UTC) // as a label, normalised
	y, m, d = midnight.Date()
	t := time.Date(y, m, d, 0, 0, 0, 0, loc)
	if label(t).Before(midnight) { // midnight was skipped: the day begins with the change
		_, change := t.ZoneBounds()
		return change
	}
	zone, _ := t.ZoneBounds()
	if zone.IsZero() {
		return t
	}
	// The instant that showed midnight before the zone's last change, if it did.
	_, before := zone.Add(-time.Second).Zone()
	first := midnight.Add(-time.Duration(before) * time.Second).In(loc)
	if first.Before(zone) && label(first).Equal(midnight) {
		return first
	}
	if zone.Before(t) && !label(zone).Before(midnight) {
		return zone
	}
	return t
}

// label is what t's clock shows, as if it were UTC.
func label(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.Add(time.Duration(offset) * time.Second).UTC()
}

// at is the period that now is in. Far from the bounds, which only a wrong clock
// or a long silence brings, periods are taken to be as long as those known.
func (b Bounds) at(now int64) Bounds {
	switch {
	case now < b.Start:
		length := b.End - b.Start
		start := b.Start - ceilDiv(b.Start-now, length)*length
		return Bounds{start, start + length, start + 2*length}
	case now < b.End:
		return b
	}
	length := b.Next - b.End
	start := b.End + (now-b.End)/length*length
	return Bounds{start, start + length, start + 2*length}
}

// A calendar counter counts what was used in a calendar period.
type calendar struct{ counted }

func (calendar) validate(l *Limit) error {
	most := map[Period]int{Day: 1, Week: 7, Month: 31, Quarter: 31, Year: 31}[l.Period]
	switch {
	case most == 0:
		return fmt.Errorf("algorithm %s: the period is %q, not a day, week, month, quarter or year", l.Algorithm, l.Period)
	case l.Location == nil:
		return fmt.Errorf("algorithm %s: there is no time zone", l.Algorithm)
	case l.ResetDay < 0 || l.ResetDay > most:
		return fmt.Errorf("reset_day: %d is not between 1 and %d", l.ResetDay, most)
	}
	return nil
}

func (calendar) fresh(c *Counter, b Bounds, now int64) {
	c.setBounds(b.at(now))
	c.Mark = c.Start
}

// advance moves the counter to the period that now is in. With b, which is
// of the same rules or newer, it also takes over b's bounds; what was used in a
// period that is not over stays used. A clock that steps back into the period
// before, or further, finds what was used there, and since.
func (calendar) advance(c *Counter, b Bounds, now int64) {
	if now < c.Start && now >= c.Start-clockSlack {
		return
	}
	over := now >= c.End
	if b == (Bounds{}) {
		if !over {
			return // without bounds of its own a sender does not move them
		}
		b = Bounds{c.Start, c.End, c.Next}
	}
	c.setBounds(b.at(now))
	switch {
	case over:
		c.PrevMark, c.Prev = c.Mark, c.Used
		if c.Mark >= c.Start { // counted under a wrong clock: that period has begun by now
			c.Prev = 0
		}
		c.Mark, c.Used, c.Open = c.Start, 0, 0
	case c.Prev > 0 && c.Start <= c.PrevMark:
		c.Mark, c.Used = c.PrevMark, min(c.Prev+c.Used, c.Capacity+c.Debt)
		c.PrevMark, c.Prev = 0, 0
	}
	if c.Prev == 0 {
		c.PrevMark = 0
	}
}

func (c *Counter) setBounds(b Bounds) { c.Start, c.End, c.Next = b.Start, b.End, b.Next }

func (calendar) adopt(c *Counter, r Rules) {
	c.Used = min(c.Used, r.Capacity+r.Debt)
	c.Prev = min(c.Prev, r.Capacity+r.Debt)
}

func (calendar) judge(c *Counter, cost, now int64) (Outcome, int64) {
	switch {
	case cost > c.Capacity:
		return NeverFits, 0
	case cost == 0 || cost <= c.Capacity-c.Used:
		return Granted, 0
	}
	return Spent, max(0, c.End-now)
}

func (calendar) use(c *Counter, n, _ int64) int64 {
	c.Used += n
	return c.Mark
}

// refund gives n back to the period that it was taken from, or nowhere.
func (calendar) refund(c *Counter, mark, n int64) {
	if mark == c.Mark {
		c.Used = max(0, c.Used-n)
	}
}

func (k calendar) held(c *Counter, h Hold) int64 {
	if h.Mark != c.Mark {
		return 0 // of a period that is over
	}
	return k.counted.held(c, h)
}

func (calendar) reset(c *Counter, now int64) int64 { return max(0, c.End-now) }
