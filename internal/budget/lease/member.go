package lease

import (
	"context"
	"fmt"
	"sync"

	"llmgw/internal/budget"
)

// member is a request that was granted from a lease.
type member struct {
	lease   *lease
	amounts []int64
	noted   []int64 // used so far; the group's mu guards it, lost and over
	lost    []int64 // what a crash charges, at least what is noted
	over    bool    // it has ended
	space   [24]int64
}

func newMember(l *lease, r *budget.Request) *member {
	n := len(r.Lines)
	m := &member{lease: l}
	numbers := m.space[:]
	if 3*n > len(numbers) {
		numbers = make([]int64, 3*n)
	}
	m.amounts, m.noted, m.lost = numbers[:n:n], numbers[n:2*n:2*n], numbers[2*n:3*n]
	for i := range r.Lines {
		m.amounts[i] = r.Lines[i].Amount
	}
	return m
}

// again answers a request whose id is open in a lease.
func (m *member) again(r *budget.Request) (budget.Verdict, error) {
	l := m.lease
	l.group.mu.Lock()
	defer l.group.mu.Unlock()
	if m.over {
		return budget.Verdict{}, fmt.Errorf("reserve %s: %w", r.ID, budget.ErrTooLate)
	}
	same := l.epoch == r.Epoch && l.group.of(r.Lines)
	for i := 0; same && i < len(m.amounts); i++ {
		same = m.amounts[i] == r.Lines[i].Amount
	}
	if !same {
		return budget.Verdict{}, fmt.Errorf("reserve %s: %w", r.ID, budget.ErrConflict)
	}
	v := l.verdict(l.last)
	v.Repeated = true
	return v, nil
}

// note raises what the member is known to have used, and says what a crash
// charges of it; of slots nothing.
func (m *member) note(p *budget.Progress) {
	l := m.lease
	for i := 0; !m.over && i < len(m.amounts); i++ {
		if !l.counts(i) {
			continue
		}
		noted, lost := m.noted[i], m.lost[i]
		if i < len(p.Used) {
			noted = max(noted, min(p.Used[i], budget.MaxExact))
		}
		if i < len(p.Crash) {
			lost = min(p.Crash[i], m.amounts[i])
		}
		lost = max(noted, lost)
		l.dirty = l.dirty || noted != m.noted[i] || lost != m.lost[i]
		l.noted[i] += noted - m.noted[i]
		l.lost[i] += lost - m.lost[i]
		m.noted[i], m.lost[i] = noted, lost
	}
}

// end settles the member within its lease: the unused part is left for others.
func (m *member) end(st *budget.Settlement) {
	l := m.lease
	for i, amount := range m.amounts {
		unused, open := amount, amount-min(m.noted[i], amount)
		l.open[i] -= amount
		l.noted[i] -= m.noted[i]
		l.lost[i] -= m.lost[i]
		if l.counts(i) {
			used := m.used(i, st)
			l.ended[i] = min(l.ended[i]+used, budget.MaxExact)
			unused -= used
		}
		if next := l.group.lease; next != nil && next != l {
			next.hear(l, i, unused, open)
		}
	}
	m.over = true
	l.members--
	l.dirty = true
}

// used is what line i of the member is charged by st.
func (m *member) used(i int, st *budget.Settlement) int64 {
	if i < len(st.Used) {
		return min(max(st.Used[i], 0), budget.MaxExact)
	}
	if len(st.Lines) > 0 || len(st.Used) > 0 {
		return m.amounts[i]
	}
	return m.lease.crash.Of(budget.Hold{Taken: m.amounts[i], Noted: m.noted[i], Crash: m.lost[i]})
}

// counts tells whether line i counts what is used, and not what is in flight.
func (l *lease) counts(i int) bool { return !recycles(l.lines[i].Limit) }

// Enqueue implements budget.Enqueuer. Of a request that a lease granted, done is
// called before it returns.
func (s *Store) Enqueue(st budget.Settlement, done func(budget.Settled, error)) {
	if s.settle(&st) {
		done(budget.Settled{Known: true, Leased: true}, nil)
		return
	}
	if s.enqueuer != nil {
		s.enqueuer.Enqueue(st, done)
		return
	}
	go func() {
		settled, err := s.Store.Settle(context.Background(), []budget.Settlement{st})
		if err != nil || len(settled) == 0 {
			done(budget.Settled{}, err)
			return
		}
		done(settled[0], nil)
	}()
}

// Settle implements budget.Store.
func (s *Store) Settle(ctx context.Context, settlements []budget.Settlement) ([]budget.Settled, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("settle %d reservations: %w", len(settlements), err)
	}
	results := make([]budget.Settled, len(settlements))
	var rest []budget.Settlement
	var at []int
	for i := range settlements {
		if s.settle(&settlements[i]) {
			results[i] = budget.Settled{Known: true, Leased: true}
			continue
		}
		rest, at = append(rest, settlements[i]), append(at, i)
	}
	if len(rest) == 0 {
		return results, nil
	}
	settled, err := s.Store.Settle(ctx, rest)
	if err != nil {
		return nil, err
	}
	for i := range settled {
		results[at[i]] = settled[i]
	}
	return results, nil
}

// settle ends st's reservation if a lease has granted it.
func (s *Store) settle(st *budget.Settlement) bool {
	m := s.members.take(st.ID)
	if m == nil {
		return false
	}
	g := m.lease.group
	g.mu.Lock()
	defer g.mu.Unlock()
	m.end(st)
	return true
}

// Report implements budget.Store. What the requests of a lease have used is
// told to the store with the lease's own report. A lease's request gives nothing
// back: it is the lease that does.
func (s *Store) Report(ctx context.Context, progress []budget.Progress) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("report %d reservations: %w", len(progress), err)
	}
	if s.held.Load() == 0 {
		return s.Store.Report(ctx, progress)
	}
	rest := make([]budget.Progress, 0, len(progress))
	for _, p := range progress {
		m := s.members.get(p.ID)
		if m == nil {
			rest = append(rest, p)
			continue
		}
		m.lease.group.mu.Lock()
		m.note(&p)
		m.lease.group.mu.Unlock()
	}
	if len(rest) == 0 {
		return nil
	}
	return s.Store.Report(ctx, rest)
}

// members finds the requests of all leases by their ids.
type members struct{ m sync.Map }

func (t *members) get(id string) *member {
	m, _ := t.m.Load(id)
	return asMember(m)
}

// put enters m, unless its id is there.
func (t *members) put(id string, m *member) bool {
	_, there := t.m.LoadOrStore(id, m)
	return !there
}

// take removes and returns the member id, or nil.
func (t *members) take(id string) *member {
	m, _ := t.m.LoadAndDelete(id)
	return asMember(m)
}

func asMember(v any) *member {
	m, _ := v.(*member)
	return m
}
