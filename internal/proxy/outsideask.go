package proxy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/charge"
	"llmgw/internal/dialect"
	"llmgw/internal/estimate"
	"llmgw/internal/fault"
	"llmgw/internal/tokens"
)

// The lifetime of a reservation that names none, and the longest.
const (
	defaultTTL = time.Minute
	longestTTL = 24 * time.Hour
)

// maxTags bounds a reservation's tags in number, and each in bytes.
const (
	maxTags    = 16
	maxTagText = 128
)

// outsideAsk is the body of a request to reserve or to check.
type outsideAsk struct {
	Model           string            `json:"model"`
	Path            string            `json:"path"`
	Body            json.RawMessage   `json:"body"`
	InputTokens     *int64            `json:"input_tokens"`
	MaxOutputTokens *int64            `json:"max_output_tokens"`
	Amounts         amounts           `json:"amounts"`
	User            string            `json:"user"`
	Session         string            `json:"session"`
	Tags            map[string]string `json:"tags"`
	MaxWait         *span             `json:"max_wait"`
	TTL             *span             `json:"ttl"`
}

// span is a duration in JSON: a text such as "90s", or a number of seconds.
type span time.Duration

// UnmarshalJSON implements json.Unmarshaler.
func (s *span) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		d, err := time.ParseDuration(text)
		if err != nil {
			return fault.Invalid("", fmt.Sprintf("%q is not a duration; write one such as \"90s\", or a number of seconds.", text))
		}
		*s = span(d)
		return nil
	}
	var seconds float64
	if err := json.Unmarshal(data, &seconds); err != nil || seconds < 0 || seconds > longestTTL.Seconds() {
		return fault.Invalid("", fmt.Sprintf("%s is not a duration; write one such as \"90s\", or a number of seconds.", data))
	}
	*s = span(seconds * float64(time.Second))
	return nil
}

// ttl is a lifetime within its bounds.
func (s *span) ttl(otherwise time.Duration) (time.Duration, error) {
	if s == nil {
		return otherwise, nil
	}
	if d := time.Duration(*s); d >= time.Second && d <= longestTTL {
		return d, nil
	}
	return 0, fault.Invalid("ttl", fmt.Sprintf("ttl is from 1s to 24h, not %v.", time.Duration(*s)))
}

// amounts are amounts by unit: tokens, requests and slots as they are, dollars in
// millionths.
type amounts map[budget.Unit]int64

// check refuses units that there are not, and amounts out of bounds.
func (a amounts) check(param string) error {
	for _, unit := range slices.Sorted(maps.Keys(a)) {
		if !slices.Contains(units[:], unit) {
			return fault.Invalid(param, fmt.Sprintf("%s: %q is not a unit; use tokens, input_tokens, output_tokens, requests, usd (in millionths of a dollar) or concurrency.", param, unit))
		}
		if n := a[unit]; n < 0 || n > int64(tokens.MaxCount) {
			return fault.Invalid(param, fmt.Sprintf("%s.%s: %d is not from 0 to 9007199254740991.", param, unit, n))
		}
	}
	return nil
}

// plan reads what is to be reserved.
func (c *outsideCall) plan() (p *plan, ttl time.Duration, tags map[string]string, err error) {
	var ask outsideAsk
	if err = c.decode(&ask); err != nil {
		return nil, 0, nil, err
	}
	if err = ask.check(); err != nil {
		return nil, 0, nil, err
	}
	if ttl, err = ask.TTL.ttl(defaultTTL); err != nil {
		return nil, 0, nil, err
	}
	if ask.User != "" {
		c.who.User = ask.User
	}
	c.rec.wanted, c.rec.model = ask.Model, c.rules.label(ask.Model)
	if ask.Body != nil {
		p, err = c.planBody(&ask)
	} else {
		p, err = c.planNumbers(&ask)
	}
	if err != nil {
		return nil, 0, nil, err
	}
	c.rec.session = cmp.Or(ask.Session, p.Call.Session)
	p.Asked = ask.Amounts
	p.since = c.since
	if p.Model.Name != "" {
		p.still = c.stillOf(c.r, c.rec.route, p.Caller.User, p.Call)
	}
	if p.Lines = p.Draws(c.rules.Limits); ask.MaxWait != nil {
		p.maxWait = time.Duration(*ask.MaxWait)
	} else if p.maxWait, err = maxWaitOf(c.r.Header); err != nil {
		return nil, 0, nil, err
	}
	c.rec.planned(c.w, p)
	c.rec.caller = p.Caller
	return p, ttl, ask.Tags, nil
}

