package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"llmgw/internal/budget"
	"llmgw/internal/charge"
	"llmgw/internal/dialect"
	"llmgw/internal/fault"
	"llmgw/internal/tenant"
)

// Limiter is what a Gateway asks about limits: budget.Limiter, and what
// reservations need that belong to no gateway.
type Limiter interface {
	budget.Limiter
	// Adopt returns the reservation that the store granted for r, and for more
	// after it, at whichever gateway.
	Adopt(r budget.Request, more ...budget.Request) *budget.Reservation
	// Progress tells the store at once what such reservations have used.
	Progress(ctx context.Context, p []budget.Progress) error
	// Read reads counters, as budget.Store does.
	Read(ctx context.Context, lines []budget.Line) ([]budget.LineState, time.Time, error)
}

// OutsidePath begins the paths of the API for calls that do not go through the
// gateway.
const OutsidePath = "/llmgw/v1/"

// outsideEndpoint is the endpoint of its requests in records and metrics.
const outsideEndpoint = "reservation"

// outsideCall is one request of the API for calls that do not go through the
// gateway: it reserves, and settles when the call has ended elsewhere.
//
//	POST reservations ──► open ──POST settle──► settled
//	                      │  ▲ └──DELETE──────► deleted: all goes back
//	                      └──┘ └──its ttl─────► ended by its crash charge
//	                     PATCH
//
// Who may call, what it reserves and how it is refused is as for a proxied call.
// outsideask.go reads what is asked, outsidestate.go keeps it where every gateway
// finds it, outsideend.go ends it, outsideusage.go reads what was used.
type outsideCall struct {
	*Gateway
	w     http.ResponseWriter
	r     *http.Request
	id    string // of the reservation that the path names
	body  []byte
	rec   *record
	rules *Rules
	who   charge.Caller
	since uint64 // Room.Wakes before the client was identified
}

// routeOutside adds the API's routes.
func (g *Gateway) routeOutside(e *gin.Engine) {
	at := func(method, path string, do func(*outsideCall) error) {
		e.Handle(method, OutsidePath+path, func(c *gin.Context) {
			c.Status(http.StatusOK)
			g.serveOutside(c.Writer, c.Request, c.Param("id"), do)
		})
	}
	at(http.MethodPost, "reservations", (*outsideCall).reserve)
	at(http.MethodPost, "reservations/:id/settle", (*outsideCall).settle)
	at(http.MethodPatch, "reservations/:id", (*outsideCall).patch)
	at(http.MethodDelete, "reservations/:id", (*outsideCall).remove)
	at(http.MethodPost, "check", (*outsideCall).check)
	at(http.MethodPost, "estimate", (*outsideCall).estimate)
	e.POST(OutsidePath+"reservations:batch", func(c *gin.Context) {
		if c.Param("batch") != ":batch" {
			g.unrouted(notFound(nil))(c)
			return
		}
		g.serveOutside(c.Writer, c.Request, "", (*outsideCall).batch)
	})
}

// serveOutside answers one request of the API.
func (g *Gateway) serveOutside(w http.ResponseWriter, r *http.Request, id string, do func(*outsideCall) error) {
	c := g.outsideCall(w, r)
	defer g.record(c.rec)
	c.id = id
	b := &body{gateway: g, limit: c.rules.MaxBodyBytes}
	defer b.release()
	err := c.enter(b)
	if err == nil {
		c.rec.ok()
		err = do(c)
	}
	if err != nil {
		c.rec.ending = charge.Ending{}
		g.refuse(c.w, c.rec, err)
	}
}

// outsideCall begins one.
func (g *Gateway) outsideCall(w http.ResponseWriter, r *http.Request) *outsideCall {
	rt := route{dialect: g.Dialects[0], endpoint: dialect.Endpoint{Method: r.Method, Pattern: outsideEndpoint}}
	c := &outsideCall{Gateway: g, w: w, r: r, since: g.Room.Wakes(), rules: g.rules.Load(), rec: g.begin(w, r, rt)}
	c.rec.quiet = true
	return c
}

// enter finds who asks, and reads the body.
func (c *outsideCall) enter(b *body) (err error) {
	if c.who, err = c.Gateway.enter(c.rules, c.r, c.rec); err != nil {
		if c.rec.caller.Key != nil {
			discard(c.w, c.r, c.rules.MaxBodyBytes)
		}
		return err
	}
	b.team = c.who.Team.Name
	c.body, err = b.read(c.w, c.r)
	b.rest()
	return err
}

