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
	Prev int64 // calendar, window: in the period before
	// PrevMark names the calendar period of Prev; 0 if nothing was used in it.
	PrevMark int64
	// Mark names a calendar's period, Start and End bound it, Next is the end of
	// the next. A window has Start only.
	Mark, Start, End, Next int64

	Log []Entry // log: by time
}

// New is a counter that nobody has used.
func New(r Rules, b Bounds, now int64) Counter {
	c := Counter{Rules: r}
	alg := r.kind.algorithm()
	alg.fresh(&c, b, now)
	if r.Empty {
		alg.use(&c, r.Capacity, now)
	}
	return c
}

// Advance brings the counter to now: refilled, rolled over, and under r if r is
// newer than its own rules. b bounds r's period.
func (c *Counter) Advance(r Rules, b Bounds, now int64) {
	own := b
	if r.Version < c.Version || r.kind != c.kind {
		own = Bounds{}
	}
	c.kind.algorithm().advance(c, own, now)
	if r.Version > c.Version {
		c.adopt(r, b, now)
	}
}

// adopt puts the counter under newer rules: what was used stays used (S22).
func (c *Counter) adopt(r Rules, b Bounds, now int64) {
	if r.kind == c.kind {
		r.kind.algorithm().adopt(c, r)
		c.Rules = r
		return
	}
	used := c.Capacity - c.Remaining(now)
	fresh := New(r, b, now)
	fresh.Holds, fresh.Until, fresh.Paused = c.Holds, c.Until, c.Paused
	if r.Empty {
		used -= r.Capacity // New has taken it
	}
	*c = fresh
	r.kind.algorithm().use(c, min(max(used, 0), r.Capacity+r.Debt), now)
}

// Judge reports whether cost would be granted now, and if not, in how many
// milliseconds it would be if nobody else came (0 for slots).
func (c *Counter) Judge(cost, now int64) (Outcome, int64) {
	out, wait := c.kind.algorithm().judge(c, cost, now)
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