func (a *outsideAsk) check() error {
	if string(bytes.TrimSpace(a.Body)) == "null" {
		a.Body = nil
	}
	switch {
	case a.Body == nil && a.InputTokens == nil && a.Amounts == nil:
		return fault.Invalid("body", "Say what to reserve: body (a request's), input_tokens, or amounts.")
	case a.Body != nil && (a.InputTokens != nil || a.MaxOutputTokens != nil):
		return fault.Invalid("input_tokens", "Give body, or input_tokens and max_output_tokens, not both.")
	case a.Model == "" && a.Body == nil && a.Amounts == nil:
		return fault.Invalid("model", "model is missing: input_tokens are those of a model.")
	case len(a.Tags) > maxTags:
		return fault.Invalid("tags", fmt.Sprintf("There are %d tags; %d are allowed.", len(a.Tags), maxTags))
	}
	for name, value := range a.Tags {
		if len(name) > maxTagText || len(value) > maxTagText {
			return fault.Invalid("tags", fmt.Sprintf("A tag's name and value have %d bytes at most.", maxTagText))
		}
	}
	if a.MaxWait != nil && *a.MaxWait < 0 {
		return fault.Invalid("max_wait", "max_wait must not be negative.")
	}
	for name, n := range map[string]*int64{"input_tokens": a.InputTokens, "max_output_tokens": a.MaxOutputTokens} {
		if n != nil && (*n < 0 || *n > int64(tokens.MaxCount)/2) {
			return fault.Invalid(name, fmt.Sprintf("%s: %d is not a number of tokens.", name, *n))
		}
	}
	return a.Amounts.check("amounts")
}

// parse reads a request's body as the API at path reads it.
func (c *outsideCall) parse(model, path string, data json.RawMessage) (*dialect.Call, dialect.Dialect, error) {
	path = cmp.Or(path, "/v1/chat/completions")
	d, endpoint, params, ok := Route(c.Dialects, path)
	if !ok {
		return nil, nil, fault.Invalid("path", fmt.Sprintf("No call is made at %q.", path))
	}
	path, query, _ := strings.Cut(path, "?")
	if v, ok := d.(variant); ok {
		d = v.For(endpoint, query)
	}
	c.rec.route.dialect = d
	call, err := d.Parse(dialect.Request{
		Endpoint: endpoint, Path: path, Query: query, Header: dialect.Header{"Content-Type": {"application/json"}}, Body: WithModel(data, model), Params: params,
	})
	if err == nil && model != "" {
		call.Model = model
	}
	return call, d, err
}

// WithModel adds a model to a body that is an object without one, so that a body
// can be estimated before anybody has chosen its model.
func WithModel(body []byte, model string) []byte {
	var object map[string]json.RawMessage
	if model == "" || json.Unmarshal(body, &object) != nil || object == nil || object["model"] != nil {
		return body
	}
	name, err := json.Marshal(model)
	if err != nil {
		return body
	}
	object["model"] = name
	if out, err := json.Marshal(object); err == nil {
		return out
	}
	return body
}

// planBody plans a call by its body, as a proxied one is planned.
func (c *outsideCall) planBody(ask *outsideAsk) (*plan, error) {
	call, d, err := c.parse(ask.Model, ask.Path, ask.Body)
	if err != nil {
		return nil, err
	}
	c.rec.model, c.rec.wanted = c.rules.label(call.Model), call.Model
	if c.who, err = c.admit(c.who, call); err != nil {
		return nil, err
	}
	return c.Gateway.plan(c.rules, c.who, d, call)
}

// planNumbers plans a call by the numbers that its client gives.
func (c *outsideCall) planNumbers(ask *outsideAsk) (*plan, error) {
	d := c.rec.route.dialect
	if ask.Path != "" {
		known, _, _, ok := Route(c.Dialects, ask.Path)
		if !ok {
			return nil, fault.Invalid("path", fmt.Sprintf("No call is made at %q.", ask.Path))
		}
		d = known
		c.rec.route.dialect = d
	}
	call := &dialect.Call{Dialect: d.Name(), Model: ask.Model, Request: dialect.Request{Endpoint: dialect.Endpoint{Operation: dialect.Chat}}}
	who, err := c.admit(c.who, call)
	if err != nil {
		return nil, err
	}
	p := &plan{Plan: charge.Plan{Caller: who, Call: call, Requests: 1, Model: anyModel}, dialect: d, maxWait: -1}
	if ask.Model != "" {
		if p.Model, err = c.rules.model(who.Key, ask.Model); err != nil {
			return nil, err
		}
	}
	if ask.InputTokens != nil {
		bound := cmp.Or(p.Model.Rules.DefaultMaxOutput, estimate.DefaultOutput)
		if ask.MaxOutputTokens != nil {
			bound = tokens.Count(*ask.MaxOutputTokens)
		}
		p.Estimate = estimate.Estimate{Input: tokens.Count(*ask.InputTokens), Output: bound, MaxOutput: bound}
	}
	return p, nil
}

// anyModel is the model of what has none, such as a tool's use: it has no limits
// and no prices.
var anyModel = &charge.Model{Weights: tokens.Even}

// shown is how p's limits stand, as clients and operators see it.
func (p *plan) shown(states []budget.LineState) []ExplainedLimit {
	all := make([]ExplainedLimit, len(p.Lines))
	for i, line := range p.Lines {
		var s budget.LineState
		if i < len(states) {
			s = states[i]
		}
		l := line.Limit.InForce(s)
		shown := l.Unit.Number
		all[i] = ExplainedLimit{
			LimitedBy: p.LimitedBy(line), Scope: string(l.Scope), Owner: l.Owner, Name: l.Name, Unit: string(l.Unit), Amount: shown(l.Amount), Per: string(l.Period),
			Mode: string(l.Mode), Value: line.Value, Needs: shown(line.Amount), Remaining: shown(s.Remaining), Capacity: shown(s.Capacity),
			Open: shown(s.Open), WaitMS: budget.CeilMS(s.Wait), ResetMS: budget.CeilMS(s.Reset), Outcome: outcomeName(s.Outcome),
		}
	}
	return all
}
