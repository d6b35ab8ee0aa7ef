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
	limits   map[*budget.Limit]*rules
	prune    int // size of limits at which those not used lately are forgotten
	counters map[key]*counter
	all      []*counter // for the sweep
	sweep    int
	records  map[string]*record
	ended    []*record // tombstones, oldest first
	late     []*record // those of reclaimed records, oldest first
	free     []*record
	epochs   map[budget.Epoch]*epoch
}

var _ budget.Store = (*Store)(nil)

// key names a counter: budget.KeyPrefix and KeyValue.
type key struct{ prefix, value string }

// rules are a limit as its counters need it.
type rules struct {
	budget.Rules
	limit     *budget.Limit
	prefix    string
	bounds    budget.Bounds
	candidate *rules
	only      *counter // of the empty value
	used      int64    // ms
}

type counter struct {
	budget.Counter
	key     key
	pending int64 // asked by earlier lines of the request being judged
	index   int   // in all; -1: dropped
}

// New makes an empty store that reads its time from now; nil is time.Now.
func New(now func() time.Time) *Store {
	if now == nil {
		now = time.Now
	}
	return &Store{
		now:      now,
		limits:   make(map[*budget.Limit]*rules),
		prune:    1024,
		counters: make(map[key]*counter),
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
		r := s.rules(line.Limit, now)
		states[i] = s.peek(r, line, now)
		if r.candidate != nil {
			states[i].Candidate = s.peek(r.candidate, line, now).Outcome
		}
	}
	return states, time.UnixMilli(now), nil
}

// peek is the counter as it stands now, without making or moving one.
func (s *Store) peek(r *rules, line budget.Line, now int64) budget.LineState {
	var c budget.Counter
	if known := s.counters[key{r.prefix, budget.KeyValue(line.Value)}]; known != nil {
		c = known.Counter
		c.Log = slices.Clone(c.Log)
		c.Advance(r.Rules, r.bounds, now)
	} else {
		c = budget.New(r.Rules, r.bounds, now)
	}
	out, wait := c.Judge(min(max(line.Amount, 0), budget.MaxExact), now)
	return c.State(out, wait, now)
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
		c := s.counter(s.rules(k.Line.Limit, now), k.Line.Value, now)
		c.Correct(k.AtMost, budget.CeilMS(k.Pause), now)
	}
	return nil
}

func (s *Store) nowMS() int64 { return s.now().UnixMilli() }

// rules finds or makes the rules of l, with the bounds of the period now.
func (s *Store) rules(l *budget.Limit, now int64) *rules {
	r := s.limits[l]
	if r == nil {
		r = s.learn(l, now)
	}
	r.refresh(now)
	return r
}

func (r *rules) refresh(now int64) {
	r.used = now
	if r.limit.Algorithm != budget.CalendarUsage || now >= r.bounds.Start && now < r.bounds.End {
		return
	}
	r.bounds = budget.BoundsOf(r.limit, now)
	if r.candidate != nil {
		r.candidate.bounds = r.bounds
	}
}

// learn makes the rules of a limit seen for the first time. A reload brings new
// limits, so those that went out of use are forgotten from time to time.
func (s *Store) learn(l *budget.Limit, now int64) *rules {
	if len(s.limits) >= s.prune {
		for l, r := range s.limits {
			if r.used < now-time.Hour.Milliseconds() {
				delete(s.limits, l)
			}
		}
		s.prune = max(1024, 2*len(s.limits))
	}
	r := &rules{Rules: budget.RulesOf(l), limit: l, prefix: budget.KeyPrefix(l), bounds: budget.BoundsOf(l, now)}
	if c := budget.CandidateOf(l); c != nil {
		r.candidate = &rules{Rules: budget.RulesOf(c), limit: c, prefix: budget.KeyPrefix(c), bounds: r.bounds}
	}
	s.limits[l] = r
	return r
}

// counter finds or makes a counter, advanced to now.
func (s *Store) counter(r *rules, value string, now int64) *counter {
	if value == "" && r.only != nil && r.only.index >= 0 {
		r.only.Advance(r.Rules, r.bounds, now)
		return r.only
	}
	k := key{r.prefix, budget.KeyValue(value)}
	c := s.counters[k]
	if c == nil {
		c = &counter{Counter: budget.New(r.Rules, r.bounds, now), key: k, index: len(s.all)}
		s.counters[k] = c
		s.all = append(s.all, c)
	} else {
		c.Advance(r.Rules, r.bounds, now)
	}
	if value == "" {
		r.only = c
	}
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
		if c.Holds > 0 || needed(c.Counter, now) {
			s.sweep++
			continue
		}
		last := s.all[len(s.all)-1]
		s.all[c.index], last.index = last, c.index
		s.all = s.all[:len(s.all)-1]
		c.index = -1
		delete(s.counters, c.key)
	}
}

// needed tells whether a new counter would differ from c, which goes its own way.
func needed(c budget.Counter, now int64) bool {
	c.Log = slices.Clone(c.Log)
	c.Advance(budget.Rules{}, budget.Bounds{}, now)
	return c.Life(now) > 0
}
