package proxy

import (
	"net/http"
	"sync"
	"time"

	"llmgw/internal/dialect"
	"llmgw/internal/tokens"
)

// background knows the responses that go on at their provider after their call
// has ended, by their ids. What they come to is told to whoever asks for them
// later: until then their reservations stay open, and their use unrecorded.
type background struct {
	// end is called once for each: with what was reported of its end, or nil if
	// nobody saw that.
	end func(*record, *dialect.Report)
	// late is called with the end of a response that is not open here. May be nil.
	late func(id string, r dialect.Report)

	mu    sync.Mutex
	open  map[string]*unfinished
	teams map[string]int // open responses by team
	count int            // responses that were ever open: numbers them
}

// unfinished is a call whose response goes on.
type unfinished struct {
	rec    *record
	number int         // the newest has the highest
	timer  *time.Timer // ends it when nobody has asked for a while
	until  time.Time   // when that is
	askers int         // calls about it that are under way
}

const (
	// askedWithin is how long a response stays open that nobody asks for.
	askedWithin = 2 * time.Minute
	// maxUnfinished bounds the responses that are open. Teams share them.
	maxUnfinished = 10_000
)

func newBackground(end func(*record, *dialect.Report)) *background {
	return &background{end: end, open: map[string]*unfinished{}, teams: map[string]int{}}
}

// goesOn tells whether a call's response goes on at its provider, and has an id
// by which it can be asked for.
func goesOn(p *plan, status int, r dialect.Report) bool {
	return p.Call.Detached && status < 300 && !r.Complete && r.Failure == nil && r.ID != ""
}

// leave takes over a call that has ended while the response id goes on; false if
// there is no room, or one of that id is open. In a full table the newest response
// of the team with the most gives up its place to a team that has fewer.
func (b *background) leave(id string, rec *record) bool {
	b.mu.Lock()
	if _, taken := b.open[id]; taken {
		b.mu.Unlock()
		return false
	}
	team, loser := rec.caller.TeamName(), ""
	if len(b.open) >= maxUnfinished {
		if loser = b.crowdedOut(team); loser == "" {
			b.mu.Unlock()
			return false
		}
	}
	b.count++
	u := &unfinished{rec: rec, number: b.count, until: time.Now().Add(askedWithin)}
	u.timer = time.AfterFunc(askedWithin, func() { b.expire(id, u) })
	b.open[id] = u
	b.teams[team]++
	b.mu.Unlock()
	if loser != "" {
		b.finish(loser, nil)
	}
	return true
}

// crowdedOut returns the response that gives up its place to one more of team, or
// "" if no team has more than team then would. b.mu is held.
func (b *background) crowdedOut(team string) string {
	most := team
	for name, n := range b.teams {
		if n > b.teams[most] {
			most = name
		}
	}
	if b.teams[most] <= b.teams[team]+1 {
		return ""
	}
	newest, number := "", 0
	for id, u := range b.open {
		if u.number > number && u.rec.caller.TeamName() == most {
			newest, number = id, u.number
		}
	}
	return newest
}

// expire ends the response id if nobody asks for it any more.
func (b *background) expire(id string, u *unfinished) {
	b.mu.Lock()
	if u.askers > 0 {
		u.until = time.Now().Add(askedWithin)
	}
	left := time.Until(u.until)
	if left > 0 {
		u.timer.Reset(left)
	}
	b.mu.Unlock()
	if left <= 0 {
		b.finish(id, nil)
	}
}

// asking is a call about a response, which may watch it for hours. The nil
// asking is about none.
type asking struct {
	all        *background
	id, method string
	of         *unfinished // nil: it is not known here
}

// asks begins a call that may be about a response. Its end must be called.
func (b *background) asks(c *dialect.Call) *asking {
	if c.Endpoint.Operation != dialect.Stored {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	a := &asking{all: b, id: c.Params["response_id"], method: c.Endpoint.Method}
	if a.of = b.open[a.id]; a.of != nil {
		a.of.askers++
	}
	return a
}

// end notes that the call has ended.
func (a *asking) end() {
	if a == nil || a.of == nil {
		return
	}
	a.all.mu.Lock()
	defer a.all.mu.Unlock()
	a.of.askers--
}

// told notes what the answer says of the response.
func (a *asking) told(status int, r dialect.Report) {
	switch {
	case a == nil || status >= 300:
	case a.method == http.MethodDelete:
		a.all.finish(a.id, nil)
	case r.ID == a.id && (r.Complete || r.Failure != nil):
		seen := r // so that r itself need not outlive a call that is about no response
		if !a.all.finish(a.id, &seen) && a.all.late != nil {
			a.all.late(a.id, r)
		}
	default:
		a.all.prolong(a.id)
	}
}

// prolong keeps a response open that somebody asks for.
func (b *background) prolong(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if u := b.open[id]; u != nil {
		u.until = time.Now().Add(askedWithin)
	}
}

// finish ends the response id, once, and reports whether it was open.
func (b *background) finish(id string, r *dialect.Report) bool {
	b.mu.Lock()
	u, ok := b.open[id]
	if ok {
		delete(b.open, id)
		team := u.rec.caller.TeamName()
		if b.teams[team]--; b.teams[team] == 0 {
			delete(b.teams, team)
		}
	}
	b.mu.Unlock()
	if ok {
		u.timer.Stop()
		b.end(u.rec, r)
	}
	return ok
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
	before := s.ending.Usage                             // what is known of it as charged
	if r != nil && (r.OutputKnown || r.Failure != nil) { // else it was cancelled, and what it did is not said
		s.ending = s.withLost(s.plan.Metered(s.ending.Outcome, http.StatusOK, *r))
	}
	used := s.ending.Usage
	beyond := used.Input > before.Input || used.Output > before.Output
	if beyond { // another gateway may have seen that too: it is debited once
		used.Input, used.Output = min(used.Input, before.Input), min(used.Output, before.Output)
		used.Reasoning, used.CachedInput, used.CacheWrite = 0, 0, 0
		s.ending.Usage = used
	}
	s.charge(s.ending)
	g.recordUse(rec)
	g.bills.charged(s.goesOn, "ended", rec, tokens.Usage{Input: used.Input - before.Input, Output: used.Output - before.Output})
	if beyond {
		g.bills.saw(s.goesOn, *r)
	}
}

// Close settles what is open in the background for all that was reserved, and
// waits until it is noted.
func (g *Gateway) Close() {
	g.background.close()
	g.bills.work.Wait()
}
