package sim

import "llmgw/internal/budget"

// Algorithm is one way to count, with what it let through.
type Algorithm struct {
	Name string
	Result
}

// Classic is the load that tells the algorithms apart, for a limit of 10 a
// second: a quiet start, a burst on both sides of a window's edge, and twice
// the limit for two seconds.
func Classic() []int64 {
	return Merge(
		Every(0, 2*second, second/5),
		Every(2900, 2900+15*6, 6),
		Every(3000, 3000+15*6, 6),
		Every(4*second, 6*second, second/20),
	)
}

// Algorithms plays a trace against each of the five classic algorithms under a
// limit of perSecond, and the bucket also with twice the burst.
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
		m, err := NewLimiter(l)
		if err != nil {
			return nil, err
		}
		all = append(all, Algorithm{Name: l.Name, Result: play(m, trace)})
	}
	return all, nil
}
