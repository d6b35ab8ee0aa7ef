package upstream

import (
	"time"

	"llmgw/internal/dialect"
)

// Provider is the configuration of one account at one model provider. It is
// not changed once a Client has it; a reload brings new ones.
type Provider struct {
	// Name identifies the provider over reloads: what is known of it (its
	// connections, queue, pauses and habits) is kept by name.
	Name       string
	Dialect    string
	Flavor     string // of the openai dialect
	BaseURL    string
	APIVersion string
	Region     string
	APIKeys    []string // none: sent without a key
	Limits     Limits
	// MaxWait is the longest that a call waits for its turn. 0: it must go at once.
	MaxWait time.Duration
	// Retries is how many further tries a call gets that went to this provider
	// first. 0: none.
	Retries  int
	Timeouts Timeouts
	Usage    UsagePolicy // empty: Auto
	Failures FailurePolicy
	// Version orders configurations, as budget.Limit.Version does.
	Version int64
}

// Limits are a provider's own limits. 0: none of that kind.
type Limits struct {
	RequestsPerMinute int64
	TokensPerMinute   int64
	Concurrency       int64
	Kind              LimitKind // empty: ByWindow
	// Window is the shortest interval that the provider judges by. 0: a second.
	// Only ByWindow has one.
	Window time.Duration
	Keys   KeyPolicy // empty: Shared
}

// KeyPolicy says what the limits of a provider with several keys hold for.
type KeyPolicy string

// The key policies.
const (
	Shared KeyPolicy = "shared"  // all keys together
	PerKey KeyPolicy = "per_key" // each key by itself
)

// UsagePolicy says whether usage is asked for in streams whose client did not.
type UsagePolicy string

// The usage policies.
const (
	Auto   UsagePolicy = "auto" // until the provider rejects the field
	Always UsagePolicy = "on"
	Never  UsagePolicy = "off"
)

// FailurePolicy says whether a provider counts requests that failed.
type FailurePolicy string

// The failure policies. The empty one counts.
const (
	CountFailures FailurePolicy = "count"
	FreeFailures  FailurePolicy = "free"
)

// Timeouts bound the phases of one upstream call. 0: no bound.
type Timeouts struct {
	Connect   time.Duration // until connected, TLS included
	FirstByte time.Duration // from sending until the answer's header
	Idle      time.Duration // between two reads of the answer's body
}

// Target is a provider's model that can serve a call.
type Target struct {
	Provider *Provider
	Model    string // as the provider names it; empty: as the client named it
	// Order says which targets are asked first: a call goes to the next order when
	// it would have to wait too long in the one before.
	Order int
	// Weight is the share of the calls that go here, among the targets of its
	// order, while all is well. 0: after the others of its order.
	Weight int
}

// rank is the least for the targets that are asked first, by order and weight.
func (t Target) rank() int { return 2*t.Order + 1 - min(t.Weight, 1) }

// upstream is t's provider for the dialect, with one of its keys.
func (t Target) upstream(key string) dialect.Upstream {
	p := t.Provider
	return dialect.Upstream{
		Provider: p.Name, Dialect: p.Dialect, Flavor: p.Flavor, BaseURL: p.BaseURL, APIVersion: p.APIVersion,
		Region: p.Region, APIKey: key,
	}
}

// model is the provider's name of the model that j asks for.
func (t Target) model(j *Job) string {
	if t.Model == "" {
		return j.Call.Model
	}
	return t.Model
}

// part is that model, as far as it tells parts of the provider apart.
func (t Target) part(j *Job) string {
	if m := t.model(j); m != "" {
		return m
	}
	return "(none)" // of a call that names none; the empty name means every model
}
