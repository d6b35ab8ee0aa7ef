package failover

import (
	"context"
	"sync"
	"time"

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
	store budget.Store
	live  int64

	mu     sync.Mutex
	shares map[*budget.Limit]*budget.Limit
	primed map[counterKey]struct{}
}

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
		live:   int64(max(1, l.keeper.Live())),
		shares: make(map[*budget.Limit]*budget.Limit),
		primed: make(map[counterKey]struct{}),
	}
	if l.cfg.NewLocal != nil {
		s.store = l.cfg.NewLocal()
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

// shared tells whether a limit is kept by a share while the store is away.
func shared(l *budget.Limit) bool {
	return l.WhenStoreDown != budget.Open && l.WhenStoreDown != budget.Closed
}

// share is the limit that this gateway keeps to by itself.
func (s *spell) share(of *budget.Limit) *budget.Limit {
	s.mu.Lock()
	defer s.mu.Unlock()
	if have := s.shares[of]; have != nil {
		return have
	}
	part := func(n int64) int64 { return max(1, n/s.live) }
	limit := *of
	limit.Amount, limit.Burst = part(of.Amount), part(of.Burst)
	if of.Candidate > 0 {
		limit.Candidate = part(of.Candidate)
	}
	if of.MaxDebt > 0 {
		limit.MaxDebt = part(of.MaxDebt)
	}
	s.shares[of] = &limit
	return &limit
}

// decide answers r without the store.
func (l *Limiter) decide(r budget.Request) budget.Verdict {
	v := budget.Verdict{Binding: -1, At: l.now(), Degraded: true, Lines: make([]budget.LineState, len(r.Lines))}
	s := l.currentSpell()
	d := decision{l: l, s: s, r: &r, v: &v, now: time.Now()}
	d.byPolicy()
	if v.Outcome != budget.Granted {
		return v
	}
	d.bySlots()
	d.byRates()
	if v.Outcome != budget.Granted {
		l.counters.releaseAll(r.Lines, d.slots)
		return v
	}
	l.enter(&record{
		id: r.ID, lines: r.Lines, crash: r.CrashCharge, lifetime: r.Lifetime, sharers: 1,
		spell: s, posted: unknown, slots: d.slots, charged: charged(v.Lines),
	})
	if l.Up() {
		l.nudge() // one call failed, but the store is there to be told
	}
	return v
}

// decision is one request being decided without the store.
type decision struct {
	l *Limiter
	s *spell
	r *budget.Request
	v *budget.Verdict

	now   time.Time
	rates []budget.Line // the lines to ask of the shares' store …
	index []int         // … and where they stand in the request
	slots uint64        // lines whose slot was taken
}

func (d *decision) enforced(i int) bool {
	return !d.r.Shadow && !d.r.Force && d.r.Lines[i].Limit.Mode != budget.Shadow
}

// refuse makes line i the one that binds, unless another one does already.
func (d *decision) refuse(i int, o budget.Outcome) {
	d.v.Lines[i].Outcome = o
	if d.enforced(i) && d.v.Outcome == budget.Granted {
		d.v.Outcome, d.v.Binding, d.v.Wait = o, i, d.v.Lines[i].Wait
	}
}

// byPolicy sorts the lines by their policies; a Closed one refuses.
func (d *decision) byPolicy() {
	for i, line := range d.r.Lines {
		level, seen := d.l.counters.level(line, d.now)
		if !seen {
			level = line.Limit.Capacity()
		}
		d.v.Lines[i] = budget.LineState{Remaining: level, Capacity: line.Limit.Capacity()}
		switch {
		case line.Limit.WhenStoreDown == budget.Open:
		case line.Limit.WhenStoreDown == budget.Closed || d.s.store == nil:
			d.v.Lines[i].Wait = closedWait
			d.refuse(i, budget.Unavailable)
		case line.Limit.Unit != budget.Concurrency:
			share := d.s.share(line.Limit)
			d.s.prime(share, line, level, seen)
			d.rates = append(d.rates, budget.Line{Limit: share, Value: line.Value, Amount: line.Amount})
			d.index = append(d.index, i)
		}
	}
}

// closedWait is when a request that a Closed limit refused may try again:
// nobody knows, but not at once.
const closedWait = time.Second

// bySlots takes the slots of Local limits.
func (d *decision) bySlots() {
	for i, line := range d.r.Lines {
		if line.Limit.Unit != budget.Concurrency {
			continue
		}
		most := int64(1) << 53
		if shared(line.Limit) && !d.r.Force {
			most = d.s.share(line.Limit).Amount
			d.v.Lines[i].Capacity = most
		}
		ok, left := d.l.counters.take(line, most)
		d.v.Lines[i].Remaining = min(left, d.v.Lines[i].Capacity)
		if !ok {
			d.refuse(i, budget.NoSlot)
			continue
		}
		d.slots |= bit(i)
	}
}

// byRates asks the shares for the rest; a rate that is short binds before a slot.
func (d *decision) byRates() {
	if len(d.rates) == 0 {
		return
	}
	// The store is in memory and asks for no context.
	ctx := context.Background()
	if d.v.Outcome != budget.Granted {
		states, _, err := d.s.store.Read(ctx, d.rates)
		d.merge(states, err)
		return
	}
	v, err := d.s.store.Reserve(ctx, budget.Request{
		ID: d.r.ID, Epoch: localEpoch, Lines: d.rates, Shadow: d.r.Shadow, Force: d.r.Force,
	})
	d.merge(v.Lines, err)
}

// localEpoch owns what is reserved of shares.
const localEpoch budget.Epoch = "local"

// merge puts the shares' answer into the verdict.
func (d *decision) merge(states []budget.LineState, err error) {
	if err != nil || len(states) != len(d.index) {
		for _, i := range d.index {
			d.refuse(i, budget.Unavailable)
		}
		return
	}
	binding := -1
	for j, i := range d.index {
		state := states[j]
		if state.Outcome == budget.NeverFits && d.r.Lines[i].Amount <= d.r.Lines[i].Limit.Capacity() {
			// Too much for a share, but not for the limit: it waits for the store.
			state.Outcome, state.Wait = budget.Unavailable, closedWait
		}
		d.v.Lines[i] = state
		if state.Outcome != budget.Granted && d.enforced(i) &&
			(binding < 0 || outranks(state, d.v.Lines[binding])) {
			binding = i
		}
	}
	if binding >= 0 {
		b := d.v.Lines[binding]
		d.v.Outcome, d.v.Binding, d.v.Wait = b.Outcome, binding, b.Wait
	}
}

// outranks tells whether a binds before b: what can never fit, else the longest wait.
func outranks(a, b budget.LineState) bool {
	if (a.Outcome == budget.NeverFits) != (b.Outcome == budget.NeverFits) {
		return a.Outcome == budget.NeverFits
	}
	return a.Outcome != budget.NeverFits && a.Wait > b.Wait
}

// prime starts a share's counter, once, from the level that was last seen.
func (s *spell) prime(share *budget.Limit, line budget.Line, level int64, seen bool) {
	k := keyOf(line)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.primed[k]; ok {
		return
	}
	s.primed[k] = struct{}{}
	if !seen {
		return
	}
	// A share's store is in memory: it fails only for what cannot be.
	_ = s.store.Correct(context.Background(), []budget.Correction{{
		Line:   budget.Line{Limit: share, Value: line.Value},
		AtMost: max(0, level/s.live),
	}})
}

// settle gives back to the shares what was not used. The shares' record tells
// what was taken; lines that were not asked of them are left out.
func (s *spell) settle(r *record) {
	if s.store == nil {
		return
	}
	var lines []budget.Line
	var used []int64
	for i, line := range r.lines {
		if line.Limit.Unit == budget.Concurrency || !shared(line.Limit) || i >= len(r.used) {
			continue
		}
		lines = append(lines, budget.Line{Limit: s.share(line.Limit), Value: line.Value, Amount: line.Amount})
		used = append(used, r.used[i])
	}
	if len(lines) == 0 {
		return
	}
	// As in prime: in memory, it fails only for what cannot be.
	_, _ = s.store.Settle(context.Background(), []budget.Settlement{{
		ID: r.id, Epoch: localEpoch, Lines: lines, Used: used,
	}})
}

// now is the store's time, or this machine's if the store never told.
func (l *Limiter) now() time.Time {
	if t := l.keeper.Now(); !t.IsZero() {
		return t
	}
	return time.Now()
}

// charged is a mask of the lines that a granted request was charged.
func charged(states []budget.LineState) uint64 {
	mask := full(len(states))
	for i, s := range states {
		if s.Outcome != budget.Granted {
			mask &^= bit(i)
		}
	}
	return mask
}
