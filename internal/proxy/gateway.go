// Package proxy is the data plane: the path of a request from accept to record,
// as serve.go lists it. It decides nothing by itself: who may call is tenant's,
// what a call costs estimate's, whether it may spend budget's, where it goes
// upstream's, how it reads and speaks dialect's.
//
//	gateway.go    what the data plane is made of, and what a reload replaces
//	routes.go     gin's routes, 404 and 405; meant.go paths that are nearly one; models.go
//	              listings of models
//	serve.go      the path
//	early.go      what is refused before its body is kept
//	accept.go     the body as it is sent, body.go decoded, and the memory that it holds
//	plan.go       who may call which model where, as a plan; model.go finding the model.
//	              What a plan draws on and what endings cost is package charge
//	reserve.go    the verdict, wait.go its waiting, refuse.go its refusal, herd.go its spread,
//	              values.go how many users and addresses are told apart
//	attempt.go    several attempts of one call, retry.go those that have no name
//	stream.go     the answer, byte for byte; lifeline.go for how long it is read
//	ending.go     how a transfer ended, settle.go that a call is charged once
//	record.go     what is told of it afterwards, entry.go to the usage log, cause.go why
//	              a provider failed
//	explain.go    what a request would meet
//	background.go responses that go on when their call has ended; bills.go what they
//	              were charged, for who sees their end later
//	outside.go    reservations for calls that do not go through the gateway
//	stored.go     calls about what a provider keeps
//	idempotency.go  keys of requests, as the provider gets them
//	passthrough.go  paths that are relayed for a flat charge
//	render.go     the one map from faults to answers, headers.go the limits' headers
package proxy

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"llmgw/internal/admission"
	"llmgw/internal/budget"
	"llmgw/internal/charge"
	"llmgw/internal/concurrency"
	"llmgw/internal/dialect"
	"llmgw/internal/estimate"
	"llmgw/internal/fault"
	"llmgw/internal/ledger"
	"llmgw/internal/telemetry"
	"llmgw/internal/tenant"
	"llmgw/internal/upstream"
)

// Enforcement is the main switch of all limits.
type Enforcement string

// The enforcement modes. In Shadow nothing is refused and what would have been
// is counted; with Off no limit is asked.
const (
	Enforce Enforcement = "enforce"
	Shadow  Enforcement = "shadow"
	Off     Enforcement = "off"
)

// Parts are what a Gateway is made of. All are needed but Ready.
type Parts struct {
	Dialects  []dialect.Dialect
	Limiter   Limiter
	Upstream  *upstream.Client
	Estimator *estimate.Estimator
	Blocks    *tenant.Blocks
	Ledger    Ledger
	Shared    Shared
	Metrics   *telemetry.Metrics
	Tracing   *telemetry.Tracing
	Logger    *slog.Logger
	// Room is where requests wait, here and at the providers. nil: a new one.
	Room *admission.Room
	// StoreUp tells whether the limits' store can be reached.
	StoreUp func() bool
	// Ready reports whether the gateway takes calls, and in what state it is: ok,
	// degraded, starting, draining. nil: the data plane has no /readyz.
	Ready func() (status string, ready bool)
	// Me is what an app may know of its key, which may use models. Its value becomes
	// JSON. nil: there is no /llmgw/v1/me.
	Me func(ctx context.Context, key *tenant.Key, models []*charge.Model) (any, error)
}

// Ledger keeps the record of what was spent. Record must not block.
type Ledger interface{ Record(e ledger.Entry) }

