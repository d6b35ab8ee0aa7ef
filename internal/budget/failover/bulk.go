package failover

import (
	"context"
	"time"

	"llmgw/internal/budget"
)

// Bulk is a reservation of the store that its owner divides among requests. It
// is never decided without the store. The Limiter does for it all that it does
// for a request's own: reports, the retried end, the fence.
type Bulk struct{ *record }

// Owner is who divides a Bulk. Its methods must not block, nor call the Limiter.
type Owner interface {
	// Progress returns what the store is to be told of the Bulk now, and whether
	// there is anything. Its ID need not be set.
	Progress() (budget.Progress, bool)
	// Told says that the store has acknowledged p; if not, it is asked again.
	Told(p budget.Progress)
	// Over says that the store has acknowledged the end.
	Over()
}

// ReserveBulk reserves r for owner, or returns nil. It blocks for at most Timeout.
func (l *Limiter) ReserveBulk(ctx context.Context, r budget.Request, owner Owner) (*Bulk, budget.Verdict) {
	if l.closed.Load() || l.breaker.isDown() {
		return nil, budget.Verdict{Outcome: budget.Unavailable}
	}
	if r.CrashCharge == budget.ChargeNone {
		r.CrashCharge = budget.ChargeProgress // what its requests have used is charged whatever their policy
	}
	sent := time.Now()
	v, err := l.ask(ctx, "lease", &r, sent.Add(l.cfg.Timeout))
	if err != nil {
		if !answer(err) {
			l.cancelAttempt(&r)
		}
		return nil, budget.Verdict{Outcome: budget.Unavailable}
	}
	l.learn(r.Lines, v.Lines, sent)
	if v.Outcome != budget.Granted {
		return nil, v
	}
	b := &Bulk{&record{owner: owner}}
	l.granted(b.record, &r, &v)
	return b, v
}

// Epoch is that of the store's record.
func (b *Bulk) Epoch() budget.Epoch { return b.epoch }

// Changed lets the next report ask the owner for its Progress.
func (b *Bulk) Changed() { b.limiter.outbox.list(b.record) }

// Keep says that n of line i are in use here: no more is needed of it.
func (b *Bulk) Keep(i int, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keep(i, n)
}

// Charge charges amounts that were used beyond all reservations: to the store,
// as soon as it can be told, once.
func (l *Limiter) Charge(lines []budget.Line) {
	for _, line := range lines {
		if line.Amount > 0 {
			l.deferCharge(line, line.Amount)
		}
	}
	l.nudge()
}

// Enter counts a request that holds a part of a Bulk; false: there are too many.
func (l *Limiter) Enter() bool {
	if l.closed.Load() || l.Open() >= l.cfg.MaxOpen {
		return false
	}
	l.records.open.Add(1)
	return true
}

// Leave counts its end, with what it used.
func (l *Limiter) Leave(used []int64) {
	l.records.open.Add(-1)
	l.observer.Reservations(result(used), 1)
}

// CrashCharge is for requests that name none.
func (l *Limiter) CrashCharge() budget.CrashCharge { return l.cfg.CrashCharge }

// Epoch is the epoch that new reservations belong to.
func (l *Limiter) Epoch() budget.Epoch { return l.keeper.Epoch() }

// Live is the number of gateways, at least 1.
func (l *Limiter) Live() int { return max(1, l.keeper.Live()) }
