// Package lease lets a gateway decide the requests of a busy caller itself. It
// is a budget.Store over another: what several requests will need is reserved
// at once, as one reservation of the store, and the requests are then granted
// from that without a call.
//
//	             20 a second, steadily           most of it is spent, or half of its time
//	asked one by one ───────────────► a lease ────────────────────────────► the next lease
//	      ▲                             │ 1 s old, not used for five mean pauses, or somebody is refused
//	      └─────────────────────────────┘ what is left goes back
//
// A lease is a reservation like any other: all or nothing over its limits,
// counted as open, in the epoch of its gateway, reclaimed with it. So no bound
// of a limit changes. It only grants: a request that does not fit, and every
// refusal, is the store's; and before a refusal what this gateway holds of the
// limits in question is given back and the store asked again. A lease is at most a
// tenth (of slots a quarter) of what is left above the last tenth of a limit,
// divided by the gateways, and there is none in that last tenth.
//
// Only limits whose counters allow it are leased from: enforced token buckets,
// calendar budgets and slots, without a candidate. Requests that meet another
// kind are passed on, and so is everything else.
//
// What ended in a lease is reported to the store every 50 ms. A gateway that is
// killed has at most so much not yet reported, and is charged for it as much as
// between the last two reports.
//
// lease.go is the Store's life, group.go who is busy and how much they need,
// grant.go and member.go the requests' side of a lease, ask.go, upkeep.go and
// overrun.go the store's side, view.go what a lease changes of what the store says.
package lease

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"llmgw/internal/budget"
)

// Config says how a Store leases. The zero value of every field but Store has a
// default.
type Config struct {
	// Store is where the counters are.
	Store budget.Store
	// Busy is the requests of one kind in a second from which on they are granted
	// from leases, seen in Steady seconds in a row. 0: 20.
	Busy int
	// Steady is how many seconds in a row a caller must be busy. 0: 2.
	Steady int
	// Timeout bounds the calls that no request waits for. 0: a second.
	Timeout time.Duration

	Logger   *slog.Logger // nil: slog.Default
	Observer Observer     // nil: nobody watches
}

// Observer is told what a Store does. Its methods must not block.
type Observer interface {
	// StoreCall ends a call of the store that no request waited for.
	StoreCall(op string, d time.Duration, err error)
}

const (
	lifetime = time.Second            // of a lease
	ahead    = 500 * time.Millisecond // of demand that a lease is for
	pauses   = 5                      // of a group's mean, without a grant, and it is given back
	idleMost = 250 * time.Millisecond // but at most this
	beat     = 50 * time.Millisecond  // between two reports; no lease is idle sooner
	cooling  = time.Second            // without leases after a refusal or a failure
	slack    = 250 * time.Millisecond // for what is not known of the store's clock
	fewest   = 8                      // requests that a lease must be good for
	groupsOf = 4096                   // the most callers that are watched
)

// Store is a budget.Store that grants from leases where it can. It is safe for
// concurrent use.
type Store struct {
	budget.Store
	enqueuer budget.Enqueuer // the store, or nil
	cfg      Config
	prefix   string // of the leases' ids
	ids      atomic.Int64
	seed     maphash.Seed
	granted  atomic.Int64

	calls   calls
	groups  groups
	members members
	fleet   atomic.Int64 // live gateways

	mu     sync.Mutex
	leases map[string]*lease // not yet ended in the store, by id
	held   atomic.Int64      // how many those are

	ctx    context.Context
	cancel context.CancelFunc
	wake   chan struct{}
	asking sync.WaitGroup
	loop   sync.WaitGroup
	once   sync.Once
}

var (
	_ budget.Store    = (*Store)(nil)
	_ budget.Enqueuer = (*Store)(nil)
)

// New returns a Store and starts its upkeep, which Close ends.
func New(cfg Config) *Store {
	if cfg.Busy <= 0 {
		cfg.Busy = 20
	}
	if cfg.Steady <= 0 {
		cfg.Steady = 2
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Observer == nil {
		cfg.Observer = nobody{}
	}
	s := &Store{
		Store: cfg.Store, cfg: cfg, prefix: "lease-" + random() + "-", seed: maphash.MakeSeed(),
		leases: make(map[string]*lease), wake: make(chan struct{}, 1),
	}
	s.enqueuer, _ = cfg.Store.(budget.Enqueuer)
	s.groups.init()
	s.fleet.Store(1)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.loop.Go(s.upkeep)
	return s
}

// Close gives back what is leased, as far as its requests have ended, and closes
// the store beneath.
func (s *Store) Close() error {
	s.once.Do(func() {
		s.cancel()
		s.asking.Wait()
		s.loop.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), s.cfg.Timeout)
		defer cancel()
		s.surrender(ctx)
	})
	return s.Store.Close()
}

// Leases is the number of leases that were asked for and have not ended.
func (s *Store) Leases() int { return int(s.held.Load()) }

// Granted is the number of requests that were granted from leases.
func (s *Store) Granted() int64 { return s.granted.Load() }

// Heartbeat implements budget.Store, and learns how many gateways share the
// limits. A fenced epoch grants from its leases no more.
func (s *Store) Heartbeat(ctx context.Context, e budget.Epoch) (budget.Beat, error) {
	b, err := s.Store.Heartbeat(ctx, e)
	if err == nil {
		s.fleet.Store(int64(max(1, b.Live)))
	}
	if b.Fenced {
		for _, l := range s.all() {
			l.group.mu.Lock()
			if l.epoch == e {
				l.close()
			}
			l.group.mu.Unlock()
		}
	}
	return b, err
}

// ErrUnsettled says that the store does not know all that leases have spent.
var ErrUnsettled = errors.New("lease: what was spent could not be told to the store")

// Retire implements budget.Store: leases are settled before their epoch ends, for
// as long as ctx lasts. Those with open requests are left to be reclaimed.
func (s *Store) Retire(ctx context.Context, e budget.Epoch) error {
	again := time.NewTicker(beat)
	defer again.Stop()
	for !s.surrender(ctx) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("retire %s: %w: %w", e, ErrUnsettled, ctx.Err())
		case <-again.C:
		}
	}
	return s.Store.Retire(ctx, e)
}

// OpenIDs implements budget.Store. Leases are not listed: those that this
// process has lost sight of are.
func (s *Store) OpenIDs(ctx context.Context, e budget.Epoch) (map[string]time.Duration, error) {
	ids, err := s.Store.OpenIDs(ctx, e)
	for _, l := range s.all() {
		delete(ids, l.id)
	}
	return ids, err
}

// all is a copy of the list of leases.
func (s *Store) all() []*lease {
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

func (s *Store) add(l *lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leases[l.id] = l
	s.held.Store(int64(len(s.leases)))
	select {
	case s.wake <- struct{}{}:
	default: // the upkeep is awake
	}
}

func (s *Store) remove(l *lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.leases, l.id)
	s.held.Store(int64(len(s.leases)))
}

// observe makes a call that no request waits for.
func (s *Store) observe(op string, call func() error) error {
	start := time.Now()
	err := call()
	s.cfg.Observer.StoreCall(op, time.Since(start), err)
	return err
}

func (s *Store) nextID() string { return s.prefix + strconv.FormatInt(s.ids.Add(1), 36) }

func random() string {
	b := make([]byte, 8)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// nobody is the Observer that looks away.
type nobody struct{}

func (nobody) StoreCall(string, time.Duration, error) {}