// Rules are what a reload replaces, as one whole. They are never changed.
type Rules struct {
	Directory    *tenant.Directory
	Proxies      tenant.Proxies
	Prefixes     tenant.Prefixes
	Models       map[string]*charge.Model // by name; "*" for any other
	Limits       []*budget.Limit          // of the whole gateway
	Passthrough  []Passthrough
	MaxBodyBytes int64
	// MaxBodiesBytes bounds the memory of all requests' bodies together.
	MaxBodiesBytes int64
	MaxWaiting     int // requests held by limits that let them wait
	OnClientGone   ClientGone
	DrainTime      time.Duration // bounds of ClientGone Drain
	DrainBytes     int64
	CrashCharge    budget.CrashCharge
	SocketKey      string // id of the key of requests over the unix socket that have none
	Exposure       Exposure
}

// ClientGone is what happens to a call whose client leaves after the answer has
// begun.
type ClientGone string

// The ways to end it.
const (
	Cancel         ClientGone = "cancel"          // charge what was produced
	Drain          ClientGone = "drain"           // read on within bounds, charge what the provider says
	ChargeEstimate ClientGone = "charge_estimate" // charge the whole reservation
)

// Gateway serves calls. Its methods are safe for concurrent use.
type Gateway struct {
	Parts
	rules       atomic.Pointer[Rules]
	enforcement atomic.Value // Enforcement
	herd        *herd
	spent       *spent
	values      *values
	attempts    *attempts
	memory      *concurrency.Pool // of all bodies
	gate        *concurrency.Gate // of work on bodies
	background  *background
	bills       *bills
	unpriced    *unpriced
	locals      *locals // reservations that only this gateway knows
	inflight    atomic.Int64
	cut         atomic.Int64 // calls that the stop of the gateway ended
}

// New returns a Gateway that follows rules until the next Replace.
func New(parts Parts, rules *Rules, mode Enforcement) *Gateway {
	g := &Gateway{Parts: parts, herd: newHerd(), spent: newSpent(), values: newValues(parts.Logger, maxValues), attempts: newAttempts(), locals: &locals{held: map[string]*localOutside{}},
		memory: concurrency.NewPool(0), gate: concurrency.NewGate(0)}
	if g.Room == nil {
		g.Room = admission.New()
	}
	g.background = newBackground(g.endBackground)
	g.bills = &bills{gateway: g, seen: map[string]bool{}}
	g.background.late = g.bills.saw
	g.unpriced = &unpriced{log: parts.Logger, metrics: parts.Metrics}
	g.Replace(rules)
	g.SetEnforcement(mode)
	return g
}

// Replace puts new rules in force for the requests that begin from now on, and
// for those that wait.
func (g *Gateway) Replace(rules *Rules) {
	g.memory.Resize(rules.MaxBodiesBytes)
	g.rules.Store(rules)
	g.Room.Wake()
}

// Rules returns those in force.
func (g *Gateway) Rules() *Rules { return g.rules.Load() }

// Enforcement returns the mode in force.
func (g *Gateway) Enforcement() Enforcement { return g.enforcement.Load().(Enforcement) }

// SetEnforcement changes the mode for the requests that begin from now on, and
// for those that wait.
func (g *Gateway) SetEnforcement(m Enforcement) {
	g.enforcement.Store(m)
	g.Room.Wake()
}

// Inflight is the number of calls being served.
func (g *Gateway) Inflight() int { return int(g.inflight.Load()) }

// Cut is the number of calls that ended since the gateway stops.
func (g *Gateway) Cut() int { return int(g.cut.Load()) }

// BodyBytes is the memory that the bodies of all requests hold, in bytes.
func (g *Gateway) BodyBytes() int64 { return g.memory.Held() }

// StopWaiting refuses what still waits after d, for a limit or for a provider, and
// whatever would wait then. It returns at once.
func (g *Gateway) StopWaiting(d time.Duration) {
	g.Room.Close(&fault.Error{
		Code: fault.ShuttingDown, Wait: time.Second,
		Message: "This gateway is stopping, and the request was still waiting. Try again: another gateway will take it, or this one after its restart.",
	}, d)
}

// Waiting is the number of requests held by limits that let them wait.
func (g *Gateway) Waiting() int { return g.Room.Waiting(forLimits{}) }
