// Package admission is where requests wait: for a limit that lets them
// (on_exceed: wait), for a turn with a provider, or for the next try. It knows
// what may wake a waiting request and what ends its wait, whatever it waits for.
// It does not know limits, providers or HTTP.
//
//	what happens                              who reports it       the waiting request
//	something came back here                  Room.Freed, Gained   asks again if it is first in its line
//	something came back at another gateway    nobody               finds it by polling (Place.Turn)
//	rules, the main switch, a block changed;
//	the store went away or came back          Room.Wake            is checked, and begins anew
//	its key, team, user or model is refused   Guest.Check          ends with that refusal
//	the gateway stops                         Room.Close           has its turn in time, or ends with that error
//	a smaller team needs its place            Room.Enter           ends with ErrCrowded
//	its client has left                       the context          ends with the context's cause
//	its time is up                            its own timer        is refused
//
// room.go holds the places, line.go the order of those that wait for one limit.
// A provider's queue keeps its own order, in package upstream.
package admission

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// ErrCrowded says that there is no place: the pool is full, and the team holds
// at least as many of its places as any other.
var ErrCrowded = errors.New("admission: too many requests wait")

// Room holds the requests of one gateway that wait. Its methods do not block
// and are safe for concurrent use.
type Room struct {
	mu     sync.Mutex
	pools  map[any]*pool
	lines  map[any]*line
	closed error // ends every wait; nil: the room is open
	wakes  atomic.Uint64
}

// pool is a number of places that all teams share.
type pool struct {
	n     int
	teams map[string][]*Place // by arrival
}

// New returns an empty room.
func New() *Room { return &Room{pools: map[any]*pool{}, lines: map[any]*line{}} }

// Guest is who waits.
type Guest struct {
	Team string
	// Check returns why the request is refused by now, or nil. It is called
	// with the room's lock held and must not call the room. nil: never refused.
	Check func() error
	// Since is Room.Wakes as it was before the guest was judged. A place that is
	// entered after a later Wake is Changed from the beginning. 0: that is of no
	// account.
	Since uint64
}

// Place is one waiting request's. Its methods but Context are for the request's
// own goroutine.
type Place struct {
	room    *Room
	guest   Guest
	pool    any
	ctx     context.Context
	cancel  context.CancelCauseFunc
	news    chan struct{}
	changed bool // Wake was called; under the room's mu

	line  *line // nil: none
	gain  time.Duration
	asked time.Time // when it last asked as the first; zero: not yet
	polls int
}

// Enter takes one of pool's most places, which ends with ctx. Where all are
// taken the team that holds most gives up its newest, if that is more than the
// guest's team would hold with this one. The error is ErrCrowded, that of Close, or
// the guest's refusal. Leave must be called on the place.
func (r *Room) Enter(ctx context.Context, pool any, most int, g Guest) (*Place, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed != nil {
		return nil, r.closed
	}
	if g.Check != nil { // it may be refused since it was judged
		if err := g.Check(); err != nil {
			return nil, err
		}
	}
	p := &Place{room: r, guest: g, pool: pool, news: make(chan struct{}, 1)}
	p.changed = g.Since != 0 && g.Since != r.Wakes()
	if !r.take(p, most) {
		return nil, ErrCrowded
	}
	p.ctx, p.cancel = context.WithCancelCause(ctx)
	return p, nil
}

// take enters p in its pool; mu is held.
func (r *Room) take(p *Place, most int) bool {
	all := r.pools[p.pool]
	if all == nil {
		all = &pool{teams: map[string][]*Place{}}
		r.pools[p.pool] = all
	}
	if all.n >= most && !all.makeRoom(p.guest.Team) {
		return false
	}
	all.teams[p.guest.Team] = append(all.teams[p.guest.Team], p)
	all.n++
	return true
}

// makeRoom ends the wait of the newest of the team that holds most places, and
// reports whether there was one with more than team would hold.
func (a *pool) makeRoom(team string) bool {
	var longest []*Place
	for _, places := range a.teams {
		if len(places) > len(longest) {
			longest = places
		}
	}
	if len(longest) <= len(a.teams[team])+1 {
		return false
	}
	newest := longest[len(longest)-1]
	newest.cancel(ErrCrowded)
	a.remove(newest)
	return true
}

// remove takes p out of the pool, if it is there.
func (a *pool) remove(p *Place) {
	places := a.teams[p.guest.Team]
	for i, other := range places {
		if other != p {
			continue
		}
		a.n--
		if len(places) == 1 {
			delete(a.teams, p.guest.Team)
			return
		}
		a.teams[p.guest.Team] = append(places[:i], places[i+1:]...)
		return
	}
}

// Leave gives the place up. Leaving twice is harmless.
func (p *Place) Leave() {
	r := p.room
	r.mu.Lock()
	defer r.mu.Unlock()
	p.cancel(nil)
	r.leaveLine(p)
	if all := r.pools[p.pool]; all != nil {
		if all.remove(p); all.n == 0 {
			delete(r.pools, p.pool)
		}
	}
}

// Context ends when the wait must end; its cause says why.
func (p *Place) Context() context.Context { return p.ctx }

// News receives when the request should look again at what it waits for.
func (p *Place) News() <-chan struct{} { return p.news }

// Changed reports whether Wake was called since the last call of Changed.
func (p *Place) Changed() bool {
	p.room.mu.Lock()
	defer p.room.mu.Unlock()
	changed := p.changed
	p.changed = false
	return changed
}

// Sleep waits for d, for news, or for the end of the wait, whose cause it
// returns.
func (p *Place) Sleep(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.ctx.Done():
		return context.Cause(p.ctx)
	case <-p.news:
		return nil
	case <-timer.C:
		return nil
	}
}

// tell sends news; mu is held.
func (p *Place) tell() {
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// Wake lets every waiting request look anew at all that it was decided by: the
// rules, the main switch, the blocks, or whether the store can be asked. Those
// that are refused by now end at once.
func (r *Room) Wake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wakes.Add(1)
	for _, l := range r.lines {
		l.zero = time.Time{}
	}
	r.each(func(p *Place) {
		if p.guest.Check != nil {
			if err := p.guest.Check(); err != nil {
				p.cancel(err)
				return
			}
		}
		p.changed, p.asked = true, time.Time{}
		p.tell()
	})
}

// Wakes is one more than the number of calls of Wake, so it is never 0.
func (r *Room) Wakes() uint64 { return r.wakes.Load() + 1 }

// Close ends with err what still waits after d, and whatever would wait then. It
// returns at once. The first Close whose time has come counts.
func (r *Room) Close(err error, d time.Duration) {
	if d > 0 {
		time.AfterFunc(d, func() { r.Close(err, 0) })
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed == nil {
		r.closed = err
		r.each(func(p *Place) { p.cancel(err) })
	}
}

// Waiting is the number of places of pool that are taken.
func (r *Room) Waiting(pool any) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if all := r.pools[pool]; all != nil {
		return all.n
	}
	return 0
}

// Len is the number of all places that are taken.
func (r *Room) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	r.each(func(*Place) { n++ })
	return n
}

// each calls f for every place; mu is held.
func (r *Room) each(f func(*Place)) {
	for _, all := range r.pools {
		for _, places := range all.teams {
			for _, p := range places {
				f(p)
			}
		}
	}
}
