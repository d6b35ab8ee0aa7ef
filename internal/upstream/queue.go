package upstream

// fairQueue orders those who wait for one provider: start-time fair queueing
// between teams, first come first served inside a team. A team that wants more
// than its share waits for itself; one that comes seldom is served next. It is
// not safe for concurrent use.
//
//	virtual time  the start tag of the last that came to the front
//	start tag     of a team's first waiter: max(virtual time, the finish of its last)
//	finish        start tag + service / weight
//
// Those at the front ask the limiter. There is one, and more only while it
// grants as fast as it is asked: otherwise a store's round trip would bound the
// rate of a fast provider. Nobody comes to the front while one there was
// refused, so that a large call is not overtaken. A waiter's tag is given when it comes to the front,
// and taken back if it leaves from there, so that who gives up has taken nothing.
type fairQueue struct {
	flows   []*flow // teams with waiters that are not at the front
	idle    map[string]float64
	virtual float64
	n       int  // waiters in all
	front   int  // of them at the front
	stuck   int  // of them refused at least once
	asked   need // of those at the front together
	width   int  // how many may be at the front; 0: one
}

// maxWidth bounds the front.
const maxWidth = 32

// flow is the waiters of one team.
type flow struct {
	team    string
	weight  float64
	start   float64 // tag of waiters[0]
	waiters []*waiter
	total   need // of the waiters
}

// waiter is one call in the queue.
type waiter struct {
	flow  *flow
	need  need
	ready chan struct{} // closed when it comes to the front
	front bool
	stuck bool
}

// need is what a call takes from a pacer: service is the time that the
// provider's limits give it all of their rate, in seconds.
type need struct {
	calls, tokens float64 // in the limits' units
	service       float64
}

// plus is n and a part of m.
func (n need) plus(m need, part float64) need {
	return need{n.calls + part*m.calls, n.tokens + part*m.tokens, n.service + part*m.service}
}

// push adds a waiter and returns it.
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
	f.total = f.total.plus(n, 1)
	q.n++
	q.promote()
	return w
}

// promote brings waiters to the front while there is room, the least tag first.
func (q *fairQueue) promote() {
	for q.stuck == 0 && q.front < max(q.width, 1) && len(q.flows) > 0 {
		f := q.flows[0]
		for _, other := range q.flows[1:] {
			if other.start < f.start {
				f = other
			}
		}
		w := f.waiters[0]
		f.waiters = f.waiters[1:]
		f.total = f.total.plus(w.need, -1)
		q.virtual = max(q.virtual, f.start)
		f.start += w.need.service / f.weight
		if len(f.waiters) == 0 {
			q.retire(f)
		}
		w.front = true
		q.front++
		q.asked = q.asked.plus(w.need, 1)
		close(w.ready)
	}
}

// serve removes w, whose turn has come, from the front, which may widen.
func (q *fairQueue) serve(w *waiter) {
	q.width = min(2*max(q.width, 1), maxWidth)
	q.step(w)
}

// refuse notes that w was refused: the front becomes as narrow as it can.
func (q *fairQueue) refuse(w *waiter) {
	q.width = 1
	if !w.stuck {
		w.stuck = true
		q.stuck++
	}
}

// leave removes a waiter that gave up.
func (q *fairQueue) leave(w *waiter) {
	if w.front {
		q.takeBack(w)
		q.step(w)
		return
	}
	f := w.flow
	for i, other := range f.waiters {
		if other == w {
			f.waiters = append(f.waiters[:i], f.waiters[i+1:]...)
			f.total = f.total.plus(w.need, -1)
			break
		}
	}
	if len(f.waiters) == 0 {
		q.retire(f)
	}
	q.n--
	q.rest()
}

// step takes w from the front and lets the next come.
func (q *fairQueue) step(w *waiter) {
	q.n--
	q.front--
	if w.stuck {
		q.stuck--
	}
	q.asked = q.asked.plus(w.need, -1)
	q.promote()
	q.rest()
}

// takeBack undoes what w's coming to the front cost its team.
func (q *fairQueue) takeBack(w *waiter) {
	cost := w.need.service / w.flow.weight
	if f := q.flow(w.flow.team); f != nil {
		f.start -= cost
		return
	}
	if finish, ok := q.idle[w.flow.team]; ok {
		q.idle[w.flow.team] = finish - cost
	}
}

// retire forgets a flow without waiters, but for what it had ahead of its time.
func (q *fairQueue) retire(f *flow) {
	for i, other := range q.flows {
		if other == f {
			q.flows = append(q.flows[:i], q.flows[i+1:]...)
			break
		}
	}
	if q.idle == nil {
		q.idle = make(map[string]float64)
	}
	if f.start > q.virtual {
		q.idle[f.team] = f.start
	}
}

// rest begins anew once nobody waits.
func (q *fairQueue) rest() {
	if q.n == 0 {
		*q = fairQueue{flows: q.flows[:0]}
	}
}

// ahead is what goes before a newcomer if nobody gives up: those at the front,
// all that its own team has waiting, and of each other team what its weight
// lets pass meanwhile.
func (q *fairQueue) ahead(team string, weight int, n need) need {
	var own need
	if f := q.flow(team); f != nil {
		own = f.total
	}
	total := q.asked.plus(own, 1)
	for _, f := range q.flows {
		if f.team == team {
			continue
		}
		all, part := f.total, 1.0
		if all.service > 0 {
			part = min(1, (own.service+n.service)*f.weight/float64(max(weight, 1))/all.service)
		}
		total = total.plus(all, part)
	}
	return total
}

// sum is all that the waiters need.
func (q *fairQueue) sum() need {
	s := q.asked
	for _, f := range q.flows {
		s = s.plus(f.total, 1)
	}
	return s
}

// flow is the flow of a team, nil if none of it waits behind the front.
func (q *fairQueue) flow(team string) *flow {
	for _, f := range q.flows {
		if f.team == team {
			return f
		}
	}
	return nil
}
