// Package failover is the budget.Limiter that a gateway asks: a budget.Store
// behind a deadline, and what to do while the store cannot answer. No request
// ever waits longer than Timeout for a decision, and none is tried again.
//
//	   3 calls, one after the other, fail
//	up ────────────────────────────────► down
//	 ▲   every call asks the store        │  every request is decided here, in
//	 │                                    │  microseconds, by its limits' policy
//	 └──────── a probe is answered ───────┘
//	           then what happened meanwhile is told to the store
//
// While it is down, or if one call fails: a Closed limit refuses, an Open one
// grants, a Local one grants this gateway's share (local.go). What was spent
// then is posted to the store when it is back. A call without an answer counts
// as not granted, and is cancelled in the background.
//
// The package does no arithmetic of limits and keeps no epochs: the stores do
// the one, fleet.Keeper the other. failover.go holds the Limiter's life,
// reserve.go and settle.go the two halves of a reservation's, record.go what is
// known of it meanwhile; local.go, share.go and counters.go decide without a
// store, breaker.go and probe.go tell when to ask it, worker.go and post.go catch
// up, leave.go leaves to the store what they could not, progress.go and correct.go
// report. Wiring:
//
//	keeper := fleet.New(fleet.Config{Store: store, Instance: "gw-1"})
//	limiter := failover.New(failover.Config{Store: store, Keeper: keeper, Timeout: 20 * time.Millisecond})
//	keeper.Start(limiter)
//	defer limiter.Close(ctx) // settles, then retires the keeper
package failover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/budget/memstore"
)

// Config says how a Limiter works. Store and Keeper are required; the zero
// value of every other field has a default.
type Config struct {
	Store  budget.Store
	Keeper keeper // a *fleet.Keeper

	// Timeout bounds one call of the store by a request. 0: Store is in this
	// process and answers at once, so there is no deadline, and settlements are
	// made before Settle returns.
	Timeout time.Duration
	// Slack is added to Timeout for the store's own deadline of a call, for what
	// is not known of its clock. 0: 250 ms.
	Slack time.Duration
	// Failures is how many calls, one after the other, must fail before the
	// store is not asked any more. 0: 3.
	Failures int
	// Probe is the time between two probes of a store that is down; it doubles,
	// up to ten times, for a store that keeps falling. 0: 100 ms.
	Probe time.Duration
	// Queue is the most ended reservations that wait for the store. 0: 100,000.
	Queue int
	// MaxOpen bounds the reservations that are open, and so the records that this
	// gateway has in the store: beyond it requests are Unavailable. 0: 250,000.
	MaxOpen int
	// Progress is the time between two reports of what open reservations have
	// used. 0: 3 s.
	Progress time.Duration
	// CrashCharge is for requests that name none.
	CrashCharge budget.CrashCharge

	Logger   *slog.Logger // nil: slog.Default
	Observer Observer     // nil: nobody watches

	// newShares makes an empty store in memory for the shares of Local limits.
	newShares func(now func() time.Time) budget.Store
}

// Observer is told what a Limiter does. Its methods must not block.
type Observer interface {
	// StoreCall ends a call of the store.
	StoreCall(op string, d time.Duration, err error)
	// StoreUp says whether the store is asked.
	StoreUp(up bool)
	// Reservations says that n requests' reservations ended with result: "settled",
	// "refunded" (nothing was used) or "dropped" (the queue was full); and besides
	// "unbooked", if more was used than the largest debt of a limit: the rest is not
	// held against it, and whoever keeps books has it in what was used.
	Reservations(result string, n int)
}

// keeper is what a Limiter asks of the fleet.Keeper. None but Retire blocks.
type keeper interface {
	Epoch() budget.Epoch
	// Renew takes a new epoch in place of the fenced one, and returns it.
	Renew(fenced budget.Epoch) budget.Epoch
	// Live is the number of gateways, at least 1.
	Live() int
	// Now is the store's time, zero if it is not known.
	Now() time.Time
	// Observe learns the store's time from an answer.
	Observe(at, sent, received time.Time)
	// Beat asks for a heartbeat now.
	Beat()
	// Retire ends the epoch.
	Retire(ctx context.Context) error
}

// Limiter is the budget.Limiter over a Store. It is safe for concurrent use.
type Limiter struct {
	cfg      Config
	store    budget.Store
	keeper   keeper
	log      *slog.Logger
	observer Observer

	breaker  breaker
	records  records
	counters counters
	queue    queue
	backlog  backlog
	outbox   outbox
	corrects corrections

	outage   atomic.Pointer[outage] // with the share store; nil while the store answers
	outageMu sync.Mutex             // of making and ending one

	closed  atomic.Bool
	wake    chan struct{}
	ctx     context.Context // of the background calls
	cancel  context.CancelFunc
	workers sync.WaitGroup
}

var _ budget.Limiter = (*Limiter)(nil)

