package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"llmgw/internal/budget"
)

// Settle implements budget.Store. If ctx ends it returns, and the settlements
// go on.
func (s *Store) Settle(ctx context.Context, settlements []budget.Settlement) ([]budget.Settled, error) {
	type answer struct {
		i      int
		result budget.Settled
		err    error
	}
	answers := make(chan answer, len(settlements)) // nobody blocks on it after ctx
	for i := range settlements {
		s.enqueue(ctx, settlements[i], func(result budget.Settled, err error) { answers <- answer{i, result, err} })
	}
	results := make([]budget.Settled, len(settlements))
	var first error
	for range settlements {
		select {
		case a := <-answers:
			results[a.i] = a.result
			if first == nil {
				first = a.err
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("settle %d reservations: %w", len(settlements), context.Cause(ctx))
		}
	}
	if first != nil {
		return nil, first
	}
	return results, nil
}

// Enqueue implements budget.Store. The calls behind s wait for done. After Close it gets an error.
func (s *Store) Enqueue(st budget.Settlement, done func(budget.Settled, error)) {
	s.enqueue(context.Background(), st, done)
}

func (s *Store) enqueue(ctx context.Context, st budget.Settlement, done func(budget.Settled, error)) {
	switch {
	case st.ID == "" || len(st.ID) > maxText || len(st.Used) > 100:
		go done(budget.Settled{}, fmt.Errorf("settle %s: %w", st.ID, errText))
		return
	case !s.cluster:
		s.batcher(s.prefix).settle(&settling{id: st.ID, body: bodyOf(st.Lines, st.Used), done: done})
		return
	case len(st.Lines) == 0 && len(st.Used) == 0:
		if !s.begin() {
			go done(budget.Settled{}, errClosed)
			return
		}
		go func() {
			defer s.calls.Done()
			s.endEverywhere(ctx, st, done)
		}()
		return
	}
	bases, used := s.spread(st.Lines, st.Used)
	s.toAll(bases, func(base string) *settling { return &settling{id: st.ID, body: usedBody(used[base])} }, done)
}

func bodyOf(lines []budget.Line, used []int64) []byte {
	if len(lines) == 0 && len(used) == 0 {
		return crashBody()
	}
	return usedBody(used)
}

// spread puts what was used of each line where the line's counter is.
func (s *Store) spread(lines []budget.Line, used []int64) (bases []string, byBase map[string][]int64) {
	byBase = make(map[string][]int64)
	for i := range lines {
		base := s.base(tagOf(lines[i].Limit))
		if _, ok := byBase[base]; !ok {
			bases = append(bases, base)
			byBase[base] = nil
		}
		if i < len(used) {
			byBase[base] = append(byBase[base], used[i])
		}
	}
	if len(bases) == 0 {
		bases = []string{s.registry()}
	}
	return bases, byBase
}

// toAll settles a reservation on several bases and tells the sum of it.
func (s *Store) toAll(bases []string, settlement func(base string) *settling, done func(budget.Settled, error)) {
	var mu sync.Mutex
	var sum budget.Settled
	var errs error
	left := len(bases)
	for _, base := range bases {
		w := settlement(base)
		w.done = func(result budget.Settled, err error) {
			mu.Lock()
			defer mu.Unlock()
			sum.Known = sum.Known || result.Known
			sum.Unbooked += result.Unbooked
			errs = errors.Join(errs, err)
			if left--; left == 0 {
				done(sum, errs)
			}
		}
		s.batcher(base).settle(w)
	}
}

// endEverywhere ends a reservation by its crash charge on every base that its
// epoch has used: nobody knows its lines any more.
func (s *Store) endEverywhere(ctx context.Context, st budget.Settlement, done func(budget.Settled, error)) {
	bases, err := s.bases(ctx, st.Epoch)
	if err != nil {
		done(budget.Settled{}, fmt.Errorf("settle %s: %w", st.ID, err))
		return
	}
	s.toAll(bases, func(string) *settling { return &settling{id: st.ID, body: crashBody()} }, done)
}

// Report implements budget.Store.
func (s *Store) Report(ctx context.Context, progress []budget.Progress) error {
	batches := make(map[string]*reports)
	add := func(base string, p *budget.Progress, used, keep, crash []int64) error {
		b := batches[base]
		if b == nil {
			b = &reports{base: base}
			batches[base] = b
		}
		b.keys = append(b.keys, recordKey(base, p.ID))
		b.blob = appendInt(appendInts(appendInts(appendInts(b.blob, used), keep), crash), budget.CeilMS(p.Lifetime))
		if len(b.keys) < maxSettles {
			return nil
		}
		return s.send(ctx, b)
	}
	for i := range progress {
		p := &progress[i]
		if len(p.ID) > maxText || len(p.Used) > 100 || len(p.Keep) > 100 || len(p.Crash) > 100 {
			return fmt.Errorf("report %s: %w", p.ID, errText)
		}
		if !s.cluster {
			if err := add(s.prefix, p, p.Used, p.Keep, p.Crash); err != nil {
				return err
			}
			continue
		}
		bases, used := s.spread(p.Lines, p.Used)
		_, keep := s.spread(p.Lines, p.Keep)
		_, crash := s.spread(p.Lines, p.Crash)
		for _, base := range bases {
			if err := add(base, p, used[base], keep[base], crash[base]); err != nil {
				return err
			}
		}
	}
	return s.sendAll(ctx, batches)
}

// sendAll makes the last calls of all bases, each whatever comes of the others:
// a node that is away must not keep the news from those that are not.
func (s *Store) sendAll(ctx context.Context, batches map[string]*reports) error {
	if len(batches) == 1 {
		for _, b := range batches {
			return s.send(ctx, b)
		}
	}
	errs := make(chan error, len(batches))
	for _, b := range batches {
		go func() { errs <- s.send(ctx, b) }()
	}
	var all error
	for range batches {
		all = errors.Join(all, <-errs)
	}
	return all
}

// reports are what one call of report.lua tells.
type reports struct {
	base string
	keys []any
	blob []byte
}

// send makes the call, and empties b.
func (s *Store) send(ctx context.Context, b *reports) error {
	if len(b.keys) == 0 {
		return nil
	}
	cmd := s.run(ctx, &s.scripts.report, append([]any{b.base}, b.keys...), []any{s.given(), b.blob})
	if err := cmd.Err(); err != nil {
		return fmt.Errorf("report %d reservations: %w", len(b.keys), err)
	}
	b.keys, b.blob = nil, nil
	return nil
}
