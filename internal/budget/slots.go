package budget

// slots count what is in flight: a slot is taken with a record and freed with
// it, so that the count is the number of records, and cannot leak by itself.
// Open is the count; what a request has used of its slot does not lower it.
type slots struct{ counted }

func (slots) compile(_ *Limit, r *Rules)          { r.Debt = 0 }
func (slots) fresh(*Counter, Bounds, int64)       {}
func (slots) advance(*Counter, Bounds, int64)     {}
func (slots) room(*Counter) int64                 { return MaxExact }
func (slots) use(*Counter, int64, int64) int64    { return 0 }
func (slots) refund(*Counter, int64, int64)       {}
func (slots) held(_ *Counter, h Hold) int64       { return h.Taken }
func (slots) remaining(c *Counter, _ int64) int64 { return max(0, c.Capacity-c.Open) }
func (slots) reset(*Counter, int64) int64         { return 0 }

func (slots) judge(c *Counter, n, _ int64) (Outcome, int64) {
	switch {
	case n > c.Capacity:
		return NeverFits, 0
	case n > c.Capacity-c.Open:
		return NoSlot, 0
	default:
		return Granted, 0
	}
}
