// Package upstream sends calls to providers: it chooses among the targets of a
// model, waits for the call's turn within the provider's own limits, sends it,
// tries again where that is safe, and hands back the answer with its first
// bytes read and the rest still to be streamed.
//
// It does not know teams' budgets, does not shape errors for clients and does
// not copy the answer: its caller does.
//
//	client.go     Client: what it needs, what it keeps over a reload
//	provider.go   Provider and Target: the configuration
//	job.go        Job: one call to make
//	response.go   Response: its answer, and settling it
//	do.go         Do: the tries of one job
//	backoff.go    the time between two tries
//	exchange.go   one try: sending it, judging its answer
//	choose.go     which target, which key
//	condition.go  the state of a credential, a model or both: serving, resting, probed
//	health.go     what attempts show of it
//	fleet.go      the same state on all gateways
//	limits.go     a provider's limits as budget limits: the arithmetic of pacing
//	counting.go   what a provider counts of a call
//	spans.go      what this gateway sent in every interval
//	pacer.go      waiting for a call's turn
//	turn.go       the turn itself: asked of the limiter, and settled
//	crowded.go    the refusal of a call whose turn would not come in time
//	pressure.go   how busy a pacer is; what the provider says about it
//	queue.go      the order of those that wait
//	throttle.go   asking for less after a refusal; the headroom last told
//	feedback.go   what a provider's headers and refusals tell
//	judge.go      which answers are failures, what may follow them, what rests then
//	failure.go    errors as they are read
//	usage.go      asking for usage where a client did not, and who refuses that
//	peek.go       a stream until it has content
//	send.go       one HTTP exchange until the answer's header
//	body.go       the answer's body under the idle timeout
//	transport.go  connections
//	live.go       what each provider is at, for people
package upstream

import (
	"crypto/rand"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"llmgw/internal/admission"
	"llmgw/internal/budget"
)

// Config is what a Client needs.
type Config struct {
	Providers []*Provider
	// Limiter keeps the providers' limits. It may be nil if no provider has any.
	Limiter budget.Limiter
	// Room is where calls wait. nil: a new one.
	Room     *admission.Room
	Observer Observer     // nil: nobody looks
	Logger   *slog.Logger // nil: silent
	// Transport makes the transport of a provider. nil: NewTransport.
	Transport func(*Provider) http.RoundTripper
}

// Observer is told what happens. Its methods must not block and are called
// from many goroutines.
type Observer interface {
	// QueueWait is told how long a call waited for its turn.
	QueueWait(provider string, d time.Duration)
	// Spilled is told of each call for model that goes to a provider of a later
	// order, since it would wait too long for the one that it passes over.
	Spilled(model, from, to string)
	// UpstreamRequest is told of every try: the answer's status, 0 for none.
	UpstreamRequest(provider string, status int)
	// UpstreamRemaining is told what the provider says is left of its limit on
	// unit ("requests" or "tokens").
	UpstreamRemaining(provider, unit string, n int64)
	// UpstreamRest is told that a part of a provider begins to rest, and why:
	// refused, spent, denied, limited or failing.
	UpstreamRest(provider, cause string)
	// UpstreamResting is told how many parts rest for a cause, now and then.
	UpstreamResting(provider, cause string, n int)
}

// Client sends calls to providers. It is safe for concurrent use.
type Client struct {
	limiter   budget.Limiter
	room      *admission.Room
	observer  Observer
	log       *slog.Logger
	transport func(*Provider) http.RoundTripper

	id        string        // names this gateway to the others
	wake      chan struct{} // there is something unwritten
	mu        sync.Mutex
	states    map[string]*state // by the provider's name
	unwritten map[string]string // what other gateways are to know, by its field; empty: nothing any more
}

// nobody looks at what happens.
type nobody struct{}

func (nobody) QueueWait(string, time.Duration)         {}
func (nobody) Spilled(string, string, string)          {}
func (nobody) UpstreamRequest(string, int)             {}
func (nobody) UpstreamRemaining(string, string, int64) {}
func (nobody) UpstreamRest(string, string)             {}
func (nobody) UpstreamResting(string, string, int)     {}

