package fleet_test

import (
	"fmt"
	"strings"
	"testing"
)

// This file checks the rules of a reservation's life by playing everything that
// can happen to two requests of one gateway: every message lost, repeated or
// overtaken by another, the gateway crashed at any point, or fenced although it
// lives. The model is of what Limiter, Keeper and the stores do together; each
// rule can be left out, and then something must go wrong.

// rules are what is left out.
type rules struct {
	noRecord      bool // a settlement without a record is applied all the same
	noIdempotence bool // a reserve of an open id is charged again
	noReaper      bool // nobody ends what a dead gateway left
	noFence       bool // it is ended once, but its epoch may go on
	noDeadline    bool // a reserve is applied however late, and an ended id is forgotten at once
	noCompare     bool // a gateway never looks for reservations it has lost sight of
	noKeep        bool // what goes back early is told as a difference, not as what is kept
}

// What each request reserves and uses.
const (
	amount = 3
	use    = 2
)

// phase is where the gateway is with a request.
type phase uint8

const (
	idle       phase = iota
	asked            // the reserve is sent
	working          // granted
	ending           // done: the settlement is repeated until it is acknowledged
	cancelling       // no answer came: the cancel is, once the attempt's deadline has passed
	finished         // acknowledged
	refused          // the store said no
	forgotten        // the queue was full: the end is never told
)

// place is what the store has of a request.
type place uint8

const (
	nothing place = iota
	open
	settled   // a tombstone
	reclaimed // a tombstone
)

// request is one request's part of the state. Messages are in flight or not: a
// repeated one stays in flight when it is delivered.
type request struct {
	phase phase
	epoch uint8
	late  bool // the attempt's deadline has passed

	reserve, settle, cancel bool // to the store
	keep                    bool // so, too: what is not needed goes back early, as a lease's does
	granted, denied, ack    bool // from it

	place  place
	owner  uint8 // the record's epoch
	gave   bool  // the record keeps what is used alone
	charge int8  // what the counter has lost to it
}

// state is everything.
type state struct {
	r       [2]request
	dead    bool // the gateway has crashed, or has retired
	epoch   uint8
	fenced  [2]bool
	reaped  [2]bool // without the fence: that epoch was looked after
	suspect bool    // the living gateway has been fenced once
}

// step is one thing that can happen.
type step struct {
	name string
	next state
	// fault: it need not happen. A state in which only faults can happen is quiet.
	fault bool
}

// steps lists what can happen in s.
func (s state) steps(no rules) []step {
	m := moves{s: s, no: no}
	for i := range s.r {
		if !s.dead {
			m.gateway(i)
		}
		m.network(i)
		m.store(i)
	}
	m.fleet()
	return m.list
}

// normal is s without differences that make none: answers that nobody waits
// for, what a dead gateway was about to do, and which request is which.
func (s state) normal() state {
	for i := range s.r {
		r := &s.r[i]
		if s.dead && r.phase != idle && r.phase != finished && r.phase != refused {
			r.phase = forgotten
		}
		waits := r.phase == asked
		r.granted, r.denied = r.granted && waits, r.denied && waits
		r.ack = r.ack && (r.phase == ending || r.phase == cancelling)
	}
	if s.r[1].less(s.r[0]) {
		s.r[0], s.r[1] = s.r[1], s.r[0]
	}
	return s
}

// less orders requests, somehow.
func (r request) less(other request) bool { return r.number() < other.number() }

func (r request) number() (n uint64) {
	for _, b := range []bool{r.late, r.reserve, r.settle, r.cancel, r.keep, r.gave, r.granted, r.denied, r.ack} {
		n <<= 1
		if b {
			n |= 1
		}
	}
	for _, v := range []uint8{uint8(r.phase), r.epoch, uint8(r.place), r.owner, uint8(r.charge + 100)} {
		n = n<<8 | uint64(v)
	}
	return n
}

// moves collects the steps from s.
type moves struct {
	s    state
	no   rules
	list []step
}

func (m *moves) add(fault bool, name string, i int, change func(s *state, r *request)) {
	next := m.s
	change(&next, &next.r[i])
	if next = next.normal(); next != m.s {
		m.list = append(m.list, step{fmt.Sprintf("%s %d", name, i), next, fault})
	}
}

