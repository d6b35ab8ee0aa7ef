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
	back := a.state.conditions.served(a.key.id, a.model, a.began)
	var names []string
	for _, s := range back {
		c.changed(a, s)
		names = append(names, a.state.number(s.key))
	}
	c.mu.Unlock()
	for i, s := range back {
		c.log.Info("a part of a provider serves again", "provider", a.target.Provider.Name, "credential", names[i], "model", s.model)
	}
}

// sick notes that an attempt failed by its provider's fault.
func (c *Client) sick(a attempt) {
	c.rested(a, scope{model: a.model}, "", func(s scope, now time.Time) bool {
		return a.state.conditions.fail(s, a.began, now)
	})
}

// rests makes rest what an answer says had better rest, for all gateways.
func (c *Client) rests(a attempt, j judgement, why string) {
	if j.rests == "" {
		return
	}
	after := j.after
	if j.rests == spent { // what it asks to wait then is about a rate
		after = 0
	}
	c.rested(a, j.width.scope(a.key.id, a.model), why, func(s scope, now time.Time) bool {
		return a.state.conditions.rest(s, j.rests, after, a.began, now)
	})
}

// meanings are what the log says of each cause.
var meanings = map[cause]string{
	refused: "the provider refuses a credential of the gateway, which rests",
	spent:   "a credential's quota at the provider is used up: it rests",
	denied:  "a credential may not use the model, and is passed over for it",
	limited: "the provider asks to wait",
	failing: "the target keeps failing and is passed over while others serve",
}

// rested reports to operators and other gateways that s rests, if change says that
// this is news. change is called with mu held.
func (c *Client) rested(a attempt, s scope, why string, change func(scope, time.Time) bool) {
	now, name := time.Now(), a.target.Provider.Name
	c.mu.Lock()
	if !change(s, now) {
		c.mu.Unlock()
		return
	}
	c.changed(a, s)
	d, key := *a.state.conditions[s], a.state.number(s.key)
	c.mu.Unlock()
	c.observer.UpstreamRest(name, string(d.cause))
	level := slog.LevelWarn
	if d.cause == limited {
		level = slog.LevelInfo
	}
	c.log.Log(a.ctx, level, meanings[d.cause], "provider", name, "credential", key, "model", s.model,
		"cause", string(d.cause), "why", why, "rests_for", d.until.Sub(now).Round(time.Millisecond).String())
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
