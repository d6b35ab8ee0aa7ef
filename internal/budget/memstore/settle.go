package memstore

import (
	"context"
	"fmt"
	"time"

	"llmgw/internal/budget"
)

const (
	settledFor   = time.Minute // a settled id is remembered, unless NotAfter comes first
	reclaimedFor = time.Hour   // a reclaimed one: its gateway may yet come back
	maxEnded     = 1 << 16     // tombstones of each kind; beyond, the oldest go
)

// Settle implements budget.Store.
func (s *Store) Settle(ctx context.Context, settlements []budget.Settlement) ([]budget.Settled, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("settle %d reservations: %w", len(settlements), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.nowMS()
	results := make([]budget.Settled, len(settlements))
	for i := range settlements {
		results[i] = s.settle(&settlements[i], now)
	}
	return results, nil
}

// Enqueue implements budget.Store: the settlement is applied before it returns.
func (s *Store) Enqueue(st budget.Settlement, done func(budget.Settled, error)) {
	s.mu.Lock()
	result := s.settle(&st, s.nowMS())
	s.mu.Unlock()
	done(result, nil)
}

func (s *Store) settle(st *budget.Settlement, now int64) budget.Settled {
	rec := s.records[st.ID]
	if rec == nil {
		s.bury(&record{id: st.ID}, settled, now) // its reserve may yet arrive (S14)
		return budget.Settled{}
	}
	if rec.status == open && rec.epoch.fenced {
		s.reclaim(rec, now)
	}
	switch {
	case rec.status == settled:
		return budget.Settled{}
	case rec.status == reclaimed:
		return budget.Settled{Unbooked: settleLate(rec, st.Used, now)}
	case len(st.Lines) == 0 && len(st.Used) == 0:
		s.end(rec, rec.charge, settled, now)
		return budget.Settled{Known: true}
	}
	unbooked := s.end(rec, func(p *part) int64 { return p.used(st.Used) }, settled, now)
	return budget.Settled{Known: true, Unbooked: unbooked}
}

// used is the part's number in used, which is by lines; the whole that was
// taken where there is none.
func (p *part) used(used []int64) int64 {
	if p.line >= len(used) {
		return p.hold.Taken
	}
	return min(max(used[p.line], 0), budget.MaxExact)
}

// charge is what the part costs if the gateway died.
func (rec *record) charge(p *part) int64 { return rec.crash.Of(p.hold) }

// end settles every part of an open record and leaves its tombstone.
func (s *Store) end(rec *record, used func(*part) int64, as status, now int64) (unbooked int64) {
	for i := range rec.parts {
		p := &rec.parts[i]
		if p.hold.Taken < 0 {
			continue
		}
		n := used(p)
		p.c.Advance(budget.Rules{}, budget.Bounds{}, now)
		unbooked += p.c.Settle(p.hold, n, now)
		p.hold.Reported = n // what was charged, should a settlement come late
	}
	rec.epoch.open--
	s.bury(rec, as, now)
	return unbooked
}

func (s *Store) reclaim(rec *record, now int64) { s.end(rec, rec.charge, reclaimed, now) }

// told is what the reclaimed rec was charged.
func (rec *record) told() budget.Ended {
	e := budget.Ended{ID: rec.id}
	for i := range rec.parts {
		if p := &rec.parts[i]; p.hold.Taken >= 0 {
			e.Add(p.c.id.String(), p.hold.Reported)
		}
	}
	return e
}

// settleLate charges what a reclaimed reservation used beyond what it was
// charged (S16).
func settleLate(rec *record, used []int64, now int64) (unbooked int64) {
	for i := range rec.parts {
		p := &rec.parts[i]
		if p.hold.Taken < 0 || p.line >= len(used) {
			continue
		}
		if n := p.used(used); n > p.hold.Reported {
			p.c.Advance(budget.Rules{}, budget.Bounds{}, now)
			unbooked += p.c.Overrun(n-p.hold.Reported, now)
			p.hold.Reported = n
		}
	}
	return unbooked
}

// bury turns rec into a tombstone.
func (s *Store) bury(rec *record, as status, now int64) {
	rec.status = as
	if as == reclaimed {
		rec.deadline = now + reclaimedFor.Milliseconds()
		s.late = append(s.late, rec)
		return
	}
	rec.deadline = now + settledFor.Milliseconds()
	if rec.notAfter > 0 {
		rec.deadline = min(rec.deadline, rec.notAfter)
	}
	if rec.deadline < now {
		delete(s.records, rec.id)
		s.recycle(rec)
		return
	}
	clear(rec.parts)
	rec.parts = rec.parts[:0]
	s.records[rec.id] = rec
	s.ended = append(s.ended, rec)
}

// forget drops tombstones whose time has come.
func (s *Store) forget(now int64) {
	s.ended = s.forgetFrom(s.ended, now)
	s.late = s.forgetFrom(s.late, now)
}

func (s *Store) forgetFrom(ended []*record, now int64) []*record {
	for range 4 { // more than come in, so that the list shrinks
		if len(ended) == 0 || ended[0].deadline >= now && len(ended) <= maxEnded {
			break
		}
		delete(s.records, ended[0].id)
		s.recycle(ended[0])
		ended = ended[1:]
	}
	return ended
}

// Report implements budget.Store.
func (s *Store) Report(ctx context.Context, progress []budget.Progress) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("report %d reservations: %w", len(progress), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.nowMS()
	for _, p := range progress {
		rec := s.records[p.ID]
		if rec == nil || rec.status != open || rec.epoch.fenced {
			continue
		}
		if p.Lifetime > 0 {
			rec.deadline = now + budget.CeilMS(p.Lifetime)
		}
		for i := range rec.parts {
			rec.parts[i].report(p, now)
			rec.parts[i].c.Until = max(rec.parts[i].c.Until, rec.deadline)
		}
	}
	return nil
}

func (p *part) report(of budget.Progress, now int64) {
	if p.hold.Taken < 0 || p.line >= max(len(of.Used), len(of.Keep), len(of.Crash)) {
		return
	}
	p.c.Advance(budget.Rules{}, budget.Bounds{}, now)
	if p.line < len(of.Used) {
		p.hold = p.c.Note(p.hold, min(max(of.Used[p.line], 0), budget.MaxExact))
	}
	if p.line < len(of.Keep) {
		p.hold = p.c.Shrink(p.hold, max(of.Keep[p.line], 0))
	}
	if p.line < len(of.Crash) {
		p.hold.Crash = min(max(of.Crash[p.line], 0), budget.MaxExact)
	}
}
