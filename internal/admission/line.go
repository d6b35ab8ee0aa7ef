package admission

import "time"

// line is the requests that wait for one counter, first come, first served, so
// that a large one is not starved by small ones. Only the first asks.
//
// What the counter gains with time is measured as time: a request that needs an
// amount fits gain after the moment at which the counter was, or would have been,
// empty. So the line knows when each of its requests will fit if nobody else
// comes, without asking for each.
type line struct {
	key    any
	places []*Place
	zero   time.Time // when the counter is empty, by what was last heard; zero: unknown
}

const (
	// pollSlots is how often the first in line asks for what no verdict names the
	// time of, such as a slot.
	pollSlots = 100 * time.Millisecond
	// pollRates is how soon the first in line asks before the time that it was
	// given, for what other gateways gave back. It doubles twice.
	pollRates = 250 * time.Millisecond
	// linesAtOnce is how many lines may poll that often: with n times as many each
	// polls n times less, so that a gateway polls at most 200 times a second.
	linesAtOnce = 20
)

// Join takes the last place in the line of key for what the counter takes gain
// to gain; 0 if it gains nothing with time.
func (p *Place) Join(key any, gain time.Duration) {
	r := p.room
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leaveLine(p)
	l := r.lines[key]
	if l == nil {
		l = &line{key: key}
		r.lines[key] = l
	}
	l.places = append(l.places, p)
	p.line, p.gain, p.asked, p.polls = l, min(gain, longestGain), time.Time{}, 0
}

// longestGain bounds what one request adds to the wait of those behind it.
const longestGain = 365 * 24 * time.Hour

// LeaveLine leaves the line, and keeps the place in the room.
func (p *Place) LeaveLine() {
	p.room.mu.Lock()
	defer p.room.mu.Unlock()
	p.room.leaveLine(p)
}

// leaveLine lets the next in p's line ask, if p was the first; mu is held.
func (r *Room) leaveLine(p *Place) {
	l := p.line
	if l == nil {
		return
	}
	p.line = nil
	for i, other := range l.places {
		if other != p {
			continue
		}
		l.places = append(l.places[:i:i], l.places[i+1:]...)
		if i == 0 && len(l.places) > 0 {
			l.places[0].tell()
		}
		break
	}
	if len(l.places) == 0 {
		delete(r.lines, l.key)
	}
}

// Turn returns whether p is the first in its line, and so may ask; when it
// should, 0: now; and how long it has to wait if nobody gives anything back, 0:
// not at all, or that is unknown.
func (p *Place) Turn() (first bool, ask, wait time.Duration) {
	r := p.room
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.line == nil {
		return true, 0, 0
	}
	first = p.line.places[0] == p
	wait, known := p.line.wait(p)
	if !first || p.asked.IsZero() && wait == 0 {
		return first, wait, wait
	}
	if p.asked.IsZero() {
		p.asked = time.Now() // from now on it polls
	}
	poll := pollRates << min(p.polls, 2)
	if !known {
		wait, poll = 0, pollSlots
	} else if wait == 0 {
		return first, 0, 0
	}
	poll = poll * time.Duration(max(len(r.lines), linesAtOnce)) / linesAtOnce
	ask = max(0, time.Until(p.asked.Add(poll)))
	if known {
		ask = min(ask, wait)
	}
	return first, ask, wait
}

// wait is how long p has to wait if nobody gives anything back, as far as that
// is known.
func (l *line) wait(p *Place) (d time.Duration, known bool) {
	if l.zero.IsZero() {
		return 0, false
	}
	fits := l.zero
	for _, other := range l.places {
		fits = fits.Add(other.gain)
		if other == p {
			break
		}
	}
	return max(0, time.Until(fits)), true
}

// Refused notes that p has asked and would fit after wait; 0: nobody knows.
func (p *Place) Refused(wait time.Duration) {
	p.room.mu.Lock()
	defer p.room.mu.Unlock()
	now := time.Now()
	p.asked = now
	p.polls++
	if p.line == nil {
		return
	}
	p.line.zero = time.Time{}
	if wait > 0 {
		p.line.zero = now.Add(wait - p.gain)
	}
}

// Granted notes that p has got what it waited for. The counter was left with what
// it takes left to gain; known is false if that says nothing of the next wait.
func (p *Place) Granted(left time.Duration, known bool) {
	p.room.mu.Lock()
	defer p.room.mu.Unlock()
	if p.line == nil {
		return
	}
	p.line.zero = time.Time{}
	if known {
		p.line.zero = time.Now().Add(-left)
	}
}

// Freed notes that something came back to the counter of key which no time can
// stand for, such as a slot: the first in line asks at once.
func (r *Room) Freed(key any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.lines[key]; l != nil {
		l.zero, l.places[0].asked = time.Time{}, time.Time{}
		l.places[0].tell()
	}
}

// Gained notes that the counter of key got back what it takes d to gain, or was
// charged so much more if d is negative: the first in line looks again.
func (r *Room) Gained(key any, d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.lines[key]
	if l == nil {
		return
	}
	if l.zero.IsZero() {
		l.places[0].asked = time.Time{}
	} else {
		l.zero = l.zero.Add(-d)
	}
	l.places[0].tell()
}

// Busy reports whether others wait in the line of key.
func (r *Room) Busy(key any) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lines[key] != nil
}
