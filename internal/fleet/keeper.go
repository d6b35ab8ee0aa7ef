// Package fleet keeps account of which gateway processes live and whose
// reservations are still in flight. Its Keeper gives this process its epoch,
// beats for it, learns from the answers how many gateways there are and what
// the store's time is, ends what the dead have left open, and now and then
// compares what this process has open with what the store has.
//
// It does not decide requests (that is failover's Limiter, which asks the
// Keeper for epoch, time and number of gateways), and it keeps no counters.
// Slots need no keeping here: the store changes them only where it makes and
// ends a reservation.
//
//	             Fenced (by a beat or a refused call)
//	            ┌────────────────────────────┐
//	            ▼                            │
//	New ──► epoch i@t.0 ── beats ──► epoch i@t.1 … ──► Retire
//	            │ silent for reclaim_after
//	            ▼
//	       fenced and reclaimed by any other gateway
//
// keeper.go holds the Keeper's life and its epoch, loops.go what it does again
// and again, clock.go the store's time. Wiring, the Limiter included:
//
//	keeper := fleet.New(fleet.Config{Store: store, Instance: "gw-1"})
//	limiter := failover.New(failover.Config{Store: store, Keeper: keeper, …})
//	keeper.Start(limiter)
//	defer limiter.Close(ctx) // settles, then retires the keeper
package fleet

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"llmgw/internal/budget"
)

// Config says how a Keeper works. The zero value of every field but Store has
// a default.
type Config struct {
	Store budget.Store
	// Instance is this gateway's id, the same after a restart; a random one if empty.
	Instance string
	// Heartbeat is the time between two beats. 0: a second.
	Heartbeat time.Duration
	// ReclaimAfter is how long an epoch may be silent. 0: ten seconds.
	ReclaimAfter time.Duration
	// ReclaimBatch is the most reservations that one call ends. 0: 200.
	ReclaimBatch int
	// AntiEntropy is the time between two comparisons of what is open here with
	// what the store has of this epoch. 0: 30 seconds.
	AntiEntropy time.Duration
	// Grace is the age from which a reservation that this process does not know
	// is ended by a comparison. 0: ten seconds.
	Grace time.Duration
	// Timeout bounds each of the Keeper's calls of the store. 0: a second.
	Timeout time.Duration
	// ClockTolerance is how far the store's clock may move against this
	// process's monotonic clock before it is told. 0: 250 ms.
	ClockTolerance time.Duration
	// Book gets the reservations with a tag that this process reclaimed: whose
	// gateway could not. It must not block. nil: nobody books them.
	Book     func([]budget.Ended)
	Logger   *slog.Logger // nil: slog.Default
	Observer Observer     // nil: nobody watches
}

// Observer is told what a Keeper does. Its methods must not block.
type Observer interface {
	// Reservations says that n reservations ended with result "reclaimed".
	Reservations(result string, n int)
	// ClockStep says that the store's clock moved by d against ours.
	ClockStep(d time.Duration)
}

// Reservations is what a Keeper asks of the Limiter.
type Reservations interface {
	// Strangers removes from ids those of reservations that are open here, or whose
	// end is on its way to the store.
	Strangers(ids map[string]time.Duration)
	// StoreCall ends a call of the store: so an outage is noticed without requests.
	StoreCall(op string, d time.Duration, err error)
}

// Keeper keeps one process's place among the gateways. It is safe for
// concurrent use.
type Keeper struct {
	cfg   Config
	clock clock

	epoch  atomic.Pointer[life]
	fleet  fleet
	steady atomic.Int64  // since when every beat was answered, as clock.elapsed; 0: the last was not
	beats  chan struct{} // asks for a beat now

	open   Reservations
	cancel context.CancelFunc
	ctx    context.Context // of the loops
	loops  sync.WaitGroup
	retire sync.Once
}

// life is one epoch: the process's start and how often it was fenced since.
type life struct {
	n  int
	id budget.Epoch
}

