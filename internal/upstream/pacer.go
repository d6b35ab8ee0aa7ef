package upstream

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

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
	// maxWaiters bounds a queue.
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

	mu       sync.Mutex
	paced    *paced // nil: no limits
	queue    fairQueue
	sent     *spans // of tokens; nil until the first
	throttle throttle
	paused   time.Time     // nothing is granted before
	readyAt  time.Time     // when the front expects its turn, as last told
	levels   levels        // as last told
	freed    chan struct{} // a settlement may have made room for the front
}

// request is what one try asks of a pacer.
type request struct {
	id     string // unique to this try
	team   string
	weight int
	tokens tokens.Count // as counted at arrival
	// maxWait bounds the wait. ≥ 0
	maxWait time.Duration
}

// turn is a try's reservation. A nil turn reserved nothing.
type turn struct {
	pacer  *pacer
	id     string
	lines  []budget.Line
	tokens tokens.Count // as counted at arrival
	scale  float64      // limit units per token
	step   int64        // in the pacer's spans
	once   sync.Once
}

func newPacer(l budget.Limiter, p *paced) *pacer {
	return &pacer{limiter: l, paced: p, freed: make(chan struct{}, 1)}
}

// take waits for a turn. It returns a nil turn at once if there are no limits,
// else ctx's error, or a *fault.Error of UpstreamCapacity as soon as the wait
// is known to be longer than r.maxWait.
func (p *pacer) take(ctx context.Context, r request) (*turn, error) {
	start := time.Now()
	p.mu.Lock()
	if p.paced == nil {
		p.mu.Unlock()
		return nil, nil
	}
	if p.queue.n == 0 {
		p.mu.Unlock()
		t, v := p.ask(ctx, r, 0)
		if t != nil {
			return t, nil
		}
		if err := p.verdict(ctx, v, r.maxWait); err != nil {
			return nil, err
		}
		p.mu.Lock()
	}
	w, err := p.join(r)
	p.mu.Unlock()
	if err != nil {
		return nil, err
	}
	t, err := p.wait(ctx, w, r, start)
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
		if known > r.maxWait || p.queue.n >= maxWaiters {
			return nil, p.full(known, nil)
		}
	}
	return p.queue.push(r.team, r.weight, n), nil
}