// New returns a Limiter and starts its background work, which Close ends.
func New(cfg Config) *Limiter {
	cfg.Slack = or(cfg.Slack, 250*time.Millisecond)
	cfg.Failures = or(cfg.Failures, 3)
	cfg.Probe = or(cfg.Probe, 100*time.Millisecond)
	cfg.Queue = or(cfg.Queue, 100_000)
	cfg.MaxOpen = or(cfg.MaxOpen, 250_000)
	cfg.Progress = or(cfg.Progress, 3*time.Second)
	if cfg.CrashCharge == "" {
		cfg.CrashCharge = budget.ChargeProgress
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Observer == nil {
		cfg.Observer = nobody{}
	}
	if cfg.newShares == nil {
		cfg.newShares = func(now func() time.Time) budget.Store { return memstore.New(now) }
	}
	l := &Limiter{
		cfg: cfg, store: cfg.Store, keeper: cfg.Keeper, log: cfg.Logger, observer: cfg.Observer,
		wake: make(chan struct{}, 1),
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.breaker.base, l.breaker.threshold = time.Now(), int64(cfg.Failures)
	l.counters.init()
	l.queue.init(cfg.Queue)
	l.backlog.init(cfg.Queue)
	l.outbox.turn = make(chan struct{}, 1)
	l.corrects.init()
	l.observer.StoreUp(true)
	l.workers.Go(l.work)
	l.workers.Go(l.reportLoop)
	return l
}

// Up reports whether the store is asked. It is so before the first call, too.
func (l *Limiter) Up() bool { return !l.breaker.isDown() }

// Open is the number of requests' reservations that were granted and that the
// store does not know to be settled, those from a Bulk included; those of turns
// with providers are not counted.
func (l *Limiter) Open() int { return int(l.records.open.Load()) }

// Unwritten is the number of ended reservations that the store does not know
// of yet, and of counters that were spent from without it.
func (l *Limiter) Unwritten() int { return l.queue.len() + l.backlog.len() }

// Read returns counters as the store has them now, less what it is yet to be
// charged for. It blocks until ctx ends at most, and fails at once while the store
// is down.
func (l *Limiter) Read(ctx context.Context, lines []budget.Line) ([]budget.LineState, time.Time, error) {
	if !l.Up() {
		return nil, time.Time{}, errAway
	}
	start := time.Now()
	states, at, err := l.store.Read(ctx, lines)
	l.observer.StoreCall("read", time.Since(start), err)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read %d counters: %w", len(lines), err)
	}
	l.learn(lines, states, start)
	l.backlog.subtract(lines, states)
	return states, at, nil
}

// Drifted returns the limits of whose counters the store last named other amounts
// than the limit has: the file of another gateway is newer.
func (l *Limiter) Drifted() map[*budget.Limit]struct{} { return l.counters.drifted() }

// errAway says that the store is down.
var errAway = errors.New("failover: the store does not answer")

// Close takes no more requests, writes what has ended to the store, stops the
// background work and retires the epoch; reservations still open are then
// reclaimed. It blocks until that is done or ctx ends; what the store has not
// acknowledged by then is left to it, which takes parting.Time at most. The error
// says how many settlements that were. Close once.
func (l *Limiter) Close(ctx context.Context) error {
	l.closed.Store(true)
	flushErr := l.flush(ctx)
	l.SendReports(ctx) // what stays open is charged by them
	l.cancel()
	if flushErr != nil {
		flushErr = errors.Join(flushErr, l.leave(ctx))
	}
	l.workers.Wait()
	l.endOutage()
	return errors.Join(flushErr, l.keeper.Retire(ctx))
}

// flush waits until nothing is unwritten or ctx ends.
func (l *Limiter) flush(ctx context.Context) error {
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for {
		n := l.Unwritten()
		if n == 0 {
			return nil
		}
		l.nudge()
		select {
		case <-ctx.Done():
			return fmt.Errorf("close the limiter: %d settlements could not be written: %w", n, ctx.Err())
		case <-poll.C:
		}
	}
}

// deadline bounds a call on behalf of a request. A client that leaves does not
// end it: an answer within Timeout is cheaper than a cancelled reservation.
func (l *Limiter) deadline(ctx context.Context, deadline time.Time) (context.Context, context.CancelFunc) {
	if l.cfg.Timeout <= 0 {
		return ctx, func() {}
	}
	return context.WithDeadline(context.WithoutCancel(ctx), deadline)
}

// background bounds a call that no request waits for.
func (l *Limiter) background() (context.Context, context.CancelFunc) {
	return context.WithTimeout(l.ctx, max(10*l.cfg.Timeout, time.Second/2))
}

// nudge wakes the worker.
func (l *Limiter) nudge() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// or is v, or otherwise if v is not positive.
func or[T int | time.Duration](v, otherwise T) T {
	if v <= 0 {
		return otherwise
	}
	return v
}

// nobody is the Observer that looks away.
type nobody struct{}

func (nobody) StoreCall(string, time.Duration, error) {}
func (nobody) StoreUp(bool)                           {}
func (nobody) Reservations(string, int)               {}