// New returns a Keeper with its first epoch. It calls nothing before Start.
func New(cfg Config) *Keeper {
	cfg.Instance = instance(cfg.Instance)
	for _, d := range []struct{ value, otherwise *time.Duration }{
		{&cfg.Heartbeat, ptr(time.Second)},
		{&cfg.ReclaimAfter, ptr(10 * time.Second)},
		{&cfg.AntiEntropy, ptr(30 * time.Second)},
		{&cfg.Grace, ptr(10 * time.Second)},
		{&cfg.Timeout, ptr(time.Second)},
		{&cfg.ClockTolerance, ptr(250 * time.Millisecond)},
	} {
		if *d.value <= 0 {
			*d.value = *d.otherwise
		}
	}
	if cfg.ReclaimBatch <= 0 {
		cfg.ReclaimBatch = 200
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Observer == nil {
		cfg.Observer = nobody{}
	}
	k := &Keeper{cfg: cfg, beats: make(chan struct{}, 1)}
	k.clock.base = time.Now()
	k.fleet.live.Store(1)
	k.ctx, k.cancel = context.WithCancel(context.Background())
	k.cfg.Instance += "@" + strconv.FormatInt(k.clock.base.UnixMilli(), 36) + random(4)
	k.epoch.Store(k.life(0))
	return k
}

// Start begins to beat, to reclaim and to compare. It does not block: a store
// that is away is tried again. Start once.
func (k *Keeper) Start(open Reservations) {
	k.open = open
	k.loops.Go(k.beat)
	k.loops.Go(k.reclaim)
	k.loops.Go(k.compare)
}

// Retire stops the loops, waits for them, and ends the epoch in the store:
// what it still has open is reclaimed at once. It blocks for one call of the
// store and returns that call's error; a second Retire does nothing.
func (k *Keeper) Retire(ctx context.Context) error {
	var err error
	k.retire.Do(func() {
		k.cancel()
		k.loops.Wait()
		e := k.Epoch()
		if err = k.call("retire", func() error { return k.cfg.Store.Retire(ctx, e) }); err != nil {
			err = fmt.Errorf("retire epoch %s: %w", e, err)
		}
	})
	return err
}

// Epoch is the epoch that new reservations belong to.
func (k *Keeper) Epoch() budget.Epoch { return k.epoch.Load().id }

// Renew takes a new epoch if fenced is the present one, and returns the one
// that is in force then. It does not block; a beat for the new one follows.
func (k *Keeper) Renew(fenced budget.Epoch) budget.Epoch {
	for {
		now := k.epoch.Load()
		if now.id != fenced {
			return now.id
		}
		next := k.life(now.n + 1)
		if k.epoch.CompareAndSwap(now, next) {
			k.cfg.Logger.Warn("this gateway was silent and its reservations were reclaimed: taking a new epoch",
				"fenced", string(fenced), "epoch", string(next.id))
			k.Beat()
			return next.id
		}
	}
}

// Live is the number of gateways that beat, this one included; at least 1. It
// rises at once and falls only when fewer were told for ReclaimAfter: a store
// that comes back empty hears of the gateways one by one.
func (k *Keeper) Live() int { return int(k.fleet.live.Load()) }

// Beat asks for a beat now, to learn the store's time or to show a new epoch.
// It does not block.
func (k *Keeper) Beat() {
	select {
	case k.beats <- struct{}{}:
	default: // one is asked for already
	}
}

func (k *Keeper) life(n int) *life {
	return &life{n: n, id: budget.Epoch(k.cfg.Instance + "." + strconv.Itoa(n))}
}

// call observes one call of the store.
func (k *Keeper) call(op string, do func() error) error {
	start := time.Now()
	err := do()
	if k.open != nil { // it was started
		k.open.StoreCall(op, time.Since(start), err)
	}
	return err
}

// instance is the given id without what a key of a store cannot bear, or a random one.
func instance(id string) string {
	id = strings.Map(func(r rune) rune {
		if strings.ContainsRune("{}@ \t\r\n", r) {
			return '-'
		}
		return r
	}, id)
	if id == "" {
		return "gw-" + random(6)
	}
	return id
}

// random is n random bytes in hexadecimal.
func random(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

func ptr[T any](v T) *T { return &v }

// nobody is the Observer that looks away.
type nobody struct{}

func (nobody) Reservations(string, int) {}
func (nobody) ClockStep(time.Duration)  {}
