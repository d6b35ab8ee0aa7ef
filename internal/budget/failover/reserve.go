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
	return l.ReserveBy(ctx, r, time.Now().Add(l.cfg.Timeout))
}

// Deadline is until when a request that comes now waits for its decision; zero
// if the store is in this process.
func (l *Limiter) Deadline() time.Time { return time.Now().Add(l.cfg.Timeout) }

// ReserveBy is Reserve by a deadline.
func (l *Limiter) ReserveBy(ctx context.Context, r budget.Request, deadline time.Time) (*budget.Reservation, budget.Verdict) {
	if l.closed.Load() || !r.Valid() || l.Open() >= l.cfg.MaxOpen {
		return nil, l.refused(&r)
	}
	if r.CrashCharge == "" {
		r.CrashCharge = l.cfg.CrashCharge
	}
	if l.breaker.isDown() {
		return l.decide(r)
	}
	if v, again := l.refusedAgain(&r); again {
		return nil, v
	}
	sent := time.Now()
	v, err := l.ask(ctx, "reserve", &r, deadline)
	switch {
	case err == nil:
		l.learn(r.Lines, v.Lines, sent)
		if v.Outcome == budget.Granted {
			return l.granted(new(record), &r, &v), v
		}
		l.remember(&r, &v, sent)
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
func (l *Limiter) ask(ctx context.Context, op string, r *budget.Request, deadline time.Time) (budget.Verdict, error) {
	ctx, cancel := l.deadline(ctx, deadline)
	defer cancel()
	if r.Epoch != budget.Outside {
		r.Epoch = l.keeper.Epoch()
	}
	v, err := l.try(ctx, op, r)
	if errors.Is(err, budget.ErrFenced) && r.Epoch != budget.Outside && ctx.Err() == nil {
		r.Epoch = l.keeper.Renew(r.Epoch)
		v, err = l.try(ctx, op, r)
	}
	return v, err
}

// try makes one call.
func (l *Limiter) try(ctx context.Context, op string, r *budget.Request) (budget.Verdict, error) {
	if now := l.keeper.Now(); !now.IsZero() && l.cfg.Timeout > 0 {
		r.NotAfter = now.Add(l.cfg.Timeout + l.cfg.Slack)
	}
	start := time.Now()
	v, err := l.store.Reserve(ctx, *r)
	end := time.Now()
	if l.judge(op, end.Sub(start), err) && err == nil {
		l.keeper.Observe(v.At, start, end)
	}
	return v, err
}

// learn remembers the levels for shares. The store was asked at sent.
func (l *Limiter) learn(lines []budget.Line, states []budget.LineState, sent time.Time) {
	if l.cfg.Timeout <= 0 || len(states) != len(lines) {
		return
	}
	for i := range lines {
		l.counters.see(lines[i], states[i], sent)
	}
}

// remember keeps what the store has refused of r.
func (l *Limiter) remember(r *budget.Request, v *budget.Verdict, sent time.Time) {
	if l.cfg.Timeout <= 0 || len(v.Lines) != len(r.Lines) {
		return
	}
	for i := range r.Lines {
		switch v.Lines[i].Outcome {
		case budget.Exceeded, budget.HeldBack, budget.Spent, budget.NoSlot, budget.NeverFits:
			l.counters.remember(r.Lines[i], v.Lines[i], sent)
		}
	}
}

// granted makes rec what the store granted.
func (l *Limiter) granted(rec *record, r *budget.Request, v *budget.Verdict) *budget.Reservation {
	if r.Epoch == budget.Outside {
		return l.Adopt(*r)
	}
	rec.epoch, rec.charged = r.Epoch, charged(v.Lines)
	return l.enter(rec, r, l.cfg.Timeout > 0)
}

// enter makes rec the open record of r, and counts what it holds here if asked to.
func (l *Limiter) enter(rec *record, r *budget.Request, counted bool) *budget.Reservation {
	rec.limiter = l
	rec.held.Open(l, rec, *r)
	if counted {
		rec.holds()
	}
	l.records.put(rec)
	return &rec.held
}
