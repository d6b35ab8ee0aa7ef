// Package lease lets a gateway decide the requests of a busy caller itself. It
// is a budget.Limiter before another: what several requests will need is reserved
// at once, as one reservation, and the requests are then granted from that
// without a call.
//
//	             20 a second, steadily           most of it is spent, or half of its time
//	asked one by one ───────────────► a lease ────────────────────────────► the next lease
//	      ▲                             │ 1 s old, not used for five mean pauses, or somebody is refused
//	      └─────────────────────────────┘ what is left goes back
//
// A lease is a reservation like any other, a failover.Bulk: all or nothing over
// its limits, counted as open, in the epoch of its gateway, reclaimed with it. So
// no bound of a limit changes. It only grants: a request that does not fit, and
// every refusal, is decided beneath; and before a refusal what this gateway holds
// of the limits in question is given back and the store asked again. A lease is
// at most a tenth (of slots a quarter) of what is left above the last tenth of a
// limit, divided by the gateways, and there is none in that last tenth. While the
// store is away nothing is granted from leases.
//
// Only limits whose counters allow it are leased from: enforced token buckets,
// calendar budgets and slots, without a candidate. Requests that meet another
// kind are passed on.
//
// What ended in a lease is reported to the store every 50 ms. A gateway that is
// killed has at most so much not yet reported, and is charged for it as much as
// between the last two reports.
//
// lease.go is the Limiter's life, group.go who is busy and how much they need,
// grant.go and member.go the requests' side of a lease, upkeep.go the Limiter's
// beneath, view.go what a lease changes of what the store says.
package lease

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/maphash"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/budget/failover"
)

// Config says how a Limiter leases. The zero value of each field has a default.
type Config struct {
	// Busy is the requests of one kind in a second from which on they are granted
	// from leases, seen in Steady windows in a row. 0: 20.
	Busy int
	// Steady is how many windows in a row a caller must be busy. 0: 2.
	Steady int
	// Window is how long requests are counted before their rate is judged. 0: a second.
	Window time.Duration
}

const (
	lifetime = time.Second            // of a lease
	ahead    = 500 * time.Millisecond // of demand that a lease is for
	pauses   = 5                      // of a group's mean, without a grant, and it is given back
	idleMost = 250 * time.Millisecond // but at most this
	beat     = 50 * time.Millisecond  // between two reports; no lease is idle sooner
	cooling  = time.Second            // without leases after a refusal or a failure
	fewest   = 8                      // requests that a lease must be good for
	groupsOf = 4096                   // the most callers that are watched
)

// Limiter is a budget.Limiter that grants from leases where it can, and lets the
// one beneath do all else. It is safe for concurrent use.
type Limiter struct {
	*failover.Limiter
	cfg     Config
	prefix  string // of the leases' ids
	ids     atomic.Int64
	seed    maphash.Seed
	granted atomic.Int64

	changes changes
	groups  groups

	mu     sync.Mutex
	leases map[string]*lease // asked for and not yet ended in the store, by id
	held   atomic.Int64      // how many those are

	ctx    context.Context
	cancel context.CancelFunc
	wake   chan struct{}
	asking sync.WaitGroup
	loop   sync.WaitGroup
}

var _ budget.Limiter = (*Limiter)(nil)

// New returns a Limiter before another and starts its upkeep. Close ends both.
func New(beneath *failover.Limiter, cfg Config) *Limiter {
	if cfg.Busy <= 0 {
		cfg.Busy = 20
	}
	if cfg.Steady <= 0 {
		cfg.Steady = 2
	}
	if cfg.Window <= 0 {
		cfg.Window = time.Second
	}
	s := &Limiter{
		Limiter: beneath, cfg: cfg, prefix: "lease-" + random() + "-", seed: maphash.MakeSeed(),
		leases: make(map[string]*lease), wake: make(chan struct{}, 1),
	}
	s.groups.init()
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.loop.Go(s.upkeep)
	return s
}

// ErrUnsettled says that the store does not know all that leases have spent.
var ErrUnsettled = errors.New("lease: what was spent could not be told to the store")

// Close grants no more, tells the store what leases have spent, for as long as ctx
// lasts, and closes the Limiter beneath. Leases with open requests are left to be
// reclaimed.
func (s *Limiter) Close(ctx context.Context) error {
	s.cancel()
	s.loop.Wait()
	err := s.drain(ctx)
	return errors.Join(err, s.Limiter.Close(ctx))
}

// drain gives all leases back.
func (s *Limiter) drain(ctx context.Context) error {
	again := time.NewTicker(beat)
	defer again.Stop()
	for {
		for _, l := range s.all() {
			l.await(ctx)
			l.group.mu.Lock()
			l.close()
			l.group.mu.Unlock()
		}
		if s.maintain(ctx, time.Now()) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("give leases back: %w: %w", ErrUnsettled, ctx.Err())
		case <-again.C:
		}
	}
}

// Leases is the number of leases that were asked for and have not ended.
func (s *Limiter) Leases() int { return int(s.held.Load()) }

// Granted is the number of requests that were granted from leases.
func (s *Limiter) Granted() int64 { return s.granted.Load() }

// all is a copy of the list of leases.
func (s *Limiter) all() []*lease {
	if s.held.Load() == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*lease, 0, len(s.leases))
	for _, l := range s.leases {
		list = append(list, l)
	}
	return list
}

func (s *Limiter) add(l *lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leases[l.id] = l
	s.held.Store(int64(len(s.leases)))
	select {
	case s.wake <- struct{}{}:
	default: // the upkeep is awake
	}
}

func (s *Limiter) remove(l *lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.leases, l.id)
	s.held.Store(int64(len(s.leases)))
}

func (s *Limiter) nextID() string { return s.prefix + strconv.FormatInt(s.ids.Add(1), 36) }

func random() string {
	b := make([]byte, 8)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
