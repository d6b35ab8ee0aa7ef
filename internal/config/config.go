// Package config turns a file into a Config: strict, with every default filled
// in and every error told at once, each with its place. It starts nothing and
// keeps nothing.
//
// A file passes through it in this order. tree.go reads YAML into nodes that
// know their place, expand.go puts in what ${…} names, decode.go is the strict
// decoder, and scalar.go, amount.go and address.go say what single values mean;
// server.go, store.go, records.go, provider.go, model.go, passthrough.go, team.go, place.go
// and limit.go say which keys there are and what they default to; check.go looks
// at the whole: references, and limits that no request could meet. errors.go
// words what is wrong, load.go ties all this together, default.go is the
// configuration that is built in, and effective.go prints a Config for people.
//
// The YAML is plain on purpose: no anchors, aliases, merge keys, tags or second
// documents. What a line says is then all there, and no file can unfold into
// more than its size.
package config

import (
	"net/netip"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/tokens"
)

// Config is a whole configuration, checked and complete.
type Config struct {
	Server      Server
	Store       Store
	Records     Records
	Enforcement Enforcement
	Telemetry   Telemetry
	Providers   []Provider
	Models      []Model
	Alerts      Alerts
	Descriptors []Descriptor    // what Envoy's rate limit service counts
	Limits      []*budget.Limit // of the whole gateway
	Passthrough []Passthrough
	Teams       []Team

	// Version orders configurations, the newest last: unix milliseconds.
	Version int64
	// Files are those that were read, or are named to be, as they were then: the
	// configuration first, then what ${file:…} names, then the certificate and its
	// key. None without a file.
	Files []File
	// Warnings are what is allowed but hardly meant, in the order of the file.
	Warnings []Problem
}

// Enforcement is the main switch.
type Enforcement string

// The enforcement modes.
const (
	Enforce Enforcement = "enforce"
	Shadow  Enforcement = "shadow"
	Off     Enforcement = "off"
)

// Server says how clients and operators reach the gateway.
type Server struct {
	Listen         string
	AdminListen    string
	AdminToken     string
	Admins         []Admin // who may use the admin port beside the holder of AdminToken
	MaxBodyBytes   int64
	MaxBodiesBytes int64 // of all bodies at a time; at least three times MaxBodyBytes
	TrustedProxies []netip.Prefix
	DrainDelay     time.Duration
	ShutdownGrace  time.Duration
	OnClientGone   ClientGone
	Drain          Drain
	MaxWaiting     int

	ExposeUpstreamLimits bool
	TLS                  TLS
	AdminTLS             TLS
	// MaxConnections bounds the open connections of one address. 0: no bound.
	MaxConnections int
	// AdminHosts are the names by which browsers may call the admin port while
	// there is no AdminToken, beside addresses and names that only this network has.
	AdminHosts []string
	// IPPrefix is what limits of scope ip count as one client.
	IPPrefix IPPrefix
	// Socket is the path of a unix socket that serves what Listen does; empty:
	// none. SocketKey is the id of the key of requests over it that bring none.
	Socket, SocketKey string
	// RatelimitListen is where Envoy's rate limit service is; empty: nowhere.
	RatelimitListen string
	RatelimitTLS    TLS
}

// Admin is somebody who may use the admin port, known by the hash of a token.
type Admin struct {
	Name   string
	SHA256 [32]byte
	Role   string   // viewer, operator or admin
	Teams  []string // the only teams that the admin sees and changes; nil: all
}

// IPPrefix is how many bits of an address are one client's, by its family.
type IPPrefix struct{ V4, V6 int }

// ClientGone is what happens to a call whose client leaves.
type ClientGone string

// The ways to end a call whose client left.
const (
	Cancel         ClientGone = "cancel"
	DrainAnswer    ClientGone = "drain"
	ChargeEstimate ClientGone = "charge_estimate"
)

// Drain bounds reading on after the client left.
type Drain struct {
	MaxTime  time.Duration
	MaxBytes int64
}

// TLS names a certificate; both empty: plain HTTP (with h2c).
type TLS struct{ CertFile, KeyFile string }

// Store says where counters live.
type Store struct {
	Kind         string // memory or redis
	Heartbeat    time.Duration
	ReclaimAfter time.Duration
	CrashCharge  budget.CrashCharge
	Leases       string // auto or off
	Redis        Redis
}

// Redis says how Redis is reached.
type Redis struct {
	Addrs      []string
	MasterName string
	Username   string
	Password   string
	DB         int
	TLS        bool
	Prefix     string
	Timeout    time.Duration
}

// Telemetry says where traces and metrics go beside /metrics.
type Telemetry struct {
	OTLPEndpoint   string
	MaxLabelValues int
}

// Provider is one account at one model provider.
type Provider struct {
	Name          string
	Dialect       string
	Flavor        string
	BaseURL       string
	APIVersion    string
	APIKeys       []string
	Region        string
	Limits        ProviderLimits
	MaxWait       time.Duration
	RetryAttempts int
	Timeouts      Timeouts
	InjectUsage   string // auto, on or off
	FailuresCount bool
}

// ProviderLimits are a provider's own limits. 0: none of that kind.
type ProviderLimits struct {
	RequestsPerMinute int64
	TokensPerMinute   int64
	Concurrency       int64
	Kind              string        // window, bucket or fixed
	Window            time.Duration // the shortest interval the provider judges by; of kind window
	PerKey            bool
}

// Timeouts bound the phases of one upstream call.
type Timeouts struct{ Connect, FirstByte, Idle time.Duration }

// Model is a name that clients ask for.
type Model struct {
	Name             string // "*": any other
	Targets          []Target
	SpillAfter       time.Duration // the longest wait within one order of targets
	Encoding         string        // empty: by the model's name
	DefaultMaxOutput tokens.Count
	MaxOutput        tokens.Count // 0: unbounded
	ReserveOutput    string       // max or learned
	CapOutput        bool
	Weights          tokens.Rates
	Prices           *tokens.Prices // nil: none given
	Limits           []*budget.Limit
}

// Target is a provider's model that serves a Model.
type Target struct {
	Provider string
	Model    string // empty under "*": the name that was asked for
	Order    int    // the least is asked first
	Weight   int
}

// Passthrough is a path that is relayed for a flat charge.
type Passthrough struct {
	Path     string
	Methods  []string
	Provider string
	Requests int64
	Tokens   tokens.Count
}

// Team is a team with its keys and limits.
type Team struct {
	Name   string
	Plan   string   // empty: none
	Models []string // nil: all
	Weight int
	Limits []*budget.Limit
	Keys   []Key
}

// Key is a client's key, known by its hash.
type Key struct {
	ID     string
	SHA256 [32]byte
	Plan   string   // empty: none
	Models []string // nil: all that the team may use
	Limits []*budget.Limit
	// Former are secrets that a rotation at run time has replaced, and that still work.
	Former [][32]byte
}