// New returns a Client for c.
func New(c Config) *Client {
	client := &Client{
		limiter: c.Limiter, room: c.Room, observer: c.Observer, log: c.Logger, transport: c.Transport,
		id: rand.Text(), wake: make(chan struct{}, 1),
		states: make(map[string]*state), unwritten: make(map[string]string),
	}
	if client.room == nil {
		client.room = admission.New()
	}
	if client.observer == nil {
		client.observer = nobody{}
	}
	if client.log == nil {
		client.log = slog.New(slog.DiscardHandler)
	}
	if client.transport == nil {
		client.transport = NewTransport
	}
	client.Reload(c.Providers)
	return client
}

// Reload puts new configurations in force. What is known of a provider is kept
// by its name; calls under way end with the configuration that they began with.
func (c *Client) Reload(providers []*Provider) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.states
	c.states = make(map[string]*state, len(providers))
	for _, p := range providers {
		if s := old[p.Name]; s != nil {
			c.states[p.Name] = s
			c.update(s, p)
			delete(old, p.Name)
			continue
		}
		c.state(p)
	}
	for name, s := range old {
		s.connections.closeIdle()
		for _, why := range causes {
			c.observer.UpstreamResting(name, string(why), 0)
		}
	}
}

// Close drops idle connections. Calls under way go on.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.states {
		s.connections.closeIdle()
	}
}

// state is what is known of p by its name; of one that no configuration named,
// nothing yet. mu is held.
func (c *Client) state(p *Provider) *state {
	s := c.states[p.Name]
	if s == nil {
		s = &state{rotation: make(map[string]float64), conditions: make(conditions), refusals: make(map[usageKey]*usageRefusal)}
		c.states[p.Name] = s
		c.update(s, p)
	}
	return s
}

// update makes p the configuration of s. mu is held.
func (c *Client) update(s *state, p *Provider) {
	before := s.provider
	s.provider = p
	if before == nil || before.Timeouts.Connect != p.Timeouts.Connect {
		if s.connections != nil {
			s.connections.closeIdle()
		}
		s.connections = newConnections(c.transport(p))
	}
	if before != nil && (before.BaseURL != p.BaseURL || before.Usage != p.Usage) {
		clear(s.refusals)
	}
	secrets := p.APIKeys
	if len(secrets) == 0 {
		secrets = []string{""}
	}
	keys := make([]*key, 0, len(secrets))
	for i, secret := range secrets {
		keys = append(keys, c.keyOf(s, before, secret))
		if p.Limits.Keys == PerKey && len(p.APIKeys) > 0 {
			keys[i].pacer.set(newPaced(p, secret))
		}
	}
	if p.Limits.Keys != PerKey || len(p.APIKeys) == 0 {
		shared := keys[0].pacer
		shared.set(newPaced(p, ""))
		for _, k := range keys {
			if k.pacer != shared { // a new key, that nobody has yet
				k.pacer = shared
			}
		}
	}
	s.keys = keys
	s.conditions.forget(keys)
}

// keyOf is the key of s with this secret, or a new one. Its pacer is kept if
// the limits hold for the same as before. mu is held.
func (c *Client) keyOf(s *state, before *Provider, secret string) *key {
	same := before != nil && before.Limits.Keys == s.provider.Limits.Keys
	i := slices.IndexFunc(s.keys, func(k *key) bool { return k.secret == secret })
	switch {
	case i >= 0 && same:
		return s.keys[i]
	case same && s.provider.Limits.Keys != PerKey:
		return newKey(secret, s.keys[0].pacer)
	default:
		p := newPacer(c.limiter, nil)
		p.room = c.room
		return newKey(secret, p)
	}
}

func newKey(secret string, p *pacer) *key {
	k := &key{secret: secret, id: keyID(secret), pacer: p}
	k.left.Store(-1)
	return k
}
