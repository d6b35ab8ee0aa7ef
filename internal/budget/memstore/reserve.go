package memstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"llmgw/internal/budget"
)

// A record's life:
//
//	open ──settle──► settled ──(a minute, or NotAfter)──► gone
//	  └───reclaim──► reclaimed ──────(an hour)──────────► gone
type status byte

const (
	open status = iota
	settled
	reclaimed
)

// record is what one reservation took. Ended, it is a tombstone, which makes
// repeats no-ops.
type record struct {
	id       string
	epoch    *epoch
	status   status
	created  int64
	deadline int64 // of an open record: to be reclaimed; of a tombstone: to be forgotten
	notAfter int64 // 0: none
	crash    budget.CrashCharge
	parts    []part
}

// part is what a record has of one counter.
type part struct {
	c     *counter
	asked int64
	line  int // of the request; a candidate's is its limit's
	hold  budget.Hold

	outcome  budget.Outcome
	wait     int64
	enforced bool
}

// Reserve implements budget.Store.
func (s *Store) Reserve(ctx context.Context, r budget.Request) (budget.Verdict, error) {
	if err := ctx.Err(); err != nil {
		return budget.Verdict{}, fmt.Errorf("reserve %s: %w", r.ID, err)
	}
	if !r.Valid() {
		return budget.Verdict{}, fmt.Errorf("reserve %s: %w", r.ID, budget.ErrAmount)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.nowMS()
	s.forget(now)
	s.tidy(len(r.Lines), now)

	e := s.epoch(r.Epoch, now)
	if e.fenced {
		return budget.Verdict{}, fmt.Errorf("reserve %s: %w", r.ID, budget.ErrFenced)
	}
	if rec := s.records[r.ID]; rec != nil {
		return s.repeat(rec, &r, now)
	}
	if !r.NotAfter.IsZero() && now > r.NotAfter.UnixMilli() {
		return budget.Verdict{}, fmt.Errorf("reserve %s: %w", r.ID, budget.ErrTooLate)
	}
	rec := s.newRecord()
	granted := s.judge(rec, &r, now)
	if granted {
		s.take(rec, e, &r, now)
	} else {
		rec.claim(now)
	}
	v := verdict(rec, &r, now)
	if !granted {
		s.recycle(rec)
	}
	return v, nil
}

// judge puts the lines of r and their candidates into rec, each with its
// answer, and reports whether all that is enforced is granted.
func (s *Store) judge(rec *record, r *budget.Request, now int64) bool {
	granted, watched := true, false
	rec.parts = slices.Grow(rec.parts, len(r.Lines))
	ask := func(limit *budget.Limit, line int, enforced bool) {
		l := &r.Lines[line]
		p := part{c: s.counter(limit, l.Value, now), asked: l.Amount, line: line, enforced: enforced}
		p.outcome, p.wait = p.c.Judge(min(p.c.pending+l.Amount, budget.MaxExact), now)
		if p.outcome == budget.Granted {
			p.c.pending += l.Amount
		} else if enforced {
			granted = false
		}
		rec.parts = append(rec.parts, p)
	}
	for i := range r.Lines {
		ask(r.Lines[i].Limit, i, r.Lines[i].Enforced(r))
		watched = watched || r.Lines[i].Limit.Candidate > 0
	}
	for i := 0; watched && i < len(r.Lines); i++ {
		if c := budget.CandidateOf(r.Lines[i].Limit); c != nil {
			ask(c, i, false)
		}
	}
	for i := range rec.parts {
		rec.parts[i].c.pending = 0
	}
	return granted
}

// claim lets a refused request claim the refill of what it waits for (S33).
func (rec *record) claim(now int64) {
	for i := range rec.parts {
		if p := &rec.parts[i]; p.enforced && p.outcome == budget.Exceeded {
			p.c.Claim(p.asked, p.wait, now)
		}
	}
}

// take charges what was granted and keeps rec.
func (s *Store) take(rec *record, e *epoch, r *budget.Request, now int64) {
	lifetime := r.Lifetime
	if lifetime <= 0 {
		lifetime = budget.DefaultLifetime
	}
	rec.id, rec.epoch, rec.status, rec.crash = r.ID, e, open, r.CrashCharge
	rec.created, rec.deadline, rec.notAfter = now, now+budget.CeilMS(lifetime), 0
	if !r.NotAfter.IsZero() {
		rec.notAfter = r.NotAfter.UnixMilli()
	}
	for i := range rec.parts {
		p := &rec.parts[i]
		if p.outcome != budget.Granted && !r.Force {
			p.hold = budget.Hold{Taken: -1}
			continue
		}
		p.hold = p.c.Take(p.asked, rec.deadline, now)
	}
	s.records[r.ID] = rec
	e.open++
}

// repeat answers a request whose id is known.
func (s *Store) repeat(rec *record, r *budget.Request, now int64) (budget.Verdict, error) {
	if rec.status != open {
		return budget.Verdict{}, fmt.Errorf("reserve %s: %w", r.ID, budget.ErrTooLate)
	}
	same := rec.epoch.name == r.Epoch
	lines := 0
	for i := range rec.parts {
		p := &rec.parts[i]
		if i > 0 && p.line < rec.parts[i-1].line {
			break // the candidates follow
		}
		lines++
		same = same && i < len(r.Lines) && p.asked == r.Lines[i].Amount &&
			p.c.id == r.Lines[i].Counter()
	}
	if !same || lines != len(r.Lines) {
		return budget.Verdict{}, fmt.Errorf("reserve %s: %w", r.ID, budget.ErrConflict)
	}
	for i := range rec.parts {
		p := &rec.parts[i]
		p.wait = 0 // of a shadow line: it was refused then
		limit := r.Lines[p.line].Limit
		if i >= lines {
			limit = budget.CandidateOf(limit)
		}
		if limit != nil {
			p.c.Advance(budget.RulesOf(limit), budget.BoundsOf(limit, now), now)
		}
	}
	v := verdict(rec, r, now)
	v.Outcome, v.Binding, v.Wait, v.Repeated = budget.Granted, -1, 0, true
	return v, nil
}

// verdict is what rec's parts say, after they were charged.
func verdict(rec *record, r *budget.Request, now int64) budget.Verdict {
	v := budget.Verdict{Lines: make([]budget.LineState, len(r.Lines)), At: time.UnixMilli(now)}
	for i := range rec.parts {
		p := &rec.parts[i]
		if i < len(r.Lines) {
			v.Lines[i] = p.c.State(r.Lines[i].Limit.Period, p.outcome, p.wait, now)
			continue
		}
		v.Lines[p.line].Candidate = p.outcome
	}
	v.Outcome, v.Binding, v.Wait = budget.Decide(r, v.Lines)
	return v
}

func (s *Store) newRecord() *record {
	n := len(s.free)
	if n == 0 {
		return &record{}
	}
	rec := s.free[n-1]
	s.free = s.free[:n-1]
	return rec
}

func (s *Store) recycle(rec *record) {
	if len(s.free) >= 1024 {
		return
	}
	clear(rec.parts)
	*rec = record{parts: rec.parts[:0]}
	s.free = append(s.free, rec)
}
