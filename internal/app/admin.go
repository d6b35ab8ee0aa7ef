package app

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"llmgw/internal/admin"
	"llmgw/internal/budget"
	"llmgw/internal/changes"
	"llmgw/internal/config"
	"llmgw/internal/fault"
	"llmgw/internal/proxy"
	"llmgw/internal/telemetry"
	"llmgw/internal/tenant"
)

// adminHandler is the admin plane over the parts of a. A reload may replace what
// is behind it.
func (a *App) adminHandler(c *config.Config) http.Handler {
	a.guardAdmin(c)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*a.operators.Load()).ServeHTTP(w, r) })
}

// guardAdmin lets in who has a token of c, from now on.
func (a *App) guardAdmin(c *config.Config) {
	h := admin.New(a.adminConfigOf(c))
	a.operators.Store(&h)
}

// adminConfig is what the admin plane is made of.
func (a *App) adminConfig() admin.Config { return a.adminConfigOf(a.config.Load()) }

func (a *App) adminConfigOf(c *config.Config) admin.Config {
	return admin.Config{
		Accounts:    accountsOf(c),
		Forbidden:   a.forbidden,
		PassKey:     a.passKeyOf(c),
		Hosts:       adminHosts(c),
		Client:      a.adminClient,
		WrongToken:  a.wrongToken,
		Teams:       a.teams,
		Common:      a.commonLimits,
		Read:        a.read,
		Books:       a.books,
		Partial:     a.partial,
		Blocks:      loggedBlocks{a.blocks, a.log},
		Enforcement: enforcement{a},
		Reload:      a.Reload,
		Explain:     a.explain,
		Changes:     a.changes,
		CheckKey:    a.checkKey,
		Amount:      config.ParseAmount,
		Reset:       a.reset,
		LastUsed:    a.lastUsed,
		Ready:       a.ready,
		Metrics:     a.metrics.Handler(),
		Live:        a.live,
		Notices:     a.notices,
	}
}

// accountsOf are those who may use the admin plane. Whoever has the admin token is
// one of them.
func accountsOf(c *config.Config) []admin.Account {
	var all []admin.Account
	if c.Server.AdminToken != "" {
		all = append(all, admin.Account{Name: "admin_token", SHA256: sha256.Sum256([]byte(c.Server.AdminToken)), Role: admin.Admin})
	}
	for _, m := range c.Server.Admins {
		all = append(all, admin.Account{Name: m.Name, SHA256: m.SHA256, Role: admin.Role(m.Role), Teams: m.Teams})
	}
	return all
}

// passKeyOf is what signs the dashboard's cookies: made from the admin token, which
// all gateways have, or of this process alone.
func (a *App) passKeyOf(c *config.Config) []byte {
	if c.Server.AdminToken == "" {
		return a.passKey
	}
	key := sha256.Sum256([]byte("llmgw dashboard " + c.Server.AdminToken))
	return key[:]
}

// adminHosts are the names of the admin plane: the configured ones, and this
// machine's own.
func adminHosts(c *config.Config) []string {
	hosts := slices.Clone(c.Server.AdminHosts)
	if name, err := os.Hostname(); err == nil {
		hosts = append(hosts, strings.ToLower(name))
	}
	if host, _, err := net.SplitHostPort(c.Server.AdminListen); err == nil && host != "" {
		hosts = append(hosts, strings.ToLower(host))
	}
	return hosts
}

// adminClient is the address that r comes from, as `ip` limits count it.
func (a *App) adminClient(r *http.Request) string {
	s := a.config.Load().Server
	ip := tenant.Proxies(s.TrustedProxies).ClientIP(r.RemoteAddr, r.Header.Values("X-Forwarded-For"))
	return tenant.Prefixes(s.IPPrefix).Bucket(ip)
}

// wrongToken counts a wrong token at the admin port.
func (a *App) wrongToken(client string) {
	a.metrics.AdminAuthFailure()
	if since, now := a.strangers.Allow(); now {
		a.log.Warn("wrong tokens at the admin port", "address", client, "tries", since)
	}
}

// forbidden logs a request that an account may not make.
func (a *App) forbidden(who admin.Account, r *http.Request) {
	if since, now := a.forbids.Allow(); now {
		a.log.Warn("an account may not do this at the admin port", "account", who.Name, "role", string(who.Role), "method", r.Method, "path", r.URL.Path, "tries", since)
	}
}

// ready tells whether calls should come here: once the store has answered and
// calls would not wait for the vocabulary, until the gateway drains.
func (a *App) ready() (string, bool) {
	switch {
	case a.draining.Load():
		return "draining", false
	case !a.storeSeen.Load() || !a.warm.Load():
		return "starting", false
	case !a.limiter.Up():
		return "degraded", true
	default:
		return "ok", true
	}
}

func (a *App) teams() []tenant.Team { return a.gateway.Rules().Directory.Teams() }

// commonLimits are those of the gateway and of the models.
func (a *App) commonLimits() []*budget.Limit {
	c := a.config.Load()
	limits := append([]*budget.Limit(nil), c.Limits...)
	for _, m := range c.Models {
		limits = append(limits, m.Limits...)
	}
	return limits
}

