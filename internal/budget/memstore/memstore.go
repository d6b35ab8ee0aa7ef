// Package memstore keeps counters and reservations in this process: for a
// gateway that runs alone, and for tests and simulations, which give it a clock
// of their own.
//
// It is not shared and not durable: a restart begins with full counters.
//
// memstore.go is the Store and its counters, reserve.go and settle.go the life
// of a reservation, epoch.go what is done when a gateway dies.
package memstore

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"llmgw/internal/budget"
)

// Store is a budget.Store in memory. Make it with New.
type Store struct {
	now func() time.Time

	mu       sync.Mutex
	counters map[budget.CounterID]*counter
	all      []*counter // for the sweep
	sweep    int
	records  map[string]*record
	ended    []*record // tombstones, oldest first
	late     []*record // those of reclaimed records, oldest first
	free     []*record
	scratch  budget.Counter // needed works in it
	epochs   map[budget.Epoch]*epoch
}

var _ budget.Store = (*Store)(nil)

type counter struct {
	budget.Counter
	id      budget.CounterID
	pending int64 // asked by earlier lines of the request being judged
	index   int   // in all
}

// New makes an empty store that reads its time from now; nil is time.Now.
func New(now func() time.Time) *Store {
	if now == nil {
		now = time.Now
	}
	return &Store{
		now:      now,
		counters: make(map[budget.CounterID]*counter),
		records:  make(map[string]*record),
		epochs:   make(map[budget.Epoch]*epoch),
	}
}

// Close does nothing. The store stays usable.
func (s *Store) Close() error { return nil }

// Read implements budget.Store.
func (s *Store) Read(ctx context.Context, lines []budget.Line) ([]budget.LineState, time.Time, error) {
	if err := ctx.Err(); err != nil {
		return nil, time.Time{}, fmt.Errorf("read %d counters: %w", len(lines), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.nowMS()
	states := make([]budget.LineState, len(lines))
	for i, line := range lines {
		states[i] = s.peek(line.Limit, line, now)
		if c := budget.CandidateOf(line.Limit); c != nil {
			states[i].Candidate = s.peek(c, line, now).Outcome
		}
	}
	return states, time.UnixMilli(now), nil
}

// peek is l's counter for line as it stands now, without making or moving one.
func (s *Store) peek(l *budget.Limit, line budget.Line, now int64) budget.LineState {
	rules, bounds := budget.RulesOf(l), budget.BoundsOf(l, now)
	var c budget.Counter
	if known := s.counters[budget.CounterOf(l, line.Value)]; known != nil {
		c = known.Counter
		c.Log = slices.Clone(c.Log)
		c.Advance(rules, bounds, now)
	} else {
		c = budget.New(rules, bounds, now)
	}
	out, wait := c.Judge(min(max(line.Amount, 0), budget.MaxExact), now)
	return c.State(l.Period, out, wait, now)
}

// Correct implements budget.Store.
func (s *Store) Correct(ctx context.Context, corrections []budget.Correction) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("correct %d counters: %w", len(corrections), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.nowMS()
	for _, k := range corrections {
		c := s.counter(k.Line.Limit, k.Line.Value, now)
		if k.Anew {
			c.Restart(budget.RulesOf(k.Line.Limit), budget.BoundsOf(k.Line.Limit, now), now)
			continue
		}
		if k.Return > 0 {
			c.Return(min(k.Return, budget.MaxExact), now)
			continue
		}
		c.Correct(k.AtMost, budget.CeilMS(k.Pause), now)
	}
	return nil
}

func (s *Store) nowMS() int64 { return s.now().UnixMilli() }

// counter finds or makes a counter, advanced to now.
func (s *Store) counter(l *budget.Limit, value string, now int64) *counter {
	rules, bounds := budget.RulesOf(l), budget.BoundsOf(l, now)
	id := budget.CounterOf(l, value)
	c := s.counters[id]
	if c == nil {
		c = &counter{Counter: budget.New(rules, bounds, now), id: id, index: len(s.all)}
		s.counters[id] = c
		s.all = append(s.all, c)
		return c
	}
	c.Advance(rules, bounds, now)
	return c
}

// tidy looks at a few counters, more than a request can make, and drops those
// that a new one would equal.
func (s *Store) tidy(lines int, now int64) {
	for range min(2*lines+1, len(s.all)) {
		if s.sweep >= len(s.all) {
			s.sweep = 0
		}
		c := s.all[s.sweep]
		if c.Holds > 0 || s.needed(&c.Counter, now) {
			s.sweep++
			continue
		}
		last := s.all[len(s.all)-1]
		s.all[c.index], last.index = last, c.index
		s.all = s.all[:len(s.all)-1]
		delete(s.counters, c.id)
	}
}

// needed reports whether a new counter would differ from c at now. c stays as it is.
func (s *Store) needed(c *budget.Counter, now int64) bool {
	at, log := &s.scratch, s.scratch.Log[:0]
	log = append(log, c.Log...)
	*at = *c
	at.Log = log
	at.Advance(budget.Rules{}, budget.Bounds{}, now)
	return at.Life(now) > 0
}
