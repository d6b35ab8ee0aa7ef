package ledger

import (
	"context"

	"llmgw/internal/parting"
	"llmgw/internal/shared"
)

// leaver is a Store that can be told without an answer.
type leaver interface {
	Leave(ctx context.Context, additions []shared.Addition) error
}

// leave sends all that is not stored once more, and waits for no answer: a store
// that is frozen, and not gone, adds it when it goes on. By its batch's number it
// is added once, whatever else comes through. A flush may be under way.
func (l *Ledger) leave(ctx context.Context) error {
	store, ok := l.config.Store.(leaver)
	if !ok {
		return nil
	}
	l.cut()
	l.mu.Lock()
	batches := l.batches
	l.mu.Unlock()
	additions := make([]shared.Addition, len(batches))
	for i, b := range batches {
		additions[i] = shared.Addition{Name: b.name, Writer: l.config.Writer, Batch: b.number, Deltas: b.deltas, TTL: b.ttl}
	}
	ctx, cancel := parting.Context(ctx)
	defer cancel()
	return store.Leave(ctx, additions) //nolint:wrapcheck // the caller does
}
