package upstream

// fairQueue orders those who wait for one provider: start-time fair queueing
// between teams, first come first served inside a team. A team that wants more
// than its share waits for itself; one that comes seldom is served next. It is
// not safe for concurrent use.
//
//	virtual time  the start tag of the last that became head
//	start tag     of a team's first waiter: max(virtual time, the finish of its last)
//	finish        start tag + service / weight
//
// A waiter's tag is given when it becomes its team's first, so one who leaves
// has taken nothing.
type fairQueue struct {
	flows   []*flow // teams with waiters
	idle    map[string]float64
	virtual float64
	head    *waiter // chosen, and still in its flow; nil: none
	n       int
}

// flow is the waiters of one team.
type flow struct {
	team    string
	weight  float64
	start   float64 // tag of waiters[0]
	waiters []*waiter
}

// waiter is one call in the queue.
type waiter struct {
	flow  *flow
	need  need
	ready chan struct{} // closed when it becomes the head
}

// need is what a call takes from a pacer: service is the time that the
// provider's limits give it all of their rate, in seconds.
type need struct {
	calls, tokens float64 // in the limits' units
	service       float64
}

// push adds a waiter and returns it. If it is the first it is the head.
func (q *fairQueue) push(team string, weight int, n need) *waiter {
	f := q.flow(team)
	if f == nil {
		f = &flow{team: team, start: max(q.virtual, q.idle[team])}
		delete(q.idle, team)
		q.flows = append(q.flows, f)
	}
	f.weight = float64(max(weight, 1))
	w := &waiter{flow: f, need: n, ready: make(chan struct{})}
	f.waiters = append(f.waiters, w)
	q.n++
	q.choose()
	return w
}

// serve removes the head, whose turn has come, and makes the next one the head.
func (q *fairQueue) serve() {
	w := q.head
	w.flow.start += w.need.service / w.flow.weight
	q.drop(w, 0)
}

// leave removes a waiter that gave up.
func (q *fairQueue) leave(w *waiter) {
	for i, other := range w.flow.waiters {
		if other == w {
			q.drop(w, i)
			return
		}
	}
}

// drop removes the i-th waiter of w's flow, which is w.
func (q *fairQueue) drop(w *waiter, i int) {
	f := w.flow
	f.waiters = append(f.waiters[:i], f.waiters[i+1:]...)
	q.n--
	if len(f.waiters) == 0 {
		q.retire(f)
	}
	if q.head == w {
		q.head = nil
	}
	q.choose()
}

// retire forgets a flow without waiters, but for what it had ahead of its time.
func (q *fairQueue) retire(f *flow) {
	for i, other := range q.flows {
		if other == f {
			q.flows = append(q.flows[:i], q.flows[i+1:]...)
			break
		}
	}
	if len(q.flows) == 0 {
		q.idle, q.virtual = nil, 0
		return
	}
	if q.idle == nil {
		q.idle = make(map[string]float64)
	}
	if f.start > q.virtual {
		q.idle[f.team] = f.start
	}
}

// choose makes the waiter with the least tag the head, if there is none.
func (q *fairQueue) choose() {
	if q.head != nil || len(q.flows) == 0 {
		return
	}
	first := q.flows[0]
	for _, f := range q.flows[1:] {
		if f.start < first.start {
			first = f
		}
	}
	q.virtual = max(q.virtual, first.start)
	q.head = first.waiters[0]
	close(q.head.ready)
}

// ahead is what goes before a newcomer if nobody gives up: all that its own
// team has waiting, and of each other team what its weight lets pass meanwhile.
func (q *fairQueue) ahead(team string, weight int, n need) need {
	var own need
	if f := q.flow(team); f != nil {
		own = f.sum()
	}
	total := own
	for _, f := range q.flows {
		if f.team == team {
			continue
		}
		all := f.sum()
		part := 1.0
		if all.service > 0 {
			part = min(1, (own.service+n.service)*f.weight/float64(max(weight, 1))/all.service)
		}
		if q.head != nil && q.head.flow == f && f.waiters[0].need.service > all.service*part {
			all, part = q.head.need, 1
		}
		total = total.plus(all, part)
	}
	return total
}

// sum is all that the waiters need.
func (q *fairQueue) sum() (s need) {
	for _, f := range q.flows {
		s = s.plus(f.sum(), 1)
	}
	return s
}

// flow is the flow of a team, nil if none of it waits.
func (q *fairQueue) flow(team string) *flow {
	for _, f := range q.flows {
		if f.team == team {
			return f
		}
	}
	return nil
}

// sum is all that a flow's waiters need.
func (f *flow) sum() (s need) {
	for _, w := range f.waiters {
		s = s.plus(w.need, 1)
	}
	return s
}

// plus is n and a part of m.
func (n need) plus(m need, part float64) need {
	return need{n.calls + part*m.calls, n.tokens + part*m.tokens, n.service + part*m.service}
}