// wait waits until w is at the front, and then asks until it is granted: not
// before the time at which that can be.
func (p *pacer) wait(ctx context.Context, w *waiter, r request, start time.Time) (*turn, error) {
	timeout := time.NewTimer(r.maxWait - time.Since(start))
	defer timeout.Stop()
	select {
	case <-w.ready:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-timeout.C:
		return nil, p.late()
	}
	d := p.forecast(r)
	for n := 1; ; n++ {
		if d == 0 {
			t, v := p.ask(ctx, r, n)
			if t != nil {
				return t, nil
			}
			if err := p.verdict(ctx, v, r.maxWait-time.Since(start)); err != nil {
				return nil, err
			}
			d = pauseAfter(v)
		}
		p.refused(w)
		left := r.maxWait - time.Since(start)
		if left <= 0 {
			return nil, p.late()
		}
		if err := p.pause(ctx, min(d, left)); err != nil {
			return nil, err
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

// pause waits for d, for something freed here, or for ctx's end, which is an error.
func (p *pacer) pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-p.freed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pauseAfter is how long the front waits after a verdict.
func pauseAfter(v budget.Verdict) time.Duration {
	if v.Outcome == budget.NoSlot || v.Wait <= 0 {
		return slotPoll
	}
	return max(time.Millisecond, min(v.Wait, horizon))
}

// ask asks the limiter once. It returns a turn, or the verdict that refuses.
func (p *pacer) ask(ctx context.Context, r request, n int) (*turn, budget.Verdict) {
	now := time.Now()
	p.mu.Lock()
	if p.paced == nil { // a reload took the limits away
		p.mu.Unlock()
		return &turn{}, budget.Verdict{Binding: -1}
	}
	if wait := p.paused.Sub(now); wait > 0 {
		p.readyAt = p.paused
		p.mu.Unlock()
		return nil, budget.Verdict{Outcome: budget.Exceeded, Binding: -1, Wait: wait}
	}
	if wait := p.interval(r, now); wait > 0 {
		p.readyAt = now.Add(wait)
		p.mu.Unlock()
		return nil, budget.Verdict{Outcome: budget.Exceeded, Binding: p.paced.index(budget.Tokens), Wait: wait}
	}
	t := p.turn(r, n, now)
	t.step = p.note(float64(r.tokens), now)
	p.mu.Unlock()

	v := p.limiter.Reserve(ctx, budget.Request{ID: t.id, Lines: t.lines, CrashCharge: budget.ChargeFull})

	p.mu.Lock()
	defer p.mu.Unlock()
	p.levels.note(v, now)
	if v.Outcome != budget.Granted {
		p.readyAt = now.Add(v.Wait)
		p.lower(t.step, float64(r.tokens))
		return nil, v
	}
	p.readyAt = now
	return t, v
}

// interval is how long r must wait for the intervals of what this gateway sent.
// mu is held.
func (p *pacer) interval(r request, now time.Time) time.Duration {
	if p.sent == nil || p.paced.tokens.n == 0 {
		return 0
	}
	return p.sent.wait(p.paced, float64(r.tokens), now)
}

// note counts n tokens as sent at now, if tokens are limited. mu is held.
func (p *pacer) note(n float64, now time.Time) int64 {
	if p.paced.tokens.n == 0 {
		return 0
	}
	if p.sent == nil {
		p.sent = &spans{}
	}
	return p.sent.add(now, n)
}

// lower takes n tokens of what was counted at a step back. mu is held.
func (p *pacer) lower(step int64, n float64) {
	if p.sent != nil && n > 0 {
		p.sent.lower(step, n)
	}
}

// turn is the reservation that the n-th ask of r makes. mu is held.
func (p *pacer) turn(r request, n int, now time.Time) *turn {
	f := p.throttle.factor(now)
	t := &turn{pacer: p, id: r.id, tokens: r.tokens, scale: 1, lines: make([]budget.Line, 0, len(p.paced.lines))}
	if n > 0 {
		t.id += "." + strconv.Itoa(n)
	}
	for _, l := range p.paced.lines {
		line := budget.Line{Limit: l, Amount: 1}
		switch l.Unit {
		case budget.Requests:
			line.Amount = int64(milli / f)
		case budget.Tokens:
			cost := p.paced.charge(float64(r.tokens)) / f
			line.Amount = int64(cost)
			if r.tokens > 0 {
				t.scale = cost / float64(r.tokens)
			}
		}
		t.lines = append(t.lines, line)
	}
	return t
}

// need is what r takes, without the throttle. mu is held.
func (p *pacer) need(r request) need {
	n := need{calls: 1}
	if p.paced.tokens.n > 0 {
		n.tokens = p.paced.charge(float64(r.tokens))
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
	return time.Duration(minutes / p.throttle.factor(time.Now()) * float64(time.Minute))
}

// verdict is the refusal of a call that may wait no longer than left, or nil if
// it may wait on.
func (p *pacer) verdict(ctx context.Context, v budget.Verdict, left time.Duration) error {
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
	return p.full(v.Wait, &v)
}

// late is the refusal of a call whose time has run out in the queue.
func (p *pacer) late() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.full(max(0, time.Until(p.readyAt)), nil)
}

// full is the refusal of a call that would have to wait for d. mu is held.
func (p *pacer) full(d time.Duration, v *budget.Verdict) error {
	d = max(d, slotPoll)
	if p.paced == nil {
		return &fault.Error{Code: fault.UpstreamCapacity, Wait: d, Message: "The provider has no capacity left at the moment."}
	}
	line := 0
	if v != nil && v.Binding >= 0 && v.Binding < len(p.paced.lines) {
		line = v.Binding
	}
	l := p.paced.lines[line]
	f := &fault.Limit{Scope: string(l.Scope), Owner: l.Owner, Name: l.Name, Unit: string(l.Unit), By: l.By()}
	switch l.Unit {
	case budget.Requests:
		f.Amount, f.Per, f.Requested = p.paced.limits.RequestsPerMinute, string(budget.Minute), 1
	case budget.Tokens:
		f.Amount, f.Per = p.paced.limits.TokensPerMinute, string(budget.Minute)
	case budget.Concurrency:
		f.Amount, f.Requested = p.paced.limits.Concurrency, 1
	}
	return &fault.Error{Code: fault.UpstreamCapacity, Wait: d, Limit: f, Message: fmt.Sprintf(
		"The capacity of provider %q is taken: its limit is %d %s%s, and this request's turn would not come in time. Try again in %s.",
		l.Owner, f.Amount, f.Unit, per(f.Per), d.Round(time.Millisecond))}
}

func per(period string) string {
	if period == "" {
		return " at a time"
	}
	return " per " + period
}

// hold grants nothing for d, on all gateways, and lowers this one's rate if the
// refused try was sent after the last time that it was lowered. It reports
// whether calls are held back now.
func (p *pacer) hold(d time.Duration, sent time.Time) bool {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paced == nil {
		return false
	}
	p.throttle.cut(now, sent)
	if d <= 0 {
		return false
	}
	if until := now.Add(d); until.After(p.paused) {
		p.paused = until
	}
	for _, l := range p.paced.lines {
		if l.Algorithm == budget.Pacing {
			p.limiter.Correct(budget.Correction{Line: budget.Line{Limit: l}, AtMost: -1, Pause: d})
			break
		}
	}
	return true
}

// correct lowers the level of unit's limit to what the provider says is left.
// The store is only asked where that can matter.
func (p *pacer) correct(unit budget.Unit, remaining int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paced == nil {
		return
	}
	for _, l := range p.paced.lines {
		if l.Unit != unit || l.Algorithm != budget.Pacing {
			continue
		}
		if unit == budget.Requests {
			remaining = min(remaining, l.Burst) * milli
		}
		if remaining < l.Burst {
			p.limiter.Correct(budget.Correction{Line: budget.Line{Limit: l}, AtMost: max(0, remaining)})
		}
	}
}

// outlook is how a call of n tokens that comes now stands, as far as that is
// known: how much of a full burst is free, 0 to 1, or how long it would wait.
func (p *pacer) outlook(n tokens.Count, now time.Time) (headroom float64, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paced == nil {
		return 1, 0
	}
	headroom, wait = p.levels.outlook(p.paced, float64(n), now)
	wait = max(wait, p.paused.Sub(now), p.interval(request{tokens: n}, now))
	if p.queue.n > 0 {
		wait = max(1, wait, p.readyAt.Sub(now)) + p.duration(p.queue.sum())
	}
	if wait > 0 {
		return 0, wait
	}
	return headroom, 0
}

// set puts new limits in force for those who ask from now on.
func (p *pacer) set(limits *paced) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paced = limits
	p.levels = levels{}
}

// settle ends t, charging calls (0 or 1) and n tokens. Only the first end counts.
func (t *turn) settle(calls int64, n tokens.Count) {
	if t == nil || len(t.lines) == 0 {
		return
	}
	t.once.Do(func() {
		used := make([]int64, len(t.lines))
		for i, l := range t.lines {
			switch l.Limit.Unit {
			case budget.Requests:
				used[i] = calls * l.Amount
			case budget.Tokens:
				used[i] = int64(min(float64(n)*t.scale, float64(tokens.MaxCount)))
			}
		}
		t.pacer.limiter.Settle(t.id, used)
		t.pacer.returned(t, n, used)
	})
}

// counted is the tokens that t was taken for.
func (t *turn) counted() tokens.Count {
	if t == nil {
		return 0
	}
	return t.tokens
}

// returned notes what settling t gave back of the n tokens it was counted for.
func (p *pacer) returned(t *turn, n tokens.Count, used []int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lower(t.step, float64(t.tokens-n))
	gave := false
	for i, l := range t.lines {
		p.levels.give(i, l.Amount-used[i])
		gave = gave || l.Amount > used[i]
	}
	if !gave || p.queue.n == 0 {
		return
	}
	select {
	case p.freed <- struct{}{}:
	default:
	}
}

// full ends t, charging what was reserved.
func (t *turn) full() {
	if t != nil {
		t.settle(1, t.tokens)
	}
}
