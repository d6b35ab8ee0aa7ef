package budget

// Slots count what is in flight: a slot is taken with a record and freed with
// it, so that the count is the number of records, and cannot leak by itself.

func (c *Counter) judgeSlots(n int64) Outcome {
	switch {
	case n > c.Capacity:
		return NeverFits
	case n > c.Capacity-c.Open:
		return NoSlot
	default:
		return Granted
	}
}
