package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"llmgw/internal/budget"
)

// part is what a request asks of one counter.
type part struct {
	rules    *rules
	key      string
	amount   int64
	line     int // within its group; a candidate's is its limit's
	enforced byte
}

// group is the part of a request that one script decides: on a single server
// all of it, on a cluster the lines that share a tag.
type group struct {
	base   string
	shared bool // its counters are not one team's
	parts  []part
	lines  []int // the request's, by the group's
}

// Reserve implements budget.Store. It returns when ctx ends, though the call
// may go on: what it grants then is cancelled, and so is what an error leaves
// uncertain.
//
// On a cluster, lines of several tags are asked for one tag after the other, a
// team's own first: what a request holds that is then refused is in the way of
// its own team. A refusal that another request's passing hold may have caused is
// looked at once more.
func (s *Store) Reserve(ctx context.Context, r budget.Request) (budget.Verdict, error) {
	v, doubtful, err := s.reserve(ctx, &r)
	if err != nil || !doubtful {
		return v, err
	}
	v, _, err = s.reserve(ctx, &r)
	return v, err
}

// reserve is one try. A refusal is doubtful if the counters that refused would
// grant now.
func (s *Store) reserve(ctx context.Context, r *budget.Request) (v budget.Verdict, doubtful bool, err error) {
	if !r.Valid() {
		return v, false, fmt.Errorf("reserve %s: %w", r.ID, budget.ErrAmount)
	}
	if r.ID == "" || len(r.ID) > maxText || len(r.Epoch) > maxText || len(r.Lines) > 100 {
		return v, false, fmt.Errorf("reserve %s: %w", r.ID, errText)
	}
	groups := s.split(r)
	states := make([]budget.LineState, len(r.Lines))
	v.Lines = states
	head := requestHead(r)
	var took []group // by this call, not by an earlier one with the same id
	for i := range groups {
		g := &groups[i]
		if err := s.register(ctx, r.Epoch, g.base); err != nil {
			s.cancel(r, took)
			return v, false, fmt.Errorf("reserve %s: %w", r.ID, err)
		}
		w := g.reserving(r, head)
		err := s.batcher(g.base).reserve(ctx, w)
		if err == nil {
			err = w.answer()
		}
		if err != nil {
			s.cancel(r, took)
			return v, false, err
		}
		w.fill(states, g.lines)
		v.At = time.UnixMilli(w.at)
		v.Repeated = v.Repeated || w.status == repeated
		if w.status == decided && !w.granted() {
			if err := s.refuse(ctx, r, groups, i, states); err != nil {
				return v, false, fmt.Errorf("reserve %s: %w", r.ID, err)
			}
			v.Repeated = false
			v.Outcome, v.Binding, v.Wait = budget.Decide(r, states)
			doubtful, err := s.lookAgain(ctx, r, g, &v)
			return v, doubtful, err
		}
		if s.cluster && w.status == decided {
			took = append(took, *g)
		}
	}
	v.Outcome, v.Binding = budget.Granted, -1
	return v, false, nil
}

// reserving is what g's script is asked of r, whose head is head.
func (g *group) reserving(r *budget.Request, head []byte) *reserving {
	return &reserving{
		id: r.ID, epoch: r.Epoch, force: r.Force, parts: g.parts, lines: len(g.lines), done: make(chan struct{}),
		head: append(head[:len(head):len(head)], byte(len(g.lines)), byte(len(g.parts))),
	}
}

// answer is the error that a decision stands for, nil if it is one.
func (w *reserving) answer() error {
	var err error
	switch w.status {
	case decided, repeated:
		return nil
	case conflict:
		err = budget.ErrConflict
	case tooLate:
		err = budget.ErrTooLate
	case fenced:
		err = budget.ErrFenced
	default:
		err = errAnswer
	}
	return fmt.Errorf("reserve %s: %w", w.id, err)
}

// fill puts w's states where the request has its lines.
func (w *reserving) fill(states []budget.LineState, lines []int) {
	for i := range w.parts {
		line := lines[w.parts[i].line]
		if i >= w.lines {
			states[line].Candidate = w.states[i].Outcome
			continue
		}
		states[line] = w.states[i]
	}
}

