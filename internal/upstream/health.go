package upstream

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"llmgw/internal/fault"
)

// admit lets an attempt begin, unless what it asks rests: then it returns the
// rest. last says that nothing else can serve, so that only what bars is in the
// way. An attempt that began is ended by release.
func (c *Client) admit(a *attempt, last bool) rest {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	r := a.state.conditions.look(a.key.id, a.model, now)
	if r.cause != "" && (r.cause.bars() || !last) {
		return r
	}
	a.began = now
	a.state.rotate(a.target.Model, 0) // it is known from now on
	a.state.conditions.begin(a.key.id, a.model, now)
	return rest{}
}

// release ends an attempt. If it was a probe that showed nothing, such as one
// whose client left, the next attempt is one.
func (c *Client) release(a attempt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a.state.conditions.end(a.key.id, a.model, a.began)
}

// healthy notes that an attempt was served.
func (c *Client) healthy(a attempt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	back := a.state.conditions.served(a.key.id, a.model, a.began)
	for _, s := range back {
		c.log.Info("a part of a provider serves again", "provider", a.target.Provider.Name, "credential", a.state.number(s.key), "model", s.model)
		c.changed(a, s)
	}
}

// sick notes that an attempt failed by its provider's fault.
func (c *Client) sick(a attempt) {
	s := scope{model: a.model}
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.state.conditions.fail(s, a.began, time.Now()) {
		c.rested(a, s, "")
	}
}

// rests makes rest what an answer says had better rest, for all gateways.
func (c *Client) rests(a attempt, j judgement, why string) {
	if j.rests == "" {
		return
	}
	s := j.width.scope(a.key.id, a.model)
	after := j.after
	if j.rests == spent { // what it asks to wait then is about a rate
		after = 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.state.conditions.rest(s, j.rests, after, a.began, time.Now()) {
		c.rested(a, s, why)
	}
}

// rested tells operators and other gateways that s rests. mu is held.
func (c *Client) rested(a attempt, s scope, why string) {
	d, name := a.state.conditions[s], a.target.Provider.Name
	c.observer.UpstreamRest(name, string(d.cause))
	c.changed(a, s)
	level := slog.LevelWarn
	if d.cause == limited {
		level = slog.LevelInfo
	}
	c.log.Log(a.ctx, level, map[cause]string{
		refused: "the provider refuses a credential of the gateway; others serve",
		spent:   "a credential's quota at the provider is used up; others serve",
		denied:  "a credential may not use the model; others serve",
		limited: "the provider asks to wait",
		failing: "the target keeps failing and is passed over while others serve",
	}[d.cause], "provider", name, "credential", a.state.number(s.key), "model", s.model, "cause", string(d.cause), "why", why, "rests_for", time.Until(d.until).Round(time.Millisecond))
}

// number says which of the provider's keys an id stands for, as a log names it.
func (s *state) number(id string) string {
	i := slices.IndexFunc(s.keys, func(k *key) bool { return k.id == id })
	if id == "" || i < 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d", i+1, len(s.keys))
}

// unserved is the failure of a call that is not sent, since what it asks rests.
func unserved(p *Provider, r rest) *fault.Error {
	if r.cause == limited {
		return &fault.Error{Code: fault.UpstreamCapacity, Wait: r.wait, NoRetry: r.wait > fault.LongestHint, Message: fmt.Sprintf(
			"Provider %q asked to wait. Try again in %.1f s.", p.Name, (r.wait + 50*time.Millisecond).Seconds())}
	}
	return ofCredential(p, r.cause, nil)
}

// ofCredential is the failure of a call that the provider does not serve because
// of the gateway's credential: no client's business, and cured by no client.
func ofCredential(p *Provider, why cause, err error) *fault.Error {
	message := "Provider %q refuses the gateway's credential. This is not about your key: please tell who runs the gateway."
	switch why {
	case spent:
		message = "The gateway's quota at provider %q is used up. This is not about your budget: please tell who runs the gateway."
	case denied:
		message = "Provider %q does not let the gateway's credential use this model. This is not about your key: please tell who runs the gateway."
	}
	return &fault.Error{Code: fault.UpstreamError, NoRetry: true, Message: fmt.Sprintf(message, p.Name), Err: err}
}
