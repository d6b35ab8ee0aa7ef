package memstore

import (
	"context"
	"fmt"
	"time"

	"llmgw/internal/budget"
)

// fencedFor is how long a fenced epoch is remembered.
const fencedFor = 24 * time.Hour

type epoch struct {
	name   budget.Epoch
	beat   int64 // ms: of the last heartbeat; of a fenced epoch: of its fence
	fenced bool
	open   int // records
}

// epoch finds e, or lets it begin.
func (s *Store) epoch(e budget.Epoch, now int64) *epoch {
	known := s.epochs[e]
	if known == nil {
		known = &epoch{name: e, beat: now}
		s.epochs[e] = known
	}
	return known
}

// Heartbeat implements budget.Store.
func (s *Store) Heartbeat(ctx context.Context, e budget.Epoch) (budget.Beat, error) {
	if err := ctx.Err(); err != nil {
		return budget.Beat{}, fmt.Errorf("heartbeat of %s: %w", e, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.nowMS()
	self := s.epoch(e, now)
	if !self.fenced {
		self.beat = now
	}
	beat := budget.Beat{Fenced: self.fenced, At: time.UnixMilli(now)}
	for name, other := range s.epochs {
		if !other.fenced {
			if name != budget.Outside {
				beat.Live++
			}
			continue
		}
		if other.open == 0 && other.beat < now-fencedFor.Milliseconds() {
			delete(s.epochs, name)
		}
	}
	return beat, nil
}

// Reclaim implements budget.Store. It also ends records that outlived their
// lifetime, whoever made them.
func (s *Store) Reclaim(ctx context.Context, silence time.Duration, limit int) (budget.Reclaimed, error) {
	if err := ctx.Err(); err != nil {
		return budget.Reclaimed{}, fmt.Errorf("reclaim: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.nowMS()
	done := budget.Reclaimed{}
	for name, e := range s.epochs {
		if !e.fenced && name != budget.Outside && now-e.beat > silence.Milliseconds() {
			e.fenced, e.beat = true, now
			done.Epochs++
		}
	}
	for _, rec := range s.records {
		if rec.status != open || !rec.epoch.fenced && rec.deadline > now {
			continue
		}
		if done.Records == limit {
			done.More = true
			break
		}
		s.reclaim(rec, now)
		done.Records++
		if budget.Tag(rec.id) != "" {
			done.Ended = append(done.Ended, rec.told())
		}
	}
	return done, nil
}

// Retire implements budget.Store.
func (s *Store) Retire(ctx context.Context, e budget.Epoch) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("retire %s: %w", e, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.nowMS()
	self := s.epoch(e, now)
	self.fenced, self.beat = true, now
	for _, rec := range s.records {
		if rec.status == open && rec.epoch == self {
			s.reclaim(rec, now)
		}
	}
	return nil
}

// OpenIDs implements budget.Store.
func (s *Store) OpenIDs(ctx context.Context, e budget.Epoch) (map[string]time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("list reservations of %s: %w", e, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.nowMS()
	ids := make(map[string]time.Duration)
	for id, rec := range s.records {
		if rec.status == open && rec.epoch.name == e {
			ids[id] = time.Duration(now-rec.created) * time.Millisecond
		}
	}
	return ids, nil
}
