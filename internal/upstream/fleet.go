package upstream

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"time"
)

// SharedMap holds the small map by which all gateways of a store know what rests
// (internal/shared). Its methods return ctx's error when ctx ends.
type SharedMap interface {
	Fields(ctx context.Context, name string) (map[string]string, error)
	Set(ctx context.Context, name, field, value string) error
	Delete(ctx context.Context, name, field string) error
}

// The measure of sharing conditions.
const (
	conditionsMap = "conditions"
	// shareEvery is how often a gateway looks for what others wrote. It writes its
	// own at once.
	shareEvery   = 500 * time.Millisecond
	shareTimeout = 900 * time.Millisecond
	// keepShared is how long an entry stays behind the end of its rest: who wrote
	// it may be gone.
	keepShared = time.Hour
)

// entry is a condition as it is written for other gateways. Times are Unix
// milliseconds.
type entry struct {
	Provider string `json:"provider"`
	Key      string `json:"key,omitempty"` // by its id, never its secret
	Model    string `json:"model,omitempty"`
	Cause    cause  `json:"cause"`
	Since    int64  `json:"since"`
	Until    int64  `json:"until"`
	Rests    int    `json:"rests"`
	By       string `json:"by"`
}

// field names an entry in the map.
func (e entry) field() string { return e.Provider + "/" + e.Key + "/" + e.Model }

// changed notes that other gateways are to know how s of a's provider stands. A
// model that the configuration does not name stays this gateway's business:
// clients choose such names, in any number. mu is held.
func (c *Client) changed(a attempt, s scope) {
	if s.model != "" && a.target.Model == "" {
		return
	}
	e := entry{Provider: a.target.Provider.Name, Key: s.key, Model: s.model, By: c.id}
	field := e.field()
	d := a.state.conditions[s]
	if d == nil {
		c.unwritten[field] = ""
	} else {
		e.Cause, e.Rests, e.Since, e.Until = d.cause, d.rests, d.since.UnixMilli(), d.until.UnixMilli()
		text, _ := json.Marshal(e) // strings and numbers never fail
		c.unwritten[field] = string(text)
		d.shared = true
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Share keeps what rests the same on all gateways of a store, until ctx ends. No
// request waits for it. While the store is away each gateway goes by what it
// knows, and what it has learned is written when the store is back.
//
// Who noticed that something fails probes it when its rest is over; the others
// follow a little later, so that they see how the probe went and do not all probe.
func (c *Client) Share(ctx context.Context, store SharedMap) {
	tick := time.NewTicker(shareEvery)
	defer tick.Stop()
	for {
		c.exchangeConditions(ctx, store)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-c.wake:
		}
	}
}

// exchangeConditions writes what is unwritten and takes in what others wrote.
func (c *Client) exchangeConditions(ctx context.Context, store SharedMap) {
	ctx, cancel := context.WithTimeout(ctx, shareTimeout)
	defer cancel()
	c.mu.Lock()
	writes := c.unwritten
	c.unwritten = make(map[string]string)
	c.mu.Unlock()
	for field, text := range writes {
		var err error
		if text == "" {
			err = store.Delete(ctx, conditionsMap, field)
		} else {
			err = store.Set(ctx, conditionsMap, field, text)
		}
		if err != nil {
			c.writeLater(writes)
			return
		}
	}
	fields, err := store.Fields(ctx, conditionsMap)
	if err != nil {
		return // the store is away, which the limiter reports
	}
	c.adopt(fields)
}

// writeLater keeps writes that failed, unless there is something newer. What was
// written before the failure is written again, which changes nothing.
func (c *Client) writeLater(writes map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for field, text := range writes {
		if _, newer := c.unwritten[field]; !newer {
			c.unwritten[field] = text
		}
	}
}

// adopt takes in what fields say.
func (c *Client) adopt(fields map[string]string) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for field, text := range fields {
		var e entry
		if _, newer := c.unwritten[field]; newer || json.Unmarshal([]byte(text), &e) != nil {
			continue // what a later version wrote is its own business
		}
		if now.UnixMilli()-e.Until > keepShared.Milliseconds() {
			c.unwritten[field] = "" // with the next exchange
			continue
		}
		s := c.states[e.Provider]
		if s != nil && e.By != c.id && (e.Key == "" || s.number(e.Key) != "") {
			s.conditions.adopt(e, now)
		}
	}
	for name, s := range c.states {
		for at, d := range s.conditions {
			field := entry{Provider: name, Key: at.key, Model: at.model}.field()
			_, known := fields[field]
			_, unwritten := c.unwritten[field]
			if d.shared && !known && !unwritten {
				d.shared, d.until = false, now // it served elsewhere: a probe shows whether it does here
			}
		}
		for why, n := range s.conditions.resting(now) {
			c.observer.UpstreamResting(name, string(why), n)
		}
	}
}

// adopt takes in what another gateway found at e.Since, if that is newer.
func (c conditions) adopt(e entry, now time.Time) {
	since, until := time.UnixMilli(e.Since), time.UnixMilli(e.Until)
	if e.Cause == limited && !now.Before(until) {
		return
	}
	d := c.of(scope{e.Key, e.Model})
	if !since.After(d.since.Truncate(time.Millisecond)) {
		return
	}
	if e.Cause != limited { // the other gateway probes first
		until = until.Add(3*shareEvery + rand.N(3*shareEvery))
	}
	// Clocks may differ: nothing rests for longer from now than it did there.
	until = now.Add(min(until.Sub(now), until.Sub(since)))
	*d = condition{cause: e.Cause, since: since, until: until, rests: e.Rests, failures: d.failures, shared: true}
}
