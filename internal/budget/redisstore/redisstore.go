// Package redisstore keeps counters and reservations in Redis, for gateways
// that share them: one server, Sentinel, or a Cluster. Every decision is made
// by a script inside Redis, by Redis's clock, in one step.
//
// It does not decide what happens while Redis is away; failover does.
//
// redisstore.go opens the store, rules.go turns limits into what the scripts
// read, script.go runs them, dispatch.go puts the algorithms' files together, batcher.go and call.go let calls that wait travel
// together, conn.go measures the time of an answer where it arrives; reserve.go, settle.go, read.go and epoch.go are the operations, each with its
// .lua files. wire.go is the encoding between the two.
//
// Keys, under prefix (on a cluster prefix:{tag}, tag being the limit's):
//
//	:c:…          a counter, by budget.CounterKey
//	:r:…          a reservation's record, by its id
//	:open:…       an epoch's open reservations, by deadline
//	:fenced       epochs that may reserve no more, by the time of their fence
//	:beats        epochs alive, by their last heartbeat
//	:dying        fenced epochs whose records are still to be ended
//	:tags:…       on a cluster: the tags that an epoch has used
package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"llmgw/internal/budget"
)

// Options say how Redis is reached.
type Options struct {
	// Addrs are host:port: one of a single server, several of a Cluster, or,
	// with MasterName, the sentinels.
	Addrs      []string
	MasterName string
	Username   string
	Password   string
	DB         int
	TLS        bool // at least 1.2, verified by the system's roots
	// Prefix of every key. "" is llmgw.
	Prefix string
	// Timeout of one call that a request waits for. 0 is 20 ms.
	Timeout time.Duration
	// Logger is told what an operator should know. nil discards it.
	Logger *slog.Logger
}

const (
	defaultTimeout = 20 * time.Millisecond
	// slowTimeout bounds calls that no request waits for, and dialling.
	slowTimeout = time.Second
)

// Store is a budget.Store in Redis. Make it with Open.
type Store struct {
	client   redis.UniversalClient
	cluster  bool
	prefix   string
	timeout  time.Duration
	log      *slog.Logger
	scripts  scripts
	rules    sync.Map // budget.CounterID, without a value → *rules
	batchers sync.Map // by base: *batcher
	conns    *conns
	began    time.Time // what elapsed counts from

	closing sync.Mutex
	closed  bool
	done    chan struct{}  // closed when the batchers end
	calls   sync.WaitGroup // goroutines at work

	known   sync.Map // epochs (on a cluster epoch and tag) that Redis has heard of
	checked atomic.Bool
	skew    atomic.Int64 // Redis's clock minus ours, ms
	turn    atomic.Int64 // of the tags that Reclaim looks at for late records
	clock   atomic.Int64 // what tests set Redis's clock to, ms; 0: its own
}

var _ budget.Store = (*Store)(nil)

