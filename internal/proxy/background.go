package proxy

import (
	"net/http"
	"sync"
	"time"

	"llmgw/internal/dialect"
)

// background knows the responses that go on at their provider after their call
// has ended, by their ids. What they come to is told to whoever asks for them
// later: until then their reservations stay open, and their use unrecorded.
type background struct {
	// end is called once for each: with what was reported of its end, or nil if
	// nobody saw that.
	end func(*record, *dialect.Report)

	mu   sync.Mutex
	open map[string]unfinished
}

// unfinished is a call whose response goes on.
type unfinished struct {
	rec   *record
	timer *time.Timer // ends it when nobody has asked for a while
}

const (
	// askedWithin is how long a response stays open that nobody asks for.
	askedWithin = 2 * time.Minute
	// maxUnfinished bounds the responses that are open.
	maxUnfinished = 10_000
)

func newBackground(end func(*record, *dialect.Report)) *background {
	return &background{end: end, open: map[string]unfinished{}}
}

// goesOn tells whether a call's response goes on at its provider, and has an id
// by which it can be asked for.
func goesOn(p *plan, status int, r dialect.Report) bool {
	return p.call.Detached && status < 300 && !r.Complete && r.Failure == nil && r.ID != ""
}

// leave takes over a call that has ended while the response id goes on; false if
// there is no room, or one of that id is open.
func (b *background) leave(id string, rec *record) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, taken := b.open[id]; taken || len(b.open) >= maxUnfinished {
		return false
	}
	b.open[id] = unfinished{rec: rec, timer: time.AfterFunc(askedWithin, func() { b.finish(id, nil) })}
	return true
}

// asked notes what an answer about the response id says of it.
func (b *background) asked(id, method string, status int, r dialect.Report) {
	switch {
	case status >= 300:
	case method == http.MethodDelete:
		b.finish(id, nil)
	case r.ID == id && (r.Complete || r.Failure != nil):
		b.finish(id, &r)
	default:
		b.prolong(id)
	}
}

// prolong keeps a response open that somebody asks for.
func (b *background) prolong(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if u, ok := b.open[id]; ok {
		u.timer.Reset(askedWithin)
	}
}

// finish ends the response id, once.
func (b *background) finish(id string, r *dialect.Report) {
	b.mu.Lock()
	u, ok := b.open[id]
	delete(b.open, id)
	b.mu.Unlock()
	if ok {
		u.timer.Stop()
		b.end(u.rec, r)
	}
}

// close ends all that is open.
func (b *background) close() {
	b.mu.Lock()
	ids := make([]string, 0, len(b.open))
	for id := range b.open {
		ids = append(ids, id)
	}
	b.mu.Unlock()
	for _, id := range ids {
		b.finish(id, nil)
	}
}

// endBackground settles and records a call whose response has gone on: by what
// is reported of its end, or for all that was reserved if that is unknown.
func (g *Gateway) endBackground(rec *record, r *dialect.Report) {
	s := rec.settlement
	if r != nil {
		s.ending = metered(s.plan, rec.ending.outcome, http.StatusOK, *r)
	}
	rec.ending = s.ending
	s.charge(s.ending)
	g.recordUse(rec)
}

// Close settles what is open in the background for all that was reserved.
func (g *Gateway) Close() { g.background.close() }