// split groups r's lines by where their counters are, a team's own
// first, then in the order of the bases.
func (s *Store) split(r *budget.Request) []group {
	groups := make([]group, 0, 1)
	find := func(base string, shared bool) *group {
		for i := range groups {
			if groups[i].base == base {
				return &groups[i]
			}
		}
		groups = append(groups, group{base: base, shared: shared})
		g := &groups[len(groups)-1]
		if !s.cluster {
			g.parts, g.lines = make([]part, 0, len(r.Lines)), make([]int, 0, len(r.Lines))
		}
		return g
	}
	watched := false
	for i := range r.Lines {
		l := &r.Lines[i]
		rules := s.rulesOf(l.Limit)
		g := find(rules.base, tagOf(l.Limit) == l.Limit.Place)
		enforced := byte(0)
		if l.Enforced(r) {
			enforced = 1
		}
		g.parts = append(g.parts, part{rules, rules.key(l.Value), l.Amount, len(g.lines), enforced})
		g.lines = append(g.lines, i)
		watched = watched || rules.candidate != nil
	}
	for i := range groups {
		if !watched {
			break
		}
		g := &groups[i]
		for j, line := range g.lines {
			if c := g.parts[j].rules.candidate; c != nil {
				g.parts = append(g.parts, part{c, c.key(r.Lines[line].Value), r.Lines[line].Amount, j, 0})
			}
		}
	}
	if len(groups) == 0 {
		find(s.registry(), true)
	}
	slices.SortFunc(groups, func(a, b group) int {
		if a.shared != b.shared {
			return map[bool]int{false: -1, true: 1}[a.shared]
		}
		return strings.Compare(a.base, b.base)
	})
	return groups
}

// requestHead is a request's not_after, lifetime, crash charge and force.
func requestHead(r *budget.Request) []byte {
	notAfter, lifetime := int64(0), r.Lifetime
	if !r.NotAfter.IsZero() {
		notAfter = r.NotAfter.UnixMilli()
	}
	if lifetime <= 0 {
		lifetime = budget.DefaultLifetime
	}
	crash, force := byte(0), byte(0)
	switch r.CrashCharge {
	case budget.ChargeFull:
		crash = 1
	case budget.ChargeNone:
		crash = 2
	}
	if r.Force {
		force = 1
	}
	b := make([]byte, 0, 24)
	b = appendInt(appendInt(b, notAfter), budget.CeilMS(lifetime))
	return append(b, crash, force)
}

// refuse undoes what the groups before the refusing one took, and asks those
// after it how they stand, so that the longest wait is known.
func (s *Store) refuse(ctx context.Context, r *budget.Request, groups []group, refused int, states []budget.LineState) error {
	s.cancel(r, groups[:refused])
	for _, g := range groups[:refused] {
		for _, line := range g.lines {
			if st := &states[line]; st.Outcome == budget.Granted {
				st.Remaining = min(st.Capacity, st.Remaining+r.Lines[line].Amount)
				st.Open = max(0, st.Open-r.Lines[line].Amount)
			}
		}
	}
	for i := range groups[refused+1:] {
		if err := s.look(ctx, r, &groups[refused+1+i], states); err != nil {
			return err
		}
	}
	return nil
}

// lookAgain, on a cluster, reads once more how the counters stand that refused r,
// if all that was short may have been a passing hold: a reservation that is
// refused elsewhere and given back. If others refuse r now, v names them; if none
// does, v is doubtful.
func (s *Store) lookAgain(ctx context.Context, r *budget.Request, g *group, v *budget.Verdict) (doubtful bool, err error) {
	if !s.cluster || !g.mayPass(r, v.Lines) {
		return false, nil
	}
	now := slices.Clone(v.Lines)
	if err := s.look(ctx, r, g, now); err != nil {
		return false, fmt.Errorf("reserve %s: %w", r.ID, err)
	}
	out, binding, wait := budget.Decide(r, now)
	if out == budget.Granted {
		return true, nil
	}
	v.Lines, v.Outcome, v.Binding, v.Wait = now, out, binding, wait
	return false, nil
}

// mayPass reports whether g's counters refuse r only by what is open.
func (g *group) mayPass(r *budget.Request, states []budget.LineState) bool {
	for _, line := range g.lines {
		st, l := &states[line], &r.Lines[line]
		if st.Outcome != budget.Granted && l.Enforced(r) && (st.Open == 0 || st.Remaining+st.Open < l.Amount) {
			return false
		}
	}
	return true
}

// look reads how g's counters stand for r.
func (s *Store) look(ctx context.Context, r *budget.Request, g *group, states []budget.LineState) error {
	lines := make([]budget.Line, len(g.lines))
	for i, line := range g.lines {
		lines[i] = r.Lines[line]
	}
	now, _, err := s.Read(ctx, lines)
	if err != nil {
		return err
	}
	for i, line := range g.lines {
		states[line] = now[i]
	}
	return nil
}

// cancel ends what the groups took, in the background. What was forced is spent:
// it stays, and the caller posts the rest again.
func (s *Store) cancel(r *budget.Request, groups []group) {
	if r.Force {
		return
	}
	for _, g := range groups {
		s.batcher(g.base).settle(&settling{id: r.ID, body: usedBody(make([]int64, len(g.lines)))})
	}
}
