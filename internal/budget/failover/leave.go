package failover

import (
	"context"
	"fmt"

	"llmgw/internal/budget"
	"llmgw/internal/parting"
)

// leaver is a Store that can be told without an answer.
type leaver interface {
	// Leave sends posts and the ends after them, and waits for no answer.
	Leave(ctx context.Context, posts []budget.Request, ends []budget.Settlement) error
}

// leave sends all that the store has not acknowledged once more, and waits for no
// answer: a store that is frozen, and not gone, takes it when it goes on. By their
// ids it is taken once, whatever else comes through.
func (l *Limiter) leave(ctx context.Context) error {
	store, ok := l.store.(leaver)
	if !ok {
		return nil
	}
	epoch := l.keeper.Epoch()
	l.takeBacklog()
	posts, ends := l.backlog.parting(epoch)
	l.records.each(func(r *record) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.ended || r.posted == unknown { // the backlog has what the latter used
			return
		}
		if r.posted == tried {
			request := r.forced()
			request.Epoch = epoch
			posts = append(posts, request)
		}
		ends = append(ends, r.settlement())
	})
	ends = append(ends, l.queue.cancellations()...)
	ctx, cancel := parting.Context(ctx)
	defer cancel()
	if err := store.Leave(ctx, posts, ends); err != nil {
		return fmt.Errorf("close the limiter: they are left to be reclaimed: %w", err)
	}
	l.log.Warn("the limit store does not answer at the end: it was sent what it has not acknowledged", "posts", len(posts), "settlements", len(ends))
	return nil
}
