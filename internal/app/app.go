// Package app makes a running gateway of all the packages: it wires, reloads
// and shuts down, and is the only one that knows everyone. It decides nothing
// about a request.
//
//	app.go          New, Run
//	store.go        the store of limits, in this process or in Redis
//	books.go        the books and their database
//	rules.go        from the configuration to what the parts take
//	demo.go         the embedded default with its simulated provider
//	ratelimit.go    Envoy's rate limit service
//	listen.go       listeners, servers, and the order of stopping
//	certificate.go  what the data plane shows over TLS
//	reload.go       a new configuration, by signal, by change, by the admin plane
//	admin.go        what the admin plane asks of the others
//	switch.go       the main switch
//	derive.go       what operators change at run time, put in force
//	alerts.go       what alerts look at, and where they go
//	sync.go         what all gateways of one Redis share, kept up to date
//	estimate.go     what a request would reserve, for who asks without a gateway
package app

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"llmgw/internal/admission"
	"llmgw/internal/books"
	"llmgw/internal/budget/failover"
	"llmgw/internal/changes"
	"llmgw/internal/config"
	"llmgw/internal/database"
	"llmgw/internal/dialect/registry"
	"llmgw/internal/estimate"
	"llmgw/internal/fleet"
	"llmgw/internal/ledger"
	"llmgw/internal/proxy"
	"llmgw/internal/telemetry"
	"llmgw/internal/tenant"
	"llmgw/internal/upstream"
)

// Options are what a command line says.
type Options struct {
	ConfigFile  string // empty: the embedded default
	Listen      string // overrides the file's; empty: as there
	AdminListen string
	Build       telemetry.Build
	Stdout      io.Writer        // gets the embedded default's greeting
	Logger      *slog.Logger     // must not be nil
	Reload      <-chan os.Signal // asks for a reload; nil: nobody does
	Hurry       <-chan struct{}  // closed: a stop waits no longer; nil: it waits as configured
}

// App is one gateway process.
type App struct {
	options Options
	log     *slog.Logger
	closers []func(context.Context) error // in the order of making

	metrics   *telemetry.Metrics
	tracing   *telemetry.Tracing
	backing   backing
	database  *database.Database // of the books and of what changes at run time
	room      *admission.Room    // where requests wait
	keeper    *fleet.Keeper
	own       *failover.Limiter // beneath limiter, or the same: what the keeper asks about
	limiter   limiter
	estimator *estimate.Estimator
	client    *upstream.Client
	books     *books.Books
	ledger    *ledger.Ledger
	blocks    *tenant.Blocks
	gateway   *proxy.Gateway
	servers   servers
	cut       context.CancelCauseFunc // ends all calls
	graceEnds time.Time               // when a stop must have ended, once it has begun

	config    atomic.Pointer[config.Config] // in force: the file's, as it was changed at run time
	file      atomic.Pointer[config.Config]
	providers map[string]*upstream.Provider // of the file, under reloading
	changes   *changes.Changes
	used      usedKeys

	nextChange  atomic.Int64 // when a change ends by itself, in Unix milliseconds; 0: none does
	changesAway atomic.Bool  // they could not be read when that was last tried

	operators atomic.Pointer[http.Handler] // the admin plane's
	reloading sync.Mutex
	files     []config.File // as the last load has seen them, under reloading
	demo      *demo
	storeSeen atomic.Bool // the store has answered once
	warm      atomic.Bool // the vocabulary is read: the first request is as fast as any
	draining  atomic.Bool
	untold    atomic.Pointer[proxy.Enforcement] // the main switch, if the store does not know of it yet

	crowded   telemetry.Sampler // of the log's lines about connections that were closed
	strangers telemetry.Sampler // of the log's lines about wrong admin tokens
	forbids   telemetry.Sampler // of the log's lines about what admins may not do

	passKey []byte // signs the dashboard's cookies where there is no admin token

	rls         *grpc.Server                    // Envoy's rate limit service; nil: there is none
	descriptors atomic.Pointer[descriptorRules] // what it counts, as last made

	drift atomic.Int64 // limits of this file that another gateway's newer file has changed

	unreadable string // what synchronize last told of blocks that cannot be read
}

// New loads the configuration, makes all the parts and takes the listeners. If
// it fails nothing is left running.
func New(ctx context.Context, o Options) (*App, error) {
	a := &App{options: o, log: o.Logger, room: admission.New(), passKey: []byte(rand.Text())}
	c, err := a.load()
	if err != nil {
		return nil, err
	}
	for _, w := range c.Warnings {
		a.log.Warn("configuration", "warning", w.String())
	}
	a.file.Store(c)
	a.config.Store(c) // the parts read it as soon as they are made
	for _, step := range []func(context.Context, *config.Config) error{
		a.makeDemo, a.makeTelemetry, a.makeDatabase, a.makeStore, a.makeLedger, a.makeGateway, a.startKeeper, a.listen, a.listenRatelimit,
	} {
		if err := step(ctx, c); err != nil {
			return nil, errors.Join(err, a.close(ctx))
		}
	}
	a.files = c.Files
	a.metrics.ConfigReloaded(true)
	return a, nil
}

// load reads the configuration that the options name.
func (a *App) load() (*config.Config, error) {
	if a.options.ConfigFile == "" {
		return config.Default()
	}
	return config.Load(a.options.ConfigFile, os.LookupEnv)
}

func (a *App) onClose(f func(context.Context) error) { a.closers = append(a.closers, f) }