func (a *App) explain(ctx context.Context, q admin.Question) (any, error) {
	e, err := a.gateway.Explain(ctx, a.read, proxy.Question(q))
	var f *fault.Error
	if errors.As(err, &f) && f.Code == fault.InvalidAPIKey {
		return nil, admin.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	return e, nil
}

// checkKey returns a fault if there cannot be such a key.
func (a *App) checkKey(k changes.Key) error {
	file := a.file.Load()
	key := config.Key{ID: k.ID, Models: k.Models}
	err := file.CheckKey(k.Team, key)
	if err == nil && len(k.Limits) > 0 {
		_, err = file.KeyLimits(k.Team, key, k.Limits, k.Version)
	}
	if err != nil {
		return fault.Invalid("", err.Error()+".")
	}
	return nil
}

// reset begins a counter anew in the store.
func (a *App) reset(ctx context.Context, line budget.Line) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if err := a.backing.limits.Correct(ctx, []budget.Correction{{Line: line, Anew: true}}); err != nil {
		return err
	}
	a.room.Wake()
	return nil
}

// notices are what everybody who looks at the dashboard should know.
func (a *App) notices() []string {
	var notices []string
	if a.demo != nil {
		notices = append(notices, demoNotice)
	}
	if n := a.drift.Load(); n > 0 {
		notices = append(notices, fmt.Sprintf("The configuration of another gateway is newer: its amounts are in force for %d limits of this one's file.", n))
	}
	return notices
}

// shownEstimates is of how many models the dashboard shows estimates.
const shownEstimates = 8

// live is what this instance is at, for the dashboard.
func (a *App) live() admin.Live {
	l := admin.Live{
		Instance: a.instanceName(a.config.Load()), Inflight: a.gateway.Inflight(), Open: a.limiter.Open(), Waiting: a.gateway.Waiting(),
	}
	for _, p := range a.client.Live() {
		shown := admin.Provider{Name: p.Name, State: p.State, Waiting: p.Waiting, Inflight: p.Inflight, Headroom: []admin.Headroom{}}
		for _, h := range p.Headroom {
			shown.Headroom = append(shown.Headroom, admin.Headroom(h))
		}
		l.Providers = append(l.Providers, shown)
	}
	for _, e := range a.metrics.Estimates() {
		if len(l.Estimates) == shownEstimates {
			break
		}
		l.Estimates = append(l.Estimates, admin.Estimates(e))
	}
	return l
}

// readTimeout bounds a reading that no request waits for.
const readTimeout = time.Second

// read reads counters for people: it may take longer than a request would wait.
func (a *App) read(ctx context.Context, lines []budget.Line) ([]budget.LineState, time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return a.limiter.Read(ctx, lines)
}

// limitLevels are the limits with one counter, as the store has them.
func (a *App) limitLevels(ctx context.Context) []telemetry.Level {
	limits := limitsOf(a.config.Load())
	lines := make([]budget.Line, len(limits))
	for i, l := range limits {
		lines[i] = budget.Line{Limit: l}
	}
	states, _, err := a.read(ctx, lines)
	levels := make([]telemetry.Level, len(limits))
	for i, l := range limits {
		levels[i] = telemetry.Level{
			Scope: string(l.Scope), Owner: l.Owner, Name: l.Name, Unit: string(l.Unit), Remaining: math.NaN(), Amount: l.Unit.Number(l.Amount),
			Capacity: l.Unit.Number(l.Capacity()), Per: string(l.Period), Mode: string(l.Mode),
		}
		if err == nil {
			levels[i].Remaining = l.Unit.Number(states[i].Remaining)
			force := l.InForce(states[i])
			levels[i].Amount, levels[i].Capacity = l.Unit.Number(force.Amount), l.Unit.Number(force.Capacity())
		}
	}
	return levels
}

// loggedBlocks are blocks whose changes by operators stand in the log, without
// their values: users and addresses are people's.
type loggedBlocks struct {
	*tenant.Blocks
	log *slog.Logger
}

// Add is Blocks' own. That the store does not know of the block yet is no error:
// it is in force where it was asked for.
func (b loggedBlocks) Add(ctx context.Context, block tenant.Block) (tenant.Block, error) {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	block, err := b.Blocks.Add(ctx, block)
	if errors.Is(err, tenant.ErrUntold) {
		b.log.Warn("the block is in force here alone until the store is back", "id", block.ID, "error", err.Error())
		err = nil
	}
	if err != nil {
		return block, err
	}
	said := []any{"id", block.ID, "scope", string(block.Scope)}
	if !block.ExpiresAt.IsZero() {
		said = append(said, "expires_at", block.ExpiresAt)
	}
	b.log.Warn("blocked", said...)
	return block, nil
}

// Delete is Blocks' own.
func (b loggedBlocks) Delete(ctx context.Context, id string) (bool, error) {
	known, err := b.Blocks.Delete(ctx, id)
	if known {
		b.log.Warn("unblocked", "id", id)
	}
	return known, err
}
