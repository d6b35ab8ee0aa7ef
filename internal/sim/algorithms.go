package sim

import "llmgw/internal/budget"

// Algorithm is one way to count, with what it let through.
type Algorithm struct {
	Name string
	Result
}

// Classic is the load that tells the algorithms apart, for a limit per second: a
// quiet start at half of it, a burst of one and a half on each side of a window's
// edge, and twice the limit for two seconds. It is eight times the limit.
func Classic(limit int64) []int64 {
	return Merge(
		Spaced(0, 2*second, limit),
		Spaced(2900, 90, limit*3/2),
		Spaced(3000, 90, limit*3/2),
		Spaced(4*second, 2*second, 4*limit),
	)
}

// Algorithms plays a trace against each of the five classic algorithms under a
// limit of perSecond, and the bucket also with twice the burst. A log of more
// grants than the product lists is left out.
func Algorithms(perSecond int64, trace []int64) ([]Algorithm, error) {
	limit := func(name string, a budget.Algorithm, burst int64) *budget.Limit {
		return &budget.Limit{Name: name, Unit: budget.Requests, Amount: perSecond, Period: budget.Second, Burst: burst, Bank: 1, Algorithm: a}
	}
	all := []Algorithm{{Name: "fixed window", Result: play(FixedWindow(perSecond, second), trace)}}
	for _, l := range []*budget.Limit{
		limit("sliding log", budget.SlidingLog, 0),
		limit("sliding window counter", budget.SlidingWindow, 0),
		limit("token bucket", budget.TokenBucket, perSecond),
		limit("token bucket, twice the burst", budget.TokenBucket, 2*perSecond),
	} {
		if l.Algorithm == budget.SlidingLog && budget.Validate(l) != nil {
			continue
		}
		m, err := NewLimiter(l)
		if err != nil {
			return nil, err
		}
		all = append(all, Algorithm{Name: l.Name, Result: play(m, trace)})
	}
	return all, nil
}
