package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"llmgw/internal/admission"
	"llmgw/internal/budget"
	"llmgw/internal/budget/failover"
	"llmgw/internal/budget/lease"
	"llmgw/internal/budget/memstore"
	"llmgw/internal/budget/redisstore"
	"llmgw/internal/changes"
	"llmgw/internal/config"
	"llmgw/internal/fleet"
	"llmgw/internal/proxy"
	"llmgw/internal/shared"
	"llmgw/internal/telemetry"
)

// sharedStore is what the gateways of one store have in common beside limits.
type sharedStore interface {
	Fields(ctx context.Context, name string) (map[string]string, error)
	FieldsOf(ctx context.Context, names []string) ([]map[string]string, error)
	Set(ctx context.Context, name, field, value string) error
	SetAll(ctx context.Context, name string, fields map[string]string) error
	Swap(ctx context.Context, name, field, old, value string) (bool, error)
	SetFor(ctx context.Context, name string, fields map[string]string, ttl time.Duration) error
	SetOnce(ctx context.Context, name, field, value string) (string, error)
	Delete(ctx context.Context, name, field string) error
	AddOnce(ctx context.Context, name, writer string, batch int64, deltas map[string]int64, ttl time.Duration) error
}

// backing is where state lives.
type backing struct {
	limits  budget.Store
	shared  sharedStore
	changes changes.Log
}

func (a *App) makeStore(ctx context.Context, c *config.Config) error {
	var timeout time.Duration
	if c.Store.Kind == "redis" {
		if err := a.openRedis(ctx, c.Store.Redis); err != nil {
			return err
		}
		timeout = c.Store.Redis.Timeout
	} else {
		a.backing = backing{limits: memstore.New(time.Now), shared: &shared.Memory{}, changes: &shared.MemoryList{}}
	}
	a.onClose(func(context.Context) error { return a.backing.limits.Close() })
	a.keeper = fleet.New(fleet.Config{
		Store: a.backing.limits, Instance: a.instanceName(c), Heartbeat: c.Store.Heartbeat, ReclaimAfter: c.Store.ReclaimAfter,
		Book: func(ended []budget.Ended) { a.gateway.Book(ended) }, Logger: a.log, Observer: a.metrics,
	})
	a.own = failover.New(failover.Config{
		Store: a.backing.limits, Keeper: a.keeper,
		Timeout: timeout, CrashCharge: c.Store.CrashCharge, Logger: a.log, Observer: limiterObserver{a.metrics, a.room},
	})
	a.limiter = a.own
	if c.Store.Kind == "redis" && c.Store.Leases == "auto" {
		leases := lease.New(a.own, lease.Config{})
		a.metrics.Leases(leases.Leases, leases.Granted)
		a.limiter = leases
	}
	a.metrics.ReservationsOpen(a.limiter.Open)
	return nil
}

// startKeeper starts what keeps this process's epoch. The gateway is there: it
// books what the keeper reclaims.
func (a *App) startKeeper(context.Context, *config.Config) error {
	a.keeper.Start(a.own)
	return nil
}

// limiter decides about limits: failover's, or lease's before it.
type limiter interface {
	proxy.Limiter
	Return(ctx context.Context, lines []budget.Line) error
	Up() bool
	Open() int
	Unwritten() int
	Drifted() map[*budget.Limit]struct{}
	Close(ctx context.Context) error
}

// closeBooks closes the limiter and the books at the same time: a store that keeps
// one of them waiting leaves the other no less of ctx.
func (a *App) closeBooks(ctx context.Context) error {
	settled := make(chan error, 1)
	go func() { settled <- a.closeLimiter(ctx) }()
	err := errors.Join(a.ledger.Close(ctx), a.books.Close(ctx))
	return errors.Join(<-settled, err)
}

// closeLimiter settles what is left. A store that is away is an error only if
// something could not be written to it: the epoch then ends by its silence.
func (a *App) closeLimiter(ctx context.Context) error {
	err := a.limiter.Close(ctx)
	if err != nil && a.limiter.Unwritten() == 0 && !errors.Is(err, lease.ErrUnsettled) {
		a.log.Warn("the store does not answer at the end; all had been settled", "error", err.Error())
		return nil
	}
	return err
}

// limiterObserver lets those who wait know when the store goes away or is back.
type limiterObserver struct {
	*telemetry.Metrics
	room *admission.Room
}

// StoreUp passes on whether the store is asked.
func (o limiterObserver) StoreUp(up bool) {
	o.Metrics.StoreUp(up)
	o.room.Wake()
}

// openRedis opens two clients of the same Redis: one for limits, whose calls
// are short or given up, and one for what nobody waits for.
func (a *App) openRedis(_ context.Context, r config.Redis) error {
	redis.SetLogger(redisLog{a.log})
	limits, err := redisstore.Open(redisstore.Options{
		Addrs: r.Addrs, MasterName: r.MasterName, Username: r.Username, Password: r.Password, DB: r.DB, TLS: r.TLS,
		Prefix: r.Prefix, Timeout: r.Timeout, Logger: a.log,
	})
	if err != nil {
		return fmt.Errorf("open the store: %w", err)
	}
	options := &redis.UniversalOptions{
		Addrs: r.Addrs, MasterName: r.MasterName, Username: r.Username, Password: r.Password, DB: r.DB,
		MaxRetries: -1, ContextTimeoutEnabled: true, PoolSize: 4, DisableIdentity: true, Protocol: 2,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if r.TLS {
		options.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	client := redis.NewUniversalClient(options)
	a.onClose(func(context.Context) error {
		_ = client.Close() // nothing is waited for
		return nil
	})
	a.backing = backing{limits: limits, shared: shared.NewRedis(client, r.Prefix), changes: shared.NewRedisList(client, r.Prefix, "changes")}
	return nil
}

// redisLog puts what the Redis client says into the log: stderr has no other
// lines. What matters of it is told by the limiter.
type redisLog struct{ log *slog.Logger }

// Printf logs one line.
func (r redisLog) Printf(ctx context.Context, format string, v ...any) {
	r.log.DebugContext(ctx, "redis: "+fmt.Sprintf(format, v...))
}

func sameStore(a, b config.Store) bool { return reflect.DeepEqual(a, b) }
