package upstream

import (
	"context"
	"sync"
	"time"

	"llmgw/internal/admission"
	"llmgw/internal/budget"
	"llmgw/internal/fault"
	"llmgw/internal/tokens"
)

// The bounds of waiting for a turn.
const (
	// horizon is how far ahead the front of a queue may rely on a verdict before
	// it asks again: what others give back is used that soon.
	horizon = 200 * time.Millisecond
	// slotPoll is how often a call asks for a slot that another gateway may free.
	slotPoll = 25 * time.Millisecond
	// maxWaiters bounds a queue, which all teams share.
	maxWaiters = 10_000
)

// pacer gives calls their turns within one set of limits, those of a provider
// or of one of its keys. Waiting calls form a fair queue. Only those at its
// front ask the limiter, which all gateways share; whoever gives up has reserved
// nothing. It is safe for concurrent use.
//
//	nobody waits ──ask──► granted
//	     │ refused               ▲
//	     ▼                       │ granted: the next comes to the front
//	   queue ──front──► ask ──┴──refused──► wait ≤ horizon, ask again
//	     └── wait longer than allowed, or the caller gone: leaves
type pacer struct {
	limiter budget.Limiter
	room    *admission.Room // where its calls wait

	mu        sync.Mutex
	paced     *paced // nil: no limits
	queue     fairQueue
	sent      *spans        // of tokens; nil until the first
	throttles throttles     // by model
	paused    time.Time     // nothing is granted before
	readyAt   time.Time     // when the front expects its turn, as last told
	binding   int           // the line that refused last
	levels    levels        // as last told
	freed     chan struct{} // a settlement may have made room for the front
}

// request is what one try asks of a pacer.
type request struct {
	id     string // of the job
	nth    int    // turn that the job asks for
	team   string
	weight int
	model  string
	tokens tokens.Count // as counted at arrival
	// maxWait bounds the wait. ≥ 0
	maxWait time.Duration
	check   func() error // Job.Check
}

func newPacer(l budget.Limiter, p *paced) *pacer {
	return &pacer{limiter: l, room: admission.New(), paced: p, freed: make(chan struct{}, 1)}
}

// take waits for a turn. It returns a nil turn at once if there are no limits,
// else ctx's error, a *fault.Error of UpstreamCapacity as soon as the wait is
// known to be longer than r.maxWait, or what else ended the wait.
func (p *pacer) take(ctx context.Context, r request) (*turn, error) {
	start := time.Now()
	p.mu.Lock()
	if p.paced == nil {
		p.mu.Unlock()
		return nil, nil
	}
	busy := p.queue.n > 0
	p.mu.Unlock()
	if !busy {
		t, v := p.ask(ctx, r, 0)
		if t != nil {
			return t, nil
		}
		if err := p.verdict(ctx, v, r, r.maxWait); err != nil {
			return nil, err
		}
	}
	place, err := p.room.Enter(ctx, p, maxWaiters, admission.Guest{Team: r.team, Check: r.check})
	if err != nil {
		return nil, p.ended(ctx, r, err)
	}
	defer place.Leave()
	p.mu.Lock()
	w, err := p.join(r)
	p.mu.Unlock()
	if err != nil {
		return nil, err
	}
	t, err := p.wait(ctx, place, w, r, start)
	p.mu.Lock()
	defer p.mu.Unlock()
	if t != nil {
		p.queue.serve(w)
	} else {
		p.queue.leave(w)
	}
	return t, err
}

// join puts r into the queue unless its wait is already known to be too long.
// mu is held.
func (p *pacer) join(r request) (*waiter, error) {
	n := p.need(r)
	if p.queue.n > 0 {
		known := max(0, time.Until(p.readyAt)) + p.duration(p.queue.ahead(r.team, r.weight, n))
		if known > r.maxWait {
			return nil, p.full(r, known)
		}
	}
	return p.queue.push(r.team, r.weight, n), nil
}

