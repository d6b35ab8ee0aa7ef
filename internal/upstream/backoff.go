package upstream

import (
	"math/rand/v2"
	"time"
)

// The measure of waiting between two tries of one target: up to backoffFirst,
// doubled with every try up to backoffMost, and anything below it (full jitter,
// so that those who failed together do not come back together).
const (
	backoffFirst = 500 * time.Millisecond
	backoffMost  = 8 * time.Second
	// afterJitter is added to what a provider asks for, at most.
	afterJitter = 250 * time.Millisecond
)

// delay is how long the target that failed with o is left alone, after so many
// tries. What the provider asks for is kept to the full; where the pacer or
// another key sees to that, there is no delay.
func (o outcome) delay(attempts int) time.Duration {
	switch {
	case o.held || o.spare:
		return 0
	case o.after > 0:
		return o.after + rand.N(min(afterJitter, o.after/10)+1)
	default:
		return rand.N(min(backoffMost, backoffFirst<<min(attempts-1, 10)))
	}
}

// await waits until the i-th target may be asked, and reports whether it may. A
// wait that the provider asked for and that does not fit is not begun; one of
// our own choice is cut to what is left.
func (r *run) await(i int) bool {
	d := time.Until(r.standing[i].ready)
	left := r.left(r.job.Targets[i])
	if after := r.standing[i].after; after > left {
		return false
	}
	d = min(d, left)
	if d <= 0 {
		return true
	}
	start := time.Now()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.ctx.Done():
	}
	r.waited += time.Since(start)
	return r.ctx.Err() == nil
}
