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
	// afterJitter is added to what a provider asks for, at most, so that those who
	// wait do not all come back at once.
	afterJitter = 250 * time.Millisecond
)

// delay is how long the target that failed with o is left alone, after so many
// tries. What its provider asks to wait is kept as its rest, and no delay besides.
func (o outcome) delay(attempts int) time.Duration {
	if o.after > 0 {
		return 0
	}
	return rand.N(min(backoffMost, backoffFirst<<min(attempts-1, 10)))
}

// await waits until the i-th target may be asked, as far as that fits.
func (r *run) await(i int) {
	r.sleep(min(time.Until(r.standing[i].ready), r.left(r.job.Targets[i])))
}

// sleep waits for d, or for the call's end.
func (r *run) sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	start := time.Now()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.ctx.Done():
	}
	r.waited += time.Since(start)
}
