package lease

import "llmgw/internal/budget"

// member is a request that was granted from a lease. It is the budget.Holder of
// its Reservation: what it reports and its end stay in this process. The
// group's mu guards it.
type member struct {
	held   budget.Reservation
	lease  *lease
	noted  []int64 // used so far
	lost   []int64 // what a crash charges, at least what is noted
	before []int64 // what was reported last; nil: nothing
	begun  bool    // its answer has
	over   bool    // it has ended
	space  [24]int64
}

func newMember(l *lease, r *budget.Request) *member {
	n := len(r.Lines)
	m := &member{lease: l}
	m.held.Open(l.s, m, *r)
	numbers := m.space[:]
	if 3*n > len(numbers) {
		numbers = make([]int64, 3*n)
	}
	m.noted, m.lost, m.before = numbers[:n:n], numbers[n:2*n:2*n], numbers[2*n:2*n:3*n]
	return m
}

func (m *member) amount(i int) int64 { return m.held.Request.Lines[i].Amount }

// Sent implements budget.Holder.
func (m *member) Sent(used []int64) { m.report(used, false) }

// Report implements budget.Holder. A crash charges as much again as came since
// the report before.
func (m *member) Report(used []int64) { m.report(used, true) }

// report raises what a crash charges of the member and, if its answer has begun,
// what it is known to have used; of slots nothing.
func (m *member) report(used []int64, begun bool) {
	l := m.lease
	l.group.mu.Lock()
	defer l.group.mu.Unlock()
	if m.over || m.begun && !begun {
		return
	}
	m.begun = begun
	crash := used
	if begun && len(m.before) > 0 {
		crash = budget.WithMargin(used, m.before)
	}
	for i := range min(len(m.noted), len(used)) {
		if !l.counts(i) {
			continue
		}
		noted := m.noted[i]
		if begun {
			noted = max(noted, min(used[i], budget.MaxExact))
		}
		lost := max(noted, min(crash[i], m.amount(i)))
		l.noted[i] += noted - m.noted[i]
		l.lost[i] += lost - m.lost[i]
		m.noted[i], m.lost[i] = noted, lost
	}
	m.before = append(m.before[:0], used...)
	l.changed()
}

// Settle implements budget.Holder: the unused part is left for others.
func (m *member) Settle(used []int64) {
	l := m.lease
	l.group.mu.Lock()
	for i := range m.noted {
		amount := m.amount(i)
		unused, open := amount, amount-min(m.noted[i], amount)
		l.open[i] -= amount
		l.noted[i] -= m.noted[i]
		l.lost[i] -= m.lost[i]
		if l.counts(i) {
			n := amount
			if i < len(used) {
				n = min(max(used[i], 0), budget.MaxExact)
			}
			l.ended[i] = min(l.ended[i]+n, budget.MaxExact)
			unused -= n
		}
		if next := l.group.lease; next != nil && next != l {
			next.creditFrom(l, i, unused, open)
		}
	}
	m.over = true
	l.members--
	l.changed()
	l.keepSlots()
	l.group.mu.Unlock()
	l.s.Leave(used)
}

// counts reports whether line i counts what is used, and not what is in flight.
func (l *lease) counts(i int) bool { return !recycles(l.lines[i].Limit) }
