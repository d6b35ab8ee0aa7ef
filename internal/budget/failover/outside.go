package failover

import (
	"context"
	"fmt"
	"time"

	"llmgw/internal/budget"
)

// A reservation of the epoch budget.Outside belongs to its caller, who may come
// back to any gateway. So none keeps a record of it between two calls: whoever
// is asked adopts it for the moment.

// Adopt returns the reservation that the store granted for r, and for more after
// it, here or at another gateway. It asks nobody. A reservation that has ended
// meanwhile is as if it were settled twice.
func (l *Limiter) Adopt(r budget.Request, more ...budget.Request) *budget.Reservation {
	held := new(budget.Reservation)
	held.Open(l, adopted{l, r}, r)
	for _, part := range more {
		next := new(budget.Reservation)
		next.Open(l, adopted{l, part}, part)
		held.Join(next)
	}
	return held
}

// adopted is the Holder of a reservation that belongs to no gateway.
type adopted struct {
	limiter *Limiter
	request budget.Request
}

// Settle implements budget.Holder: as of any other, the end reaches the store at
// once or as soon as it is back.
func (a adopted) Settle(used []int64) {
	rec := &record{epoch: budget.Outside, charged: full(len(a.request.Lines))}
	a.limiter.enter(rec, &a.request, false).Settle(used)
}

// Sent and Report do nothing: see Progress.
func (a adopted) Sent([]int64)   {}
func (a adopted) Report([]int64) {}

// Return gives back what each line's counter has used, by the line's amount. It
// blocks until ctx ends at most.
func (l *Limiter) Return(ctx context.Context, lines []budget.Line) error {
	if !l.Up() {
		return errAway
	}
	all := make([]budget.Correction, len(lines))
	for i, line := range lines {
		all[i] = budget.Correction{Line: line, Return: line.Amount}
	}
	start := time.Now()
	err := l.store.Correct(ctx, all)
	l.observer.StoreCall("correct", time.Since(start), err)
	if err != nil {
		return fmt.Errorf("give back to %d counters: %w", len(lines), err)
	}
	return nil
}

// Progress tells the store at once what open reservations have used so far, and
// how long they live. It blocks until ctx ends at most.
func (l *Limiter) Progress(ctx context.Context, p []budget.Progress) error {
	if !l.Up() {
		return errAway
	}
	start := time.Now()
	err := l.store.Report(ctx, p)
	l.observer.StoreCall("report", time.Since(start), err)
	if err != nil {
		return fmt.Errorf("report %d reservations: %w", len(p), err)
	}
	return nil
}
