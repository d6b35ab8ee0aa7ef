package failover

import (
	"context"
	"sync"
	"time"

	"llmgw/internal/budget"
)

// byID is a Limiter whose reservations are named by their ids.
type byID struct {
	*Limiter
	mu   sync.Mutex
	held map[string]*budget.Reservation
}

func (b *byID) Reserve(ctx context.Context, r budget.Request) budget.Verdict {
	held, v := b.Limiter.Reserve(ctx, r)
	if held == nil {
		return v
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held == nil {
		b.held = map[string]*budget.Reservation{}
	}
	b.held[r.ID] = held
	return v
}

// Has reports whether the reservation that the store knows as id is known here.
func (b *byID) Has(id string) bool {
	ids := map[string]time.Duration{id: 0}
	b.Strangers(ids)
	return len(ids) == 0
}

// of is the latest reservation with that id, or nil.
func (b *byID) of(id string) *budget.Reservation {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held[id]
}

func (b *byID) Settle(id string, used []int64) { b.of(id).Settle(used) }
func (b *byID) Report(id string, used []int64) { b.of(id).Report(used) }
func (b *byID) Sent(id string, used []int64)   { b.of(id).Sent(used) }
