package concurrency

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// Gate lets a number of holders work at once. The next to work is the one that
// waits longest of the team that has worked least, so teams share the time of
// the processors alike, whatever the number and size of their requests.
type Gate struct {
	mu    sync.Mutex
	free  int
	teams map[string]*flow
	least time.Duration // the most that a team had worked when it was let in: where one that was away begins
}

// flow is one team at a Gate.
type flow struct {
	worked  time.Duration
	working int // holders
	waiting []*Turn
}

// Turn is the right to work, from Enter to Leave. One goroutine uses it.
type Turn struct {
	gate  *Gate
	flow  *flow
	ready chan struct{} // closed when it may work
	since time.Time     // when what it worked was last counted
	in    bool          // it may work now
}

// NewGate returns a Gate for n holders. 0: one less than the processors that Go
// uses, and at least one, so that the rest of the program is never kept waiting.
func NewGate(n int) *Gate {
	if n <= 0 {
		n = max(1, runtime.GOMAXPROCS(0)-1)
	}
	return &Gate{free: n, teams: map[string]*flow{}}
}

// Enter waits until a team may work. It returns the Turn, which its holder must
// Leave, or ctx's error.
func (g *Gate) Enter(ctx context.Context, team string) (*Turn, error) {
	t := &Turn{gate: g, ready: make(chan struct{})}
	g.mu.Lock()
	f := g.teams[team]
	if f == nil {
		f = new(flow)
		g.teams[team] = f
	}
	if f.working == 0 && len(f.waiting) == 0 {
		f.worked = max(f.worked, g.least) // what it did not use is gone
	}
	t.flow = f
	f.waiting = append(f.waiting, t)
	g.admit()
	g.mu.Unlock()
	if err := t.await(ctx); err != nil {
		return nil, err
	}
	return t, nil
}

// await waits until t may work, or for ctx.
func (t *Turn) await(ctx context.Context) error {
	g, f := t.gate, t.flow
	select {
	case <-t.ready:
		t.in = true
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	select {
	case <-t.ready: // at the same moment
		t.in = true
		g.mu.Unlock()
		t.Leave()
	default:
		f.remove(t)
		g.mu.Unlock()
	}
	return ctx.Err()
}

// Yield lets another team work, if one waits that worked less, until its own turn
// comes again, which is the next of its team. It returns ctx's error.
func (t *Turn) Yield(ctx context.Context) error {
	g, f := t.gate, t.flow
	g.mu.Lock()
	f.worked += t.sinceBegan()
	if next := g.next(); next == nil || next == f || next.worked >= f.worked {
		g.mu.Unlock()
		return ctx.Err()
	}
	t.in, t.ready = false, make(chan struct{})
	f.working--
	g.free++
	f.waiting = append([]*Turn{t}, f.waiting...)
	g.admit()
	g.mu.Unlock()
	return t.await(ctx)
}

// Leave ends the turn, if it has not ended. It does not block.
func (t *Turn) Leave() {
	if !t.in {
		return
	}
	t.in = false
	g, f := t.gate, t.flow
	g.mu.Lock()
	defer g.mu.Unlock()
	f.worked += t.sinceBegan()
	f.working--
	g.free++
	g.admit()
}

// sinceBegan is how long t has worked since it began to, or was last asked.
func (t *Turn) sinceBegan() time.Duration {
	now := time.Now()
	d := now.Sub(t.since)
	t.since = now
	return d
}

// admit lets in as many as there is room for. mu is held.
func (g *Gate) admit() {
	for g.free > 0 {
		f := g.next()
		if f == nil {
			return
		}
		t := f.waiting[0]
		f.waiting = f.waiting[1:]
		f.working++
		g.free--
		g.least = max(g.least, f.worked)
		t.since = time.Now()
		close(t.ready)
	}
}

// next is the flow that waits and has the fewest holders and worked least, or
// nil. mu is held.
func (g *Gate) next() *flow {
	var best *flow
	for _, f := range g.teams {
		if len(f.waiting) == 0 {
			continue
		}
		if best == nil || f.working < best.working || f.working == best.working && f.worked < best.worked {
			best = f
		}
	}
	return best
}

func (f *flow) remove(t *Turn) {
	for i, other := range f.waiting {
		if other == t {
			f.waiting = append(f.waiting[:i], f.waiting[i+1:]...)
			return
		}
	}
}
