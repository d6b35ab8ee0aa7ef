package failover

import (
	"context"
	"errors"
	"time"

	"llmgw/internal/budget"
)

// Reserve fills in r's Epoch, NotAfter and, if it has none, CrashCharge, and
// decides it: by the store, or without it if that does not answer within
// Timeout. It keeps r.Lines, which must not be changed any more.
//
// A request with an amount that cannot be counted or an ID that is in use with
// other amounts, one beyond MaxOpen or that this process has no time for, and
// every request after Close, is Unavailable.
func (l *Limiter) Reserve(ctx context.Context, r budget.Request) (*budget.Reservation, budget.Verdict) {
	if l.closed.Load() || !r.Valid() || l.Open() >= l.cfg.MaxOpen {
		return nil, l.refused(&r)
	}
	if r.CrashCharge == "" {
		r.CrashCharge = l.cfg.CrashCharge
	}
	if l.breaker.isDown() {
		return l.decide(r)
	}
	v, err := l.ask(ctx, &r)
	switch {
	case err == nil:
		l.learn(r.Lines, v.Lines)
		if v.Outcome == budget.Granted {
			return l.granted(&r, &v), v
		}
		return nil, v
	case errors.Is(err, budget.ErrConflict):
		l.log.Warn("a reservation's id is in use with other amounts", "id", r.ID)
		return nil, l.refused(&r)
	case errors.Is(err, budget.ErrTooLate):
		// It came in time, so the store's clock is not what it was.
		l.keeper.Beat()
	case errors.Is(err, budget.ErrOverloaded):
		l.cancelAttempt(&r)
		return nil, l.refused(&r)
	case !answer(err):
		l.cancelAttempt(&r)
	}
	return l.decide(r)
}

// refused is the verdict on what cannot be asked: its first line binds, as a
// line must.
func (l *Limiter) refused(r *budget.Request) budget.Verdict {
	v := budget.Verdict{
		Outcome: budget.Unavailable, Binding: min(0, len(r.Lines)-1), Wait: closedWait, At: l.now(),
		Lines: make([]budget.LineState, len(r.Lines)),
	}
	for i, line := range r.Lines {
		v.Lines[i] = budget.LineState{Outcome: budget.Unavailable, Capacity: line.Limit.Capacity(), Wait: closedWait, Reset: closedWait}
	}
	return v
}

// ask asks the store within one deadline: once, or twice if this process turns
// out to be fenced.
func (l *Limiter) ask(ctx context.Context, r *budget.Request) (budget.Verdict, error) {
	ctx, cancel := l.deadline(ctx)
	defer cancel()
	r.Epoch = l.keeper.Epoch()
	v, err := l.try(ctx, r)
	if errors.Is(err, budget.ErrFenced) && ctx.Err() == nil {
		r.Epoch = l.keeper.Renew(r.Epoch)
		v, err = l.try(ctx, r)
	}
	return v, err
}

// try makes one call.
func (l *Limiter) try(ctx context.Context, r *budget.Request) (budget.Verdict, error) {
	if now := l.keeper.Now(); !now.IsZero() && l.cfg.Timeout > 0 {
		r.NotAfter = now.Add(l.cfg.Timeout + l.cfg.Slack)
	}
	start := time.Now()
	v, err := l.store.Reserve(ctx, *r)
	if v.Leased {
		return v, nil // no call was made: it tells nothing of the store
	}
	end := time.Now()
	if l.judge("reserve", end.Sub(start), err) && err == nil {
		l.keeper.Observe(v.At, start, end)
	}
	return v, err
}

// learn remembers the levels for shares.
func (l *Limiter) learn(lines []budget.Line, states []budget.LineState) {
	if l.cfg.Timeout <= 0 || len(states) != len(lines) {
		return
	}
	now := time.Now()
	for i := range lines {
		l.counters.see(lines[i], states[i], now)
	}
}

// granted enters what the store granted.
func (l *Limiter) granted(r *budget.Request, v *budget.Verdict) *budget.Reservation {
	rec := &record{epoch: r.Epoch, charged: charged(v.Lines)}
	if l.cfg.Timeout > 0 {
		for i := range r.Lines {
			if r.Lines[i].Limit.Unit == budget.Concurrency && rec.charged&bit(i) != 0 {
				l.counters.hold(r.Lines[i])
				rec.slots |= bit(i)
			}
		}
	}
	return l.enter(rec, r)
}

// enter makes rec the open record of r.
func (l *Limiter) enter(rec *record, r *budget.Request) *budget.Reservation {
	rec.limiter, rec.id, rec.lines, rec.crash, rec.lifetime = l, r.ID, r.Lines, r.CrashCharge, r.Lifetime
	rec.held.Open(l, rec, *r)
	l.records.put(rec)
	return &rec.held
}
