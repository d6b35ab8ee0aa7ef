package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/charge"
	"llmgw/internal/fault"
	"llmgw/internal/shared"
	"llmgw/internal/tenant"
	"llmgw/internal/tokens"
)

// keptAfter is how long an ended reservation is remembered, so that a repeat
// gets the same answer.
const keptAfter = time.Hour

// outside is a reservation that its caller settles, at whichever gateway: what
// they must all know of it beside the store's own record. It lies in a map of
// its own among what the gateways share:
//
//	meta      the outside, which never changes
//	until     when it ends, Unix milliseconds
//	part+x    the amounts of an extension, and the suffix of its id
//	end       how it ended, once
type outside struct {
	ID      string             `json:"id"`
	StoreID string             `json:"store_id"` // of the store's record
	Held    bool               `json:"held"`     // there is one
	Shadow  bool               `json:"shadow,omitempty"`
	Crash   budget.CrashCharge `json:"crash,omitempty"`
	Team    string             `json:"team"`
	Key     string             `json:"key"`
	Model   string             `json:"model,omitempty"`
	Dialect string             `json:"dialect"`
	User    string             `json:"user,omitempty"`
	Session string             `json:"session,omitempty"`
	Tags    map[string]string  `json:"tags,omitempty"`
	Created time.Time          `json:"created"`
	Input   tokens.Count       `json:"input"`
	Output  tokens.Count       `json:"output"`
	Lines   []outsideLine      `json:"lines"`

	until time.Time
	parts map[string][]int64 // by the suffix of their ids
	end   *outsideEnd        // nil: it is open
	at    outsideStore       // where it lies
	local *localOutside      // of one that only this gateway knows
}

// outsideLine is one line, by which any gateway finds the limit.
type outsideLine struct {
	Place  string       `json:"place"`
	Scope  budget.Scope `json:"scope"`
	Owner  string       `json:"owner,omitempty"`
	Name   string       `json:"name"`
	Unit   budget.Unit  `json:"unit"`
	Tag    string       `json:"tag,omitempty"`
	Value  string       `json:"value,omitempty"`
	Amount int64        `json:"amount"`
}

// outsideStore is where outsides lie: among what the gateways share, or here.
type outsideStore interface {
	Fields(ctx context.Context, name string) (map[string]string, error)
	SetFor(ctx context.Context, name string, fields map[string]string, ttl time.Duration) error
	SetOnce(ctx context.Context, name, field, value string) (string, error)
}

// localOutside is a reservation that was granted while the store was away.
type localOutside struct {
	held  *budget.Reservation
	timer *time.Timer
}

// locals are the reservations that only this gateway knows.
type locals struct {
	store shared.Memory
	mu    sync.Mutex
	held  map[string]*localOutside
}

func (l *locals) put(id string, held *localOutside) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[id] = held
}

func (l *locals) get(id string) *localOutside {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[id]
}

func (l *locals) delete(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, id)
}

func outsideName(id string) string { return "reservation/" + id }

// newOutside is what is to be known of a plan that was granted.
func newOutside(c *outsideCall, p *plan, id string, tags map[string]string, held reservation) *outside {
	o := &outside{
		ID: id, StoreID: id, Team: p.Caller.Team.Name, Key: p.Caller.Key.ID, Model: p.Call.Model, Dialect: p.dialect.Name(),
		User: p.Caller.User, Session: cut(c.rec.session), Tags: tags, Created: time.Now(), Input: p.Estimate.Input, Output: p.Estimate.Output,
	}
	if r := held.Reservation; r != nil {
		o.Held, o.StoreID, o.Shadow, o.Crash = true, r.Request.ID, r.Request.Shadow, r.Request.CrashCharge
	}
	for _, l := range p.Lines {
		o.Lines = append(o.Lines, outsideLine{
			Place: l.Limit.Place, Scope: l.Limit.Scope, Owner: l.Limit.Owner, Name: l.Limit.Name, Unit: l.Limit.Unit, Tag: l.Limit.Tag, Value: l.Value, Amount: l.Amount,
		})
	}
	return o
}

// keep puts o where every gateway finds it. What was granted without the store,
// or cannot be put there, stays here.
func (c *outsideCall) keep(o *outside, held reservation) {
	if !held.verdict.Degraded {
		o.at = c.Shared
		if o.put(c.r.Context()) == nil {
			return
		}
	}
	o.at = &c.locals.store
	_ = o.put(context.Background()) // memory takes it
	local := &localOutside{held: held.Reservation}
	local.timer = time.AfterFunc(time.Until(o.until), func() { c.Gateway.expire(o.ID) })
	c.locals.put(o.ID, local)
}

// put writes o.
func (o *outside) put(ctx context.Context) error {
	meta, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("keep %s: %w", o.ID, err)
	}
	return o.set(ctx, map[string]string{"meta": string(meta)})
}

// set writes fields, and how long they are kept.
func (o *outside) set(ctx context.Context, fields map[string]string) error {
	fields["until"] = strconv.FormatInt(o.until.UnixMilli(), 10)
	return o.at.SetFor(ctx, outsideName(o.ID), fields, time.Until(o.until)+keptAfter)
}

