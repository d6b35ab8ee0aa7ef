package upstream

import (
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"llmgw/internal/admission"
	"llmgw/internal/fault"
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

// await waits until the i-th target may be asked, as far as that fits. The error
// says why the job is refused by now, if it is, or that its context has ended.
func (r *run) await(i int) error {
	return r.sleep(min(time.Until(r.standing[i].ready), r.left(r.job.Targets[i])))
}

// sleep waits for d, or for the end of the job's wait, which it returns.
func (r *run) sleep(d time.Duration) error {
	if d <= 0 {
		return r.ctx.Err()
	}
	start := time.Now()
	defer func() { r.waited += time.Since(start) }()
	place, err := r.client.room.Enter(r.ctx, backingOff{}, math.MaxInt, admission.Guest{Team: r.job.Team, Check: r.job.Check})
	if err != nil {
		return err
	}
	defer place.Leave()
	for end := start.Add(d); d > 0; d = time.Until(end) {
		if err := place.Sleep(d); err != nil {
			if _, refused := errors.AsType[*fault.Error](err); !refused {
				return r.ctx.Err()
			}
			return err
		}
	}
	return nil
}

// backingOff names the places of jobs between two tries.
type backingOff struct{}
