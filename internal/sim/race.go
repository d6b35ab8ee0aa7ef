package sim

// ReadThenWrite plays a limiter that reads a counter, decides, and writes it
// back one trip to the store later, for one window of a second: requests that
// read before another's write count as one. It returns how many of load
// requests, evenly spread, are admitted under limit. With a trip of 0 the
// decision is atomic.
func ReadThenWrite(load int, limit, tripMS int64) int {
	type write struct{ at, value int64 }
	var counter int64
	var under []write // way to the store, in order
	admitted := 0
	for _, t := range Steady(load, 1) {
		for len(under) > 0 && under[0].at < t { // a write and a read of one moment: the read is first
			counter = under[0].value
			under = under[1:]
		}
		if counter >= limit {
			continue
		}
		admitted++
		if tripMS == 0 {
			counter++
			continue
		}
		under = append(under, write{t + tripMS, counter + 1})
	}
	return admitted
}