// Open makes a store. It fails if Redis can be reached and is too old or would
// evict keys (S26); one that cannot be reached yet is asked before its first use.
func Open(o Options) (*Store, error) {
	if len(o.Addrs) == 0 {
		return nil, errors.New("redis: no address")
	}
	if o.Prefix == "" {
		o.Prefix = "llmgw"
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	connections := newConns()
	client := redis.NewUniversalClient(clientOptions(o, connections))
	_, cluster := client.(*redis.ClusterClient)
	s := &Store{
		client: client, cluster: cluster, prefix: o.Prefix, timeout: o.Timeout, log: o.Logger, scripts: newScripts(),
		conns: connections, began: time.Now(), done: make(chan struct{}),
	}
	ctx, cancel := context.WithTimeout(context.Background(), slowTimeout)
	defer cancel()
	if err := s.check(ctx); unfit(err) {
		client.Close() //nolint:errcheck // the other error is the one to know
		return nil, err
	}
	return s, nil
}

func clientOptions(o Options, connections *conns) *redis.UniversalOptions {
	slow := max(slowTimeout, o.Timeout)
	u := &redis.UniversalOptions{
		Addrs: o.Addrs, MasterName: o.MasterName, DB: o.DB,
		Username: o.Username, Password: o.Password,
		// A call is made once: what did not come back in time counts as refused.
		MaxRetries: -1, DialerRetries: 1,
		// Nothing of RESP3 is used, and looking for its push messages before each
		// reply costs more than some scripts.
		Protocol:    2,
		DialTimeout: slow, ReadTimeout: slow, WriteTimeout: slow, PoolTimeout: slow,
		ContextTimeoutEnabled: true,
		DisableIdentity:       true,
		MaintNotificationsConfig: &maintnotifications.Config{
			Mode: maintnotifications.ModeDisabled,
		},
	}
	if o.TLS {
		u.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	u.Dialer = connections.dialer(o.Timeout, slow, u.TLSConfig)
	return u
}

// Why a Redis is not used.
var (
	errEvicts = errors.New("redis evicts keys")
	errOld    = errors.New("redis is too old")
	errBarred = errors.New("redis does not let us in")
)

// unfit reports whether err is a Redis that can be reached and must not be used.
func unfit(err error) bool {
	return errors.Is(err, errEvicts) || errors.Is(err, errOld) || errors.Is(err, errBarred)
}

// letsIn tells by its first answer whether Redis takes our user, password and
// number of the database; waiting would not change that.
func letsIn(err error) bool {
	for _, refusal := range []string{"NOAUTH", "WRONGPASS", "invalid password", "DB index"} {
		if redis.HasErrorPrefix(err, refusal) {
			return false
		}
	}
	return true
}

// check asks once whether Redis is fit to keep counters.
func (s *Store) check(ctx context.Context) error {
	if s.checked.Load() {
		return nil
	}
	look := func(ctx context.Context, c redis.Cmdable) error {
		var about strings.Builder
		for _, section := range []string{"server", "memory"} {
			info, err := c.Info(ctx, section).Result()
			if err != nil && strings.HasPrefix(err.Error(), "NOPERM") {
				s.log.Warn("Redis does not let us read its version and maxmemory-policy: it must be 7 at least, and noeviction", "error", err)
				return nil
			}
			if err != nil && !letsIn(err) {
				return fmt.Errorf("%w: %w", errBarred, err)
			}
			if err != nil {
				return fmt.Errorf("read Redis's version and memory policy: %w", err)
			}
			about.WriteString(info)
		}
		return fit(about.String())
	}
	var err error
	if cc, ok := s.client.(*redis.ClusterClient); ok {
		err = cc.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error { return look(ctx, c) })
	} else {
		err = look(ctx, s.client)
	}
	if err == nil {
		s.checked.Store(true)
	}
	return err
}

// fit tells what is wrong with a Redis that says this of itself: scripts need
// version 7, and an evicted bucket is a free refill.
func fit(info string) error {
	field := func(name string) string {
		_, value, _ := strings.Cut(info, name+":")
		value, _, _ = strings.Cut(value, "\r\n")
		return value
	}
	major, _, _ := strings.Cut(field("redis_version"), ".")
	if n, err := strconv.Atoi(major); err == nil && n < 7 {
		return fmt.Errorf("%w: it is %s, and must be 7.0 or later", errOld, field("redis_version"))
	}
	policy := field("maxmemory_policy")
	if strings.HasPrefix(policy, "allkeys-") || strings.HasPrefix(policy, "volatile-") {
		return fmt.Errorf("%w: maxmemory-policy is %s, which drops counters and so refills spent budgets: set it to noeviction", errEvicts, policy)
	}
	return nil
}

// Close ends the connections after the calls under way. The counters stay.
func (s *Store) Close() error {
	s.closing.Lock()
	if !s.closed {
		defer close(s.done)
	}
	s.closed = true
	s.closing.Unlock()
	s.calls.Wait()
	if err := s.client.Close(); err != nil {
		return fmt.Errorf("close redis: %w", err)
	}
	return nil
}

// begin lets a goroutine start, which then tells s.calls when it is done, unless
// the store is closed.
func (s *Store) begin() bool {
	s.closing.Lock()
	defer s.closing.Unlock()
	if s.closed {
		return false
	}
	s.calls.Add(1)
	return true
}

// base is where the keys of a tag begin.
func (s *Store) base(tag string) string {
	if !s.cluster {
		return s.prefix
	}
	return s.prefix + ":{" + escapeTag.Replace(tag) + "}"
}

// registryTag holds the registry of gateways on a cluster.
const registryTag = "~gateways"

func (s *Store) registry() string { return s.base(registryTag) }

// escapeTag keeps a tag from ending its braces, and from being empty.
var escapeTag = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")

// elapsed is the time since the store was opened, in nanoseconds; never 0.
func (s *Store) elapsed() int64 { return int64(time.Since(s.began)) + 1 }

// since is the time since elapsed was at.
func (s *Store) since(at int64) time.Duration { return time.Duration(s.elapsed() - at) }

// sync notes what Redis's clock said.
func (s *Store) sync(nowMS int64) { s.skew.Store(nowMS - time.Now().UnixMilli()) }

// nowMS is Redis's time as far as known.
func (s *Store) nowMS() int64 {
	if t := s.clock.Load(); t > 0 {
		return t
	}
	return time.Now().UnixMilli() + s.skew.Load()
}
