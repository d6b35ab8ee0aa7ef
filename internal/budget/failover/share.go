package failover

import (
	"context"
	"sync"

	"llmgw/internal/budget"
)

// outage is a time without the store: the counters of this gateway's shares,
// which begin with it and are dropped after it.
//
// A share is amount ÷ live gateways, at least 1. Its counter starts at min(share,
// the level last seen ÷ live gateways), so a fleet that loses its store has no
// more to spend together than the store had (but for the rounding up to 1).
// Slots need no counter: a gateway may have its share of them in flight, those
// that the store granted before included.
type outage struct {
	store budget.Store // in memory: it never blocks, and fails for no call of ours
	live  int64

	mu     sync.Mutex
	shares map[*budget.Limit]*budget.Limit
	primed map[budget.CounterID]struct{}
}

// localEpoch owns what is reserved of shares.
const localEpoch budget.Epoch = "local"

// currentOutage is the present outage, begun if there was none.
func (l *Limiter) currentOutage() *outage {
	if s := l.outage.Load(); s != nil {
		return s
	}
	l.outageMu.Lock()
	defer l.outageMu.Unlock()
	if s := l.outage.Load(); s != nil {
		return s
	}
	s := &outage{
		store:  l.cfg.newShares(l.now),
		live:   int64(max(1, l.keeper.Live())),
		shares: make(map[*budget.Limit]*budget.Limit),
		primed: make(map[budget.CounterID]struct{}),
	}
	l.outage.Store(s)
	return s
}

// endOutage drops the shares; the next call without an answer begins new ones.
func (l *Limiter) endOutage() {
	l.outageMu.Lock()
	defer l.outageMu.Unlock()
	l.outage.Store(nil)
}

// hasShare reports whether a limit is kept by a share while the store is away.
func hasShare(l *budget.Limit) bool {
	return l.WhenStoreDown != budget.Open && l.WhenStoreDown != budget.Closed
}

// share is the limit that this gateway keeps to by itself: of what last says is in
// force, when it is first asked for.
func (s *outage) share(of *budget.Limit, last budget.LineState) *budget.Limit {
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
	limit := *of.InForce(last)
	limit.Amount, limit.Burst = part(limit.Amount), part(limit.Burst)
	limit.Candidate, limit.MaxDebt = part(of.Candidate), part(of.MaxDebt)
	s.shares[of] = limit.Compile()
	return &limit
}

// line is the share's counterpart of a request's line, its counter started
// from last, what all gateways have together by what was last seen.
func (s *outage) line(of budget.Line, last budget.LineState, seen bool) budget.Line {
	line := budget.Line{Limit: s.share(of.Limit, last), Value: of.Value, Amount: of.Amount}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.primed[of.Counter()]; ok {
		return line
	}
	s.primed[of.Counter()] = struct{}{}
	if seen {
		s.correct(budget.Correction{Line: line, AtMost: max(0, last.Remaining/s.live)})
	}
	return line
}

func (s *outage) correct(c budget.Correction) {
	_ = s.store.Correct(context.Background(), []budget.Correction{c}) // see outage.store
}

// settle gives back to the shares what r, which was decided by them, did not use.
func (s *outage) settle(r *record) {
	var lines []budget.Line
	var used []int64
	for i, line := range r.lines() {
		if line.Limit.Unit == budget.Concurrency || !hasShare(line.Limit) || i >= len(r.used) {
			continue
		}
		lines = append(lines, budget.Line{Limit: s.share(line.Limit, budget.LineState{}), Value: line.Value, Amount: line.Amount})
		used = append(used, r.used[i])
	}
	if len(lines) == 0 {
		return
	}
	_, _ = s.store.Settle(context.Background(), []budget.Settlement{{ // see outage.store
		ID: r.held.Request.ID, Epoch: localEpoch, Lines: lines, Used: used,
	}})
}
