package redisstore

import (
	"context"
	"fmt"
	"time"

	"llmgw/internal/budget"
)

// asked is a counter of a Read or Correct, and where its answer goes.
type asked struct {
	rules     *rules
	key       string
	numbers   []int64
	line      int
	candidate bool
}

// Read implements budget.Store.
func (s *Store) Read(ctx context.Context, lines []budget.Line) ([]budget.LineState, time.Time, error) {
	var all []asked
	for i, l := range lines {
		amount := []int64{min(max(l.Amount, 0), budget.MaxExact)}
		r := s.rulesOf(l.Limit)
		all = append(all, asked{r, r.key(l.Value), amount, i, false})
		if c := r.candidate; c != nil {
			all = append(all, asked{c, c.key(l.Value), amount, i, true})
		}
	}
	states := make([]budget.LineState, len(lines))
	at := s.nowMS()
	err := s.eachBase(ctx, &s.scripts.read, all, func(answer *reader, now int64, part []asked) error {
		at = now
		for _, a := range part {
			st := answer.state(a.rules.limit)
			if a.candidate {
				states[a.line].Candidate = st.Outcome
				continue
			}
			st.Candidate = states[a.line].Candidate
			states[a.line] = st
		}
		return answer.err()
	})
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read %d counters: %w", len(lines), err)
	}
	return states, time.UnixMilli(at), nil
}

// anew is what correct.lua takes for a counter that begins anew, and giveBack for
// one of whose use some is given back.
const (
	anew     = -2
	giveBack = -3
)

// Correct implements budget.Store.
func (s *Store) Correct(ctx context.Context, corrections []budget.Correction) error {
	var all []asked
	for i, c := range corrections {
		r := s.rulesOf(c.Line.Limit)
		numbers := []int64{min(max(c.AtMost, -1), budget.MaxExact), budget.CeilMS(c.Pause)}
		if c.Return > 0 {
			numbers = []int64{giveBack, min(c.Return, budget.MaxExact)}
		}
		if c.Anew {
			numbers = []int64{anew, 0}
		}
		all = append(all, asked{r, r.key(c.Line.Value), numbers, i, false})
	}
	err := s.eachBase(ctx, &s.scripts.correct, all, func(*reader, int64, []asked) error { return nil })
	if err != nil {
		return fmt.Errorf("correct %d counters: %w", len(corrections), err)
	}
	return nil
}

// eachBase runs a script that takes counters, their rules and their numbers,
// on every base that has some, some hundred at a time.
func (s *Store) eachBase(ctx context.Context, p *script, all []asked, read func(answer *reader, now int64, part []asked) error) error {
	const most = 500
	byBase := make(map[string][]asked)
	var bases []string
	for _, a := range all {
		if byBase[a.rules.base] == nil {
			bases = append(bases, a.rules.base)
		}
		byBase[a.rules.base] = append(byBase[a.rules.base], a)
	}
	now := s.nowMS()
	for _, base := range bases {
		for rest := byBase[base]; len(rest) > 0; {
			part := rest[:min(most, len(rest))]
			rest = rest[len(part):]
			keys := []any{base}
			var rules, numbers []byte
			for _, a := range part {
				keys = append(keys, a.key)
				rules = append(rules, a.rules.bytes(now)...)
				for _, n := range a.numbers {
					numbers = appendInt(numbers, n)
				}
			}
			answer, err := text(s.run(ctx, p, keys, []any{s.given(), rules, numbers}))
			if err != nil {
				return err
			}
			at := answer.int()
			s.sync(at)
			if err := read(answer, at, part); err != nil {
				return err
			}
		}
	}
	return nil
}