// gateway is what a living gateway does with request i.
func (m *moves) gateway(i int) {
	r := m.s.r[i]
	switch r.phase {
	case idle:
		m.add(false, "ask for", i, func(s *state, r *request) {
			r.phase, r.epoch, r.reserve = asked, s.epoch, true
		})
	case asked:
		m.add(false, "give up", i, func(_ *state, r *request) { r.phase = cancelling })
	case working:
		m.add(false, "end", i, func(_ *state, r *request) { r.phase, r.settle = ending, true })
		m.add(true, "give back of", i, func(_ *state, r *request) { r.keep = true })
		m.add(true, "forget the end of", i, func(_ *state, r *request) { r.phase = forgotten })
	case ending:
		m.add(false, "settle again", i, func(_ *state, r *request) { r.settle = true })
	case cancelling:
		if r.late || m.no.noDeadline {
			m.add(false, "cancel", i, func(_ *state, r *request) { r.cancel = true })
		}
	}
	// A comparison: the record is older than the grace, which is longer than a deadline.
	stranger := r.phase == forgotten || r.phase == finished || r.phase == refused
	if !m.no.noCompare && stranger && r.place == open && r.owner == m.s.epoch && (r.late || m.no.noDeadline) {
		m.add(false, "end the stranger", i, func(s *state, r *request) { m.end(r, settled, 0) })
	}
}

// end ends the record of r with a charge.
func (m *moves) end(r *request, as place, charge int8) {
	r.place, r.charge, r.gave = as, charge, false
	if as == settled && (m.no.noDeadline || r.late) {
		r.place = nothing // the tombstone is not needed, or not kept
	}
}

// network delivers, repeats or loses each of i's messages.
func (m *moves) network(i int) {
	for _, msg := range []struct {
		name    string
		flag    func(*request) *bool
		deliver func(*state, *request)
	}{
		{"reserve", func(r *request) *bool { return &r.reserve }, m.onReserve},
		{"settlement", func(r *request) *bool { return &r.settle }, m.onSettle},
		{"cancel", func(r *request) *bool { return &r.cancel }, m.onCancel},
		{"keep", func(r *request) *bool { return &r.keep }, m.onKeep},
		{"grant", func(r *request) *bool { return &r.granted }, answer(asked, working)},
		{"denial", func(r *request) *bool { return &r.denied }, answer(asked, refused)},
		{"ack", func(r *request) *bool { return &r.ack }, func(s *state, r *request) {
			answer(ending, finished)(s, r)
			answer(cancelling, finished)(s, r)
		}},
	} {
		if !*msg.flag(&m.s.r[i]) {
			continue
		}
		m.add(false, "deliver the "+msg.name+" of", i, func(s *state, r *request) {
			*msg.flag(r) = false
			msg.deliver(s, r)
		})
		m.add(true, "deliver and repeat the "+msg.name+" of", i, func(s *state, r *request) { msg.deliver(s, r) })
		m.add(true, "lose the "+msg.name+" of", i, func(_ *state, r *request) { *msg.flag(r) = false })
	}
}

// answer moves a waiting, living gateway on.
func answer(from, to phase) func(*state, *request) {
	return func(s *state, r *request) {
		if !s.dead && r.phase == from {
			r.phase = to
		}
	}
}

func (m *moves) onReserve(s *state, r *request) {
	switch {
	case s.fenced[r.epoch], r.late && !m.no.noDeadline, r.place == settled, r.place == reclaimed:
		r.denied = true
	case r.place == open:
		r.granted = true
		if m.no.noIdempotence {
			r.charge += amount
		}
	default:
		r.place, r.owner, r.granted = open, r.epoch, true
		r.charge += amount
	}
}

func (m *moves) onSettle(s *state, r *request) {
	r.ack = true
	if r.place == open && s.fenced[r.owner] {
		r.place, r.charge = reclaimed, 0 // of settle and reclaim one wins
	}
	switch {
	case r.place == open:
		m.end(r, settled, r.charge-r.taken()+use)
	case m.no.noRecord:
		r.charge += use - amount
	case r.place == reclaimed:
		r.charge = max(r.charge, use)
	}
}

// taken is what r's record has.
func (r *request) taken() int8 {
	if r.gave {
		return use
	}
	return amount
}

func (m *moves) onKeep(s *state, r *request) {
	switch {
	case m.no.noRecord, m.no.noKeep && r.place == open:
		r.charge -= amount - use
	case r.place == open && !s.fenced[r.owner] && !r.gave:
		r.charge -= amount - use
		r.gave = true
	}
}

func (m *moves) onCancel(s *state, r *request) {
	r.ack = true
	switch {
	case r.place == open && s.fenced[r.owner]:
		r.place, r.charge = reclaimed, 0
	case r.place == open:
		m.end(r, settled, r.charge-r.taken())
	case m.no.noRecord:
		r.charge -= amount
	}
}

// store is what the store does with i by itself.
func (m *moves) store(i int) {
	r := m.s.r[i]
	if r.phase != idle && !r.late {
		m.add(false, "pass the deadline of", i, func(_ *state, r *request) {
			r.late = true
			if r.place == settled {
				r.place = nothing
			}
		})
	}
	if r.place == open && m.s.fenced[r.owner] {
		m.add(false, "reclaim", i, func(_ *state, r *request) { r.place, r.charge = reclaimed, 0 })
	}
}