// find returns the reservation that the path names: NotFound if there is none, or
// it is another team's.
func (c *outsideCall) find() (*outside, error) {
	o, err := c.load(c.r.Context(), c.id)
	if err != nil {
		return nil, storeAway(err)
	}
	if o == nil || o.Team != c.who.Team.Name {
		return nil, &fault.Error{Code: fault.NotFound, NoRetry: true, Message: "There is no reservation of this id. It may have ended more than an hour ago."}
	}
	return o, nil
}

// load reads the reservation id; nil if there is none.
func (g *Gateway) load(ctx context.Context, id string) (*outside, error) {
	if !strings.HasPrefix(id, "rsv_") || len(id) > 64 {
		return nil, nil
	}
	local := g.locals.get(id)
	at := outsideStore(g.Shared)
	if local != nil {
		at = &g.locals.store
	}
	fields, err := at.Fields(ctx, outsideName(id))
	if err != nil || fields["meta"] == "" {
		return nil, err
	}
	o := &outside{at: at, local: local, parts: map[string][]int64{}}
	if err := json.Unmarshal([]byte(fields["meta"]), o); err != nil {
		return nil, fmt.Errorf("read reservation %s: %w", id, err)
	}
	ms, err := strconv.ParseInt(fields["until"], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("read reservation %s: %w", id, err)
	}
	o.until = time.UnixMilli(ms)
	for name, value := range fields {
		suffix, ok := strings.CutPrefix(name, "part")
		if !ok {
			continue
		}
		var more []int64
		if err := json.Unmarshal([]byte(value), &more); err != nil || len(more) != len(o.Lines) {
			return nil, fmt.Errorf("read reservation %s: part %s: %w", id, suffix, err)
		}
		o.parts[suffix] = more
	}
	if end := fields["end"]; end != "" {
		o.end = new(outsideEnd)
		if err := json.Unmarshal([]byte(end), o.end); err != nil {
			return nil, fmt.Errorf("read reservation %s: %w", id, err)
		}
	}
	return o, nil
}

// lines are o's lines under some rules. A limit that there is no more is known by
// its names alone, which is enough to settle.
func (o *outside) lines(rules *Rules, model *charge.Model, key *tenant.Key) []budget.Line {
	known := [][]*budget.Limit{rules.Limits, model.Limits}
	if team := rules.Directory.Team(o.Team); team != nil {
		known = append(known, team.Limits)
	}
	if key != nil {
		known = append(known, key.Limits)
	}
	lines := make([]budget.Line, len(o.Lines))
	for i, l := range o.Lines {
		lines[i] = budget.Line{Limit: l.limit(known), Value: l.Value, Amount: l.Amount}
	}
	return lines
}

func (l *outsideLine) limit(known [][]*budget.Limit) *budget.Limit {
	for _, group := range known {
		for _, k := range group {
			if k.Place == l.Place && k.Name == l.Name && k.Unit == l.Unit {
				return k
			}
		}
	}
	return &budget.Limit{Place: l.Place, Scope: l.Scope, Owner: l.Owner, Name: l.Name, Unit: l.Unit, Tag: l.Tag, Mode: budget.Enforce}
}

// plan is o as a plan under the rules in force.
func (o *outside) plan(c *outsideCall) *plan {
	model := anyModel
	for _, name := range [...]string{o.Model, charge.Wildcard} {
		if m := c.rules.Models[name]; m != nil && o.Model != "" {
			model = m
			break
		}
	}
	p := &plan{Plan: charge.Plan{Call: callOf(o), Model: model, Requests: 1}, dialect: c.Dialects[0], maxWait: -1}
	for _, d := range c.Dialects {
		if d.Name() == o.Dialect {
			p.dialect = d
		}
	}
	p.Estimate.Input, p.Estimate.Output = o.Input, o.Output
	p.Caller = c.who
	p.Caller.User = o.User
	if key := c.rules.Directory.Key(o.Key); key != nil {
		p.Caller.Key = key
	}
	p.Lines = o.lines(c.rules, model, p.Caller.Key)
	return p
}

// requests are o's records in the store: the first, and its extensions.
func (o *outside) requests(lines []budget.Line) []budget.Request {
	all := []budget.Request{{ID: o.StoreID, Epoch: budget.Outside, Lines: lines, Shadow: o.Shadow, CrashCharge: o.Crash}}
	for suffix, more := range o.parts {
		all = append(all, o.part(lines, suffix, more))
	}
	return all
}

// part is the request of an extension.
func (o *outside) part(lines []budget.Line, suffix string, more []int64) budget.Request {
	r := budget.Request{ID: budget.Suffixed(o.StoreID, suffix), Epoch: budget.Outside, Shadow: o.Shadow, CrashCharge: o.Crash}
	for i, l := range lines {
		l.Amount = more[i]
		r.Lines = append(r.Lines, l)
	}
	return r
}
