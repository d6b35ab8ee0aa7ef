package redisstore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"llmgw/internal/budget"
)

// A batcher orders the calls of this process on one base (the whole store, or one
// tag of a cluster) and lets those that wait travel together: while a call is
// in flight, the next one collects. There is no timer, so a lone caller waits
// for nobody.
//
//	Reserve ─┐                        ┌─► settle.lua ┐
//	Settle  ─┼─► waiting ──(one call)─┤              ├─► answers
//	Enqueue ─┘                        └─► reserve.lua┘
//
// In a call the settlements come first: whatever was settled before a Reserve
// began has been applied when it is decided.
type batcher struct {
	s    *Store
	base string

	mu       sync.Mutex
	reserves []*reserving
	settles  []*settling
	cancels  []*settling // of a failed call's reserves: they travel with the next call
	running  bool
	runner   bool          // its goroutine was started
	warm     bool          // Redis had both scripts at the last call that needed them; the runner's
	owed     atomic.Int64  // by Store.elapsed, since when Redis owes an answer; 0: it owes none
	wake     chan struct{} // tells the runner that something waits
}

const (
	maxReserves = 128  // of one call, so that it stays below a millisecond
	maxKeys     = 1000 // of one call, besides records
	maxSettles  = 256
	maxCancels  = 1 << 16
)

// reserving is a request that waits for its answer.
type reserving struct {
	id    string
	force bool
	epoch budget.Epoch
	parts []part
	lines int    // of parts; the rest are candidates'
	head  []byte // not_after, lifetime, crash, force, lines, parts

	done   chan struct{}
	status byte
	states []budget.LineState // of parts
	at     int64
	err    error

	sent, left bool // under the batcher's mu
}

// settling is a settlement that waits for its answer.
type settling struct {
	id   string
	body []byte // mode, count, what was used
	done func(budget.Settled, error)
}

var errClosed = errors.New("redis: the store is closed")

func (s *Store) batcher(base string) *batcher {
	if l, ok := s.batchers.Load(base); ok {
		return l.(*batcher)
	}
	l, _ := s.batchers.LoadOrStore(base, &batcher{s: s, base: base, wake: make(chan struct{}, 1)})
	return l.(*batcher)
}

// reserve waits for the decision on w, or for ctx. If ctx's deadline passes
// while this process is late, and not Redis, it waits on, and returns
// budget.ErrOverloaded if that does not end. A w that was granted after its
// caller left is cancelled.
func (l *batcher) reserve(ctx context.Context, w *reserving) error {
	if !l.queue(w) {
		return errClosed
	}
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
	}
	err := context.Cause(ctx)
	if errors.Is(err, context.DeadlineExceeded) && !l.catchUp(w.done) {
		err = budget.ErrOverloaded
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-w.done:
		return w.err // it came just in time
	default:
	}
	w.left = true
	return fmt.Errorf("reserve: %w", err)
}

// longestDelay is how long a request waits for a process that is late.
const longestDelay = time.Second

// catchUp waits until done is closed, or Redis has had its timeout for an answer
// and gave none. It returns false if neither was so within longestDelay: this
// process has too much to do.
func (l *batcher) catchUp(done <-chan struct{}) bool {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for end := time.Now().Add(longestDelay); time.Now().Before(end); {
		wait := l.s.timeout / 4
		if owed := l.owed.Load(); owed != 0 {
			left := l.s.timeout - min(l.s.since(owed), l.s.conns.silence(l.s.timeout))
			if left <= 0 {
				return true
			}
			wait = min(wait, left)
		}
		pause.Reset(wait)
		select {
		case <-done:
			return true
		case <-pause.C:
		}
	}
	return false
}

func (l *batcher) queue(w *reserving) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.start() {
		return false
	}
	l.reserves = append(l.reserves, w)
	return true
}

// settle puts w in the order of calls; w.done, if there is one, is called with
// what came of it.
func (l *batcher) settle(w *settling) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.start() {
		l.settles = append(l.settles, w)
		return
	}
	if w.done != nil {
		go w.done(budget.Settled{}, errClosed)
	}
}

// start lets the batcher run if it does not. It is false if the store is closed;
// mu is held.
func (l *batcher) start() bool {
	if l.running {
		return true
	}
	if !l.s.begin() {
		return false
	}
	l.running = true
	if !l.runner {
		l.runner = true
		go l.loop()
	}
	l.wake <- struct{}{} // has room: it did not run
	return true
}

// loop runs the batcher whenever something waits, until the store is closed. One
// goroutine makes all its calls: a new one for each would grow its stack anew.
func (l *batcher) loop() {
	for {
		select {
		case <-l.wake:
			l.run()
		case <-l.s.done:
			return
		}
	}
}

// run makes calls until nothing waits.
func (l *batcher) run() {
	defer l.s.calls.Done()
	for {
		// Those whom the last call answered come back with their next request
		// if they are let.
		runtime.Gosched()
		settles, reserves, waiting := l.next()
		if !waiting {
			return
		}
		l.call(settles, reserves)
	}
}

// next takes what goes into the next call, or ends the run if nothing waits. It
// may take nothing: all callers may have left.
func (l *batcher) next() (settles []*settling, reserves []*reserving, waiting bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.settles)+len(l.reserves) == 0 {
		l.running = false
		return nil, nil, false
	}
	if len(l.cancels) > 0 {
		n := min(len(l.cancels), maxSettles)
		settles = append(settles, l.cancels[:n]...)
		l.cancels = append(l.cancels[:0], l.cancels[n:]...)
	}
	n := min(len(l.settles), maxSettles)
	settles = append(settles, l.settles[:n]...)
	l.settles = append(l.settles[:0], l.settles[n:]...)
	if len(l.settles) > 0 {
		return settles, nil, true // reserves wait for the settlements before them
	}
	keys, taken := 0, 0
	for _, w := range l.reserves {
		if keys += len(w.parts); len(reserves) == maxReserves || keys > maxKeys && len(reserves) > 0 {
			break
		}
		taken++
		if !w.left {
			w.sent = true
			reserves = append(reserves, w)
		}
	}
	l.reserves = append(l.reserves[:0], l.reserves[taken:]...)
	return settles, reserves, true
}
