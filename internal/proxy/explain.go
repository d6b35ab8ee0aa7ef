package proxy

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/charge"
	"llmgw/internal/dialect"
	"llmgw/internal/estimate"
	"llmgw/internal/fault"
	"llmgw/internal/tenant"
)

// Question is a request that Explain judges.
type Question struct {
	KeyID string
	Path  string
	User  string     // X-LLMGW-User; "": the body's
	IP    netip.Addr // of the client; zero: one that nobody knows
	Body  []byte
}

// Explanation is what a request would meet if it came now. Nothing is charged.
type Explanation struct {
	KeyID    string            `json:"key_id"`
	Team     string            `json:"team"`
	Model    string            `json:"model"`
	Estimate estimate.Estimate `json:"estimate"`
	// Enforcement is the main switch: only with enforce does a limit refuse.
	Enforcement string `json:"enforcement"`
	// Outcome is granted, or the code of the refusal.
	Outcome string `json:"outcome"`
	// Binding is the limit that would refuse, as X-LLMGW-Limited-By; empty if
	// granted.
	Binding string `json:"binding,omitempty"`
	// WaitMS is when it would fit if nobody else came: 0 if it does, absent if
	// waiting cannot help or nobody can tell.
	WaitMS *int64           `json:"wait_ms,omitempty"`
	Limits []ExplainedLimit `json:"limits"`
	At     time.Time        `json:"at"` // the store's time
}

// ExplainedLimit is one limit that the request draws on. USD is in dollars.
type ExplainedLimit struct {
	LimitedBy string  `json:"limited_by"`
	Scope     string  `json:"scope"`
	Owner     string  `json:"owner"`
	Name      string  `json:"name"`
	Unit      string  `json:"unit"`
	Amount    float64 `json:"amount"`
	Per       string  `json:"per,omitempty"`
	Mode      string  `json:"mode"`
	Value     string  `json:"value,omitempty"` // which of several counters; "*": that of all for whom there is none left
	Needs     float64 `json:"needs"`
	Remaining float64 `json:"remaining"`
	Capacity  float64 `json:"capacity"`
	Open      float64 `json:"open"`
	WaitMS    int64   `json:"wait_ms"`
	ResetMS   int64   `json:"reset_ms"`
	Outcome   string  `json:"outcome"`
}

// Reader reads counters, as budget.Store does.
type Reader func(ctx context.Context, lines []budget.Line) ([]budget.LineState, time.Time, error)

// Explain judges a request of a key without charging it. The error is a fault:
// InvalidAPIKey if there is no such key, NotFound if no API is at path, or what
// the request itself would be refused for before any limit.
func (g *Gateway) Explain(ctx context.Context, read Reader, q Question) (*Explanation, error) {
	rules := g.rules.Load()
	key := rules.Directory.Key(q.KeyID)
	if key == nil {
		return nil, fault.New(fault.InvalidAPIKey, fmt.Sprintf("There is no key %q.", q.KeyID))
	}
	d, endpoint, params, ok := Route(g.Dialects, q.Path)
	if !ok {
		return nil, fault.New(fault.NotFound, fmt.Sprintf("No call is made at %q.", q.Path))
	}
	call, err := d.Parse(dialect.Request{
		Endpoint: endpoint, Path: q.Path, Header: dialect.Header{"Content-Type": {"application/json"}}, Body: q.Body, Params: params,
	})
	if err != nil {
		return nil, err
	}
	who := charge.Caller{Caller: tenant.Caller{Key: key, User: cmp.Or(q.User, call.User), IP: q.IP}, Team: key.Team, Counter: rules.Prefixes.Bucket(q.IP)}
	if err := g.blocked(who); err != nil {
		return nil, err
	}
	p, err := g.plan(rules, who, d, call)
	if err != nil {
		return nil, err
	}
	g.values.look(p.Lines)
	states, at, err := read(ctx, p.Lines)
	if err != nil {
		return nil, &fault.Error{Code: fault.LimiterUnavailable, Message: "The store of limits cannot be asked now.", Err: err}
	}
	return p.explained(g.Enforcement(), states, at), nil
}

func (p *plan) explained(mode Enforcement, states []budget.LineState, at time.Time) *Explanation {
	out, binding, wait := budget.Decide(&budget.Request{Lines: p.Lines, Shadow: mode != Enforce}, states)
	e := &Explanation{
		KeyID: p.Caller.Key.ID, Team: p.Caller.Team.Name, Model: p.Call.Model, Estimate: p.Estimate, Enforcement: string(mode),
		Outcome: outcomeName(out), At: at,
		Limits: p.shown(states),
	}
	if out != budget.Granted {
		e.Binding = p.LimitedBy(p.Lines[binding])
	}
	if out == budget.Granted || wait > 0 {
		ms := budget.CeilMS(wait)
		e.WaitMS = &ms
	}
	return e
}

func outcomeName(o budget.Outcome) string {
	if o == budget.Granted {
		return "granted"
	}
	return string(codeOf(o))
}

// Route finds the endpoint among dialects that a POST to path would reach.
func Route(dialects []dialect.Dialect, path string) (d dialect.Dialect, e dialect.Endpoint, params map[string]string, ok bool) {
	path, _, _ = strings.Cut(path, "?")
	for _, d := range dialects {
		for _, e := range d.Endpoints() {
			if e.Method != http.MethodPost {
				continue
			}
			if params, ok := dialect.Match(e.Pattern, path); ok {
				return d, e, params, true
			}
		}
	}
	return nil, dialect.Endpoint{}, nil, false
}