// wait waits until w is at the front, and then asks until it is granted: not
// before the time at which that can be.
func (p *pacer) wait(ctx context.Context, place *admission.Place, w *waiter, r request, start time.Time) (*turn, error) {
	timeout := time.NewTimer(r.maxWait - time.Since(start))
	defer timeout.Stop()
	select {
	case <-w.ready:
	case <-place.Context().Done():
		return nil, p.ended(ctx, r, context.Cause(place.Context()))
	case <-timeout.C:
		return nil, p.late(r)
	}
	d := p.forecast(r)
	for n := 1; ; n++ {
		if d == 0 {
			t, v := p.ask(ctx, r, n)
			if t != nil {
				return t, nil
			}
			if err := p.verdict(ctx, v, r, r.maxWait-time.Since(start)); err != nil {
				return nil, err
			}
			d = pauseAfter(v)
		}
		p.refused(w)
		left := r.maxWait - time.Since(start)
		if left <= 0 {
			return nil, p.late(r)
		}
		if err := p.pause(place, min(d, left)); err != nil {
			return nil, p.ended(ctx, r, err)
		}
		d = 0
	}
}

// forecast is how long r cannot be granted by what was told last, at most the
// horizon: no need to ask before. 0: it may be granted. Of slots only a verdict
// tells.
func (p *pacer) forecast(r request) time.Duration {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paced == nil {
		return 0
	}
	d := max(p.levels.wait(p.paced, float64(r.tokens), now), p.paused.Sub(now), 0)
	return min((d + time.Millisecond - 1).Truncate(time.Millisecond), horizon)
}

// refused notes that w cannot be granted yet.
func (p *pacer) refused(w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue.refuse(w)
}

// pause waits for d, for something freed here, for news, or for the end of the
// wait, whose cause it returns.
func (p *pacer) pause(place *admission.Place, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-p.freed:
		return nil
	case <-place.News():
		return nil
	case <-place.Context().Done():
		return context.Cause(place.Context())
	}
}

// pauseAfter is how long the front waits after a verdict.
func pauseAfter(v budget.Verdict) time.Duration {
	if v.Outcome == budget.NoSlot || v.Wait <= 0 {
		return slotPoll
	}
	return max(time.Millisecond, min(v.Wait, horizon))
}

// need is what r takes. mu is held.
func (p *pacer) need(r request) need {
	f := p.throttles.factor(r.model, time.Now())
	n := need{calls: 1 / f}
	if p.paced.tokens.n > 0 {
		n.tokens = p.paced.charge(float64(r.tokens)) / f
	}
	n.service = p.duration(n).Seconds()
	return n
}

// duration is how long the limits' rates take to give n. mu is held.
func (p *pacer) duration(n need) time.Duration {
	var minutes float64
	if r := p.paced.calls.perMinute; r > 0 {
		minutes = n.calls / r
	}
	if r := p.paced.tokens.perMinute; r > 0 {
		minutes = max(minutes, n.tokens/r)
	}
	if minutes == 0 {
		minutes = n.calls / 60e3 // concurrency alone: every call is alike
	}
	return time.Duration(minutes * float64(time.Minute))
}

// verdict is the refusal of r, which may wait no longer than left, or nil if it
// may wait on.
func (p *pacer) verdict(ctx context.Context, v budget.Verdict, r request, left time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	switch v.Outcome {
	case budget.Exceeded, budget.NoSlot, budget.HeldBack:
		if v.Wait <= left && left > 0 {
			return nil
		}
	case budget.Unavailable:
		return &fault.Error{Code: fault.LimiterUnavailable, Wait: time.Second,
			Message: "The gateway's limiter cannot be asked at the moment. Try again shortly."}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.full(r, v.Wait)
}

// set puts new limits in force for those who ask from now on.
func (p *pacer) set(limits *paced) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paced = limits
	p.levels = levels{}
}