// fleet is what gateways and store do as wholes.
func (m *moves) fleet() {
	s := m.s
	if s.dead {
		if !m.no.noReaper && !s.fenced[s.epoch] && !s.reaped[s.epoch] {
			m.add(false, "reap the dead", 0, func(s *state, _ *request) { m.reap(s, s.epoch) })
		}
		return
	}
	m.add(true, "crash", 0, func(s *state, _ *request) { s.dead = true })
	if !m.no.noReaper && !s.suspect {
		m.add(true, "suspect the living", 0, func(s *state, _ *request) { s.suspect = true; m.reap(s, 0) })
	}
	if s.suspect && s.epoch == 0 && !m.no.noFence {
		m.add(false, "take a new epoch", 0, func(s *state, _ *request) { s.epoch = 1 })
	}
	over := func(p phase) bool { return p == finished || p == refused || p == forgotten }
	if over(s.r[0].phase) && over(s.r[1].phase) {
		m.add(true, "retire", 0, func(s *state, _ *request) {
			s.dead, s.fenced[s.epoch] = true, true
		})
	}
}

// reap fences an epoch, whose records are then reclaimed one by one; without
// the fence it ends those that are there.
func (m *moves) reap(s *state, e uint8) {
	if !m.no.noFence {
		s.fenced[e] = true
		return
	}
	s.reaped[e] = true
	for i := range s.r {
		if r := &s.r[i]; r.place == open && r.owner == e {
			r.place, r.charge = reclaimed, 0
		}
	}
}

// harm says what is wrong in s, or nothing. quiet: only faults can still happen.
func (s state) harm(quiet bool) string {
	for i, r := range s.r {
		over := r.phase == finished
		switch {
		case r.charge < 0:
			return fmt.Sprintf("request %d is credited what it never paid", i)
		case r.charge > amount:
			return fmt.Sprintf("request %d is charged twice", i)
		case over && r.place == open && !s.fenced[r.owner]:
			return fmt.Sprintf("request %d has ended, and is open again", i)
		case quiet && r.place == open:
			return fmt.Sprintf("request %d is open for ever", i)
		case quiet && r.place != reclaimed && r.phase == refused && r.charge != 0:
			return fmt.Sprintf("request %d was refused, and is charged", i)
		}
	}
	return ""
}

// explore plays everything and returns the number of states and the shortest
// way to the first harm, if there is one.
func explore(no rules) (states int, way []string, harm string) {
	type origin struct {
		from state
		by   string
	}
	start := state{}
	seen := map[state]origin{start: {}}
	for queue := []state{start}; len(queue) > 0; queue = queue[1:] {
		s := queue[0]
		steps := s.steps(no)
		quiet := true
		for _, step := range steps {
			quiet = quiet && step.fault
			if _, ok := seen[step.next]; !ok {
				seen[step.next] = origin{s, step.name}
				queue = append(queue, step.next)
			}
		}
		if harm = s.harm(quiet); harm == "" {
			continue
		}
		for s != start {
			way = append([]string{seen[s].by}, way...)
			s = seen[s].from
		}
		return len(seen), way, harm
	}
	return len(seen), nil, ""
}

func TestTheRulesOfAReservationsLifeAreSufficient(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine searches 360,000 states: a detector of races sees nothing, and takes long")
	}
	states, way, harm := explore(rules{})
	if harm != "" {
		t.Errorf("%s:\n%s", harm, strings.Join(way, "\n"))
	}
	t.Logf("%d states", states)
	if states < 10_000 {
		t.Errorf("got %d states, want many: the model does not move", states)
	}
}

func TestEachRuleOfAReservationsLifeIsNeeded(t *testing.T) {
	for _, s := range []struct {
		what string
		no   rules
		harm string
	}{
		{"a settlement needs the record", rules{noRecord: true}, "credited what it never paid"},
		{"a reserve is idempotent", rules{noIdempotence: true}, "charged twice"},
		{"a reaper", rules{noReaper: true}, "open for ever"},
		{"a fence before the reclaim", rules{noFence: true}, "open for ever"},
		{"a deadline of each attempt", rules{noDeadline: true}, "open again"},
		{"a report says what is kept", rules{noKeep: true}, "credited what it never paid"},
		{"a comparison with what is open", rules{noCompare: true}, "open for ever"},
	} {
		t.Run(s.what, func(t *testing.T) {
			_, way, harm := explore(s.no)
			if !strings.Contains(harm, s.harm) {
				t.Errorf("without it: got %q, want something %s", harm, s.harm)
			}
			t.Logf("without it, %s:\n  %s", harm, strings.Join(way, "\n  "))
		})
	}
}