// close undoes New from the end.
func (a *App) close(ctx context.Context) error {
	var errs []error
	for i := len(a.closers) - 1; i >= 0; i-- {
		errs = append(errs, a.closers[i](ctx))
	}
	a.closers = nil
	return errors.Join(errs...)
}

func (a *App) makeTelemetry(ctx context.Context, c *config.Config) error {
	a.metrics = telemetry.NewMetrics(a.options.Build, c.Telemetry.MaxLabelValues)
	tracing, err := telemetry.NewTracing(ctx, telemetry.TracingConfig{
		Endpoint: c.Telemetry.OTLPEndpoint, Build: a.options.Build, Instance: a.instanceName(c), Metrics: a.metrics, Logger: a.log,
	})
	if err != nil {
		return fmt.Errorf("start tracing: %w", err)
	}
	a.tracing = tracing
	a.onClose(func(ctx context.Context) error {
		if err := tracing.Shutdown(ctx); err != nil {
			a.log.Warn("the last spans and metrics were not exported", "error", err.Error())
		}
		return nil // calls were served and settled all the same
	})
	return nil
}

// instanceName is the same after a restart and differs between the gateways of
// one machine.
func (a *App) instanceName(c *config.Config) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return host + "/" + cmp.Or(a.options.Listen, c.Server.Listen)
}

func (a *App) makeLedger(ctx context.Context, c *config.Config) error {
	if err := a.makeBooks(c); err != nil {
		return err
	}
	a.ledger = ledger.New(ledger.Config{Books: a.books.Record, Logger: a.log})
	a.onClose(a.closeBooks)
	a.blocks = tenant.NewBlocks(tenant.NewSharedBlocks(a.backing.shared), time.Now)
	a.blocks.OnAdded(a.room.Wake)
	a.changes = changes.New(a.changesLog(c), time.Now, a.rederive)
	a.readChanges(ctx)
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	if err := a.blocks.Refresh(ctx); err != nil && !errors.Is(err, tenant.ErrUnreadable) { // which synchronize tells
		a.log.Warn("blocks cannot be read yet", "error", err.Error())
	}
	return nil
}

func (a *App) makeGateway(ctx context.Context, c *config.Config) error {
	a.estimator = estimate.New(estimate.Config{})
	a.providers = providersOf(c)
	c = a.inForce(c)
	compiled, err := a.compile(c, a.providers)
	if err != nil {
		return err
	}
	a.config.Store(c)
	a.client = upstream.New(upstream.Config{Providers: compiled.providers, Limiter: a.limiter, Room: a.room, Observer: a.metrics, Logger: a.log})
	a.onClose(func(context.Context) error {
		a.client.Close()
		return nil
	})
	a.gateway = proxy.New(proxy.Parts{
		Dialects: registry.Dialects(), Limiter: a.limiter, Upstream: a.client, Estimator: a.estimator, Blocks: a.blocks,
		Ledger: a.ledger, Shared: a.backing.shared, Metrics: a.metrics, Tracing: a.tracing, Logger: a.log, Room: a.room, StoreUp: a.limiter.Up, Ready: a.ready, Me: a.me,
	}, compiled.rules, proxy.Enforcement(c.Enforcement))
	a.metrics.BodyBytes(a.gateway.BodyBytes)
	a.onClose(func(context.Context) error {
		a.gateway.Close()
		return nil
	})
	a.metrics.LimitLevels(a.limitLevels)
	a.beginAtZero(c)
	go func() { // a second of work on a busy machine, which no request should wait for
		defer a.warm.Store(true)
		if err := a.estimator.Warm(encodingsOf(c)...); err != nil {
			a.log.Error("a vocabulary cannot be read", "error", err.Error())
		}
	}()
	a.readSwitch(ctx)
	a.restore(ctx)
	return nil
}

// Run serves until ctx ends, then stops in order. It returns an error if a
// server failed, if streams had to be cut, or if something could not be settled.
func (a *App) Run(ctx context.Context) error {
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	var loops sync.WaitGroup
	loops.Go(func() { a.watchConfig(background) })
	loops.Go(func() { a.synchronize(background) })
	loops.Go(func() { a.followChanges(background) })
	loops.Go(func() { a.newAlerts().Run(background) })
	loops.Go(func() { a.client.Share(background, a.backing.shared) })
	a.greet()
	err := a.serve(ctx)
	stop()
	loops.Wait()
	return errors.Join(err, a.closeInTime(context.WithoutCancel(ctx)))
}

// The bounds of what comes after the last request: writing settlements, totals
// and spans. It ends with the grace, but is given leastClose, and closeTimeout at
// most. A part that hangs is not waited for longer than slowClose.
const (
	closeTimeout = 10 * time.Second
	leastClose   = time.Second
	slowClose    = time.Second
)

// errSlowClose says that a part did not end though its time was up.
var errSlowClose = errors.New("closing took too long: something may not have been written")

// closeInTime closes all parts, and does not wait for one that hangs.
func (a *App) closeInTime(ctx context.Context) error {
	d := min(max(time.Until(a.graceEnds)-slowClose, leastClose), closeTimeout)
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	closed := make(chan error, 1)
	go func() { closed <- a.close(ctx) }()
	select {
	case err := <-closed:
		return err
	case <-time.After(d + slowClose):
		return errSlowClose
	}
}

// Addr is where the data plane listens, AdminAddr where the admin plane does.
func (a *App) Addr() string { return a.servers.data.addr() }

// AdminAddr is where the admin plane listens.
func (a *App) AdminAddr() string { return a.servers.admin.addr() }
