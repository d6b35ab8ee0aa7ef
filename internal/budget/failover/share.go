package failover

import (
	"context"
	"sync"

	"llmgw/internal/budget"
)

// spell is a time without the store: the counters of this gateway's shares,
// which begin with it and are dropped after it.
//
// A share is amount ÷ live gateways, at least 1. Its counter starts at min(share,
// the level last seen ÷ live gateways), so a fleet that loses its store has no
// more to spend together than the store had (but for the rounding up to 1).
// Slots need no counter: a gateway may have its share of them in flight, those
// that the store granted before included.
type spell struct {
	store budget.Store // in memory: it never blocks, and fails for no call of ours
	live  int64

	mu     sync.Mutex
	shares map[*budget.Limit]*budget.Limit
	primed map[counterKey]struct{}
}

// localEpoch owns what is reserved of shares.
const localEpoch budget.Epoch = "local"

// currentSpell is the present spell, begun if there was none.
func (l *Limiter) currentSpell() *spell {
	if s := l.spell.Load(); s != nil {
		return s
	}
	l.spellMu.Lock()
	defer l.spellMu.Unlock()
	if s := l.spell.Load(); s != nil {
		return s
	}
	s := &spell{
		store:  l.cfg.newShares(l.now),
		live:   int64(max(1, l.keeper.Live())),
		shares: make(map[*budget.Limit]*budget.Limit),
		primed: make(map[counterKey]struct{}),
	}
	l.spell.Store(s)
	return s
}

// endSpell drops the shares; the next call without an answer begins new ones.
func (l *Limiter) endSpell() {
	l.spellMu.Lock()
	defer l.spellMu.Unlock()
	l.spell.Store(nil)
}

// hasShare tells whether a limit is kept by a share while the store is away.
func hasShare(l *budget.Limit) bool {
	return l.WhenStoreDown != budget.Open && l.WhenStoreDown != budget.Closed
}

// share is the limit that this gateway keeps to by itself.
func (s *spell) share(of *budget.Limit) *budget.Limit {
	s.mu.Lock()
	defer s.mu.Unlock()
	if have := s.shares[of]; have != nil {
		return have
	}
	part := func(n int64) int64 {
		if n <= 0 {
			return n
		}
		return max(1, n/s.live)
	}
	limit := *of
	limit.Amount, limit.Burst = part(of.Amount), part(of.Burst)
	limit.Candidate, limit.MaxDebt = part(of.Candidate), part(of.MaxDebt)
	s.shares[of] = &limit
	return &limit
}

// line is the share's counterpart of a request's line, its counter started
// from level, what all gateways had together when it was last seen.
func (s *spell) line(of budget.Line, level int64, seen bool) budget.Line {
	line := budget.Line{Limit: s.share(of.Limit), Value: of.Value, Amount: of.Amount}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.primed[keyOf(of)]; ok {
		return line
	}
	s.primed[keyOf(of)] = struct{}{}
	if seen {
		s.correct(budget.Correction{Line: line, AtMost: max(0, level/s.live)})
	}
	return line
}

func (s *spell) correct(c budget.Correction) {
	_ = s.store.Correct(context.Background(), []budget.Correction{c}) // see spell.store
}

// settle gives back to the shares what r, which was decided by them, did not use.
func (s *spell) settle(r *record) {
	var lines []budget.Line
	var used []int64
	for i, line := range r.lines {
		if line.Limit.Unit == budget.Concurrency || !hasShare(line.Limit) || i >= len(r.used) {
			continue
		}
		lines = append(lines, budget.Line{Limit: s.share(line.Limit), Value: line.Value, Amount: line.Amount})
		used = append(used, r.used[i])
	}
	if len(lines) == 0 {
		return
	}
	_, _ = s.store.Settle(context.Background(), []budget.Settlement{{ // see spell.store
		ID: r.id, Epoch: localEpoch, Lines: lines, Used: used,
	}})
}