// decode reads the body, an object, into v.
func (c *outsideCall) decode(v any) error {
	d := json.NewDecoder(strings.NewReader(string(c.body)))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil && d.More() {
		err = errors.New("something follows the object")
	}
	if err == nil {
		return nil
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f
	}
	param := ""
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		param = wrong.Field
	} else if _, name, ok := strings.Cut(err.Error(), "json: unknown field "); ok {
		param = strings.Trim(name, `"`)
	}
	return fault.Invalid(param, "The request's body is not what this path takes: "+strings.TrimPrefix(err.Error(), "json: ")+".")
}

// answer writes v.
func (c *outsideCall) answer(status int, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.send(status, data)
}

// send writes a JSON document.
func (c *outsideCall) send(status int, data []byte) error {
	c.w.Header().Set("Content-Type", "application/json")
	c.w.WriteHeader(status)
	c.rec.status = status
	_, _ = c.w.Write(data) // the client is gone: nobody is left to tell
	return nil
}

// reserve answers POST reservations.
func (c *outsideCall) reserve() error {
	p, ttl, tags, err := c.plan()
	if err != nil {
		return err
	}
	id := "rsv_" + strings.TrimPrefix(c.rec.id, "req_")
	p.life = ttl
	held, err := c.Gateway.reserve(c.r.Context(), p, id)
	c.rec.reserved(c.w, p, held)
	if err != nil {
		return err
	}
	at := held.verdict.At
	if at.IsZero() {
		at = time.Now()
	}
	o := newOutside(c, p, id, tags, held)
	o.until = at.Add(ttl)
	c.keep(o, held)
	c.w.Header().Set("Location", OutsidePath+"reservations/"+id)
	return c.answer(http.StatusCreated, struct {
		ID      string           `json:"id"`
		Expires time.Time        `json:"expires_at"`
		Model   string           `json:"model,omitempty"`
		Limits  []ExplainedLimit `json:"limits"`
	}{id, o.until.UTC().Truncate(time.Millisecond), p.Call.Model, p.shown(held.verdict.Lines)})
}

// check answers POST check: what reserve would, and takes nothing.
func (c *outsideCall) check() error {
	p, _, _, err := c.plan()
	if err != nil {
		return err
	}
	mode := c.Enforcement()
	c.values.look(p.Lines)
	states, at, err := c.Limiter.Read(c.r.Context(), p.Lines)
	if err != nil {
		return storeAway(err)
	}
	v := budget.Verdict{Lines: states, At: at}
	v.Outcome, v.Binding, v.Wait = budget.Decide(&budget.Request{Lines: p.Lines, Shadow: mode != Enforce}, states)
	c.rec.reserved(c.w, p, reservation{mode: mode, verdict: v})
	if v.Outcome != budget.Granted {
		return c.refusal(p, v)
	}
	return c.answer(http.StatusOK, struct {
		Outcome string           `json:"outcome"`
		Model   string           `json:"model,omitempty"`
		Limits  []ExplainedLimit `json:"limits"`
	}{outcomeName(v.Outcome), p.Call.Model, p.shown(states)})
}

// estimate answers POST estimate, as the command estimate does.
func (c *outsideCall) estimate() error {
	var ask struct {
		Model, Path string
		Body        json.RawMessage
	}
	if err := c.decode(&ask); err != nil {
		return err
	}
	call, d, err := c.parse(ask.Model, ask.Path, ask.Body)
	if err != nil {
		return err
	}
	c.rec.route.dialect = d
	m, err := c.rules.model(c.who.Key, call.Model)
	if err != nil {
		return err
	}
	e, err := m.Estimate(c.Estimator, call)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, e)
}

// socketKey is the key of a request that comes over the unix socket without one,
// or nil.
func (r *Rules) socketKey(req *http.Request, why error) *tenant.Key {
	if r.SocketKey == "" || !errors.Is(why, tenant.ErrNoCredential) || strings.Contains(req.RemoteAddr, ":") {
		return nil
	}
	return r.Directory.Key(r.SocketKey)
}

// storeAway is the refusal of what only the store can answer.
func storeAway(err error) error {
	return &fault.Error{
		Code: fault.LimiterUnavailable, Wait: time.Second, Err: err,
		Message: "The store of limits cannot be asked at the moment. Try again shortly.",
	}
}
