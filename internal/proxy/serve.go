package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/charge"
	"llmgw/internal/dialect"
	"llmgw/internal/fault"
	"llmgw/internal/tenant"
	"llmgw/internal/tokens"
	"llmgw/internal/upstream"
)

// route is one endpoint as its dialect serves it.
type route struct {
	dialect  dialect.Dialect
	endpoint dialect.Endpoint
	flat     *Passthrough // nil: metered by what is used
}

// serve answers one call. It is the path of a request: each step takes what the
// one before returned, and what was reserved is settled once, at whatever
// ending.
func (g *Gateway) serve(w http.ResponseWriter, r *http.Request, rt route, params map[string]string) {
	rec := g.begin(w, r, rt)
	defer g.record(rec)
	since := g.Room.Wakes() // before what is in force is read
	rules := g.rules.Load()

	who, err := g.enter(rules, r, rec)
	if err == nil {
		err = g.early(w, r, rules, rt, rec)
	}
	if err != nil {
		if rec.caller.Key != nil {
			discard(w, r, rules.MaxBodyBytes)
		}
		g.refuse(w, rec, err)
		return
	}
	b := &body{gateway: g, team: who.Team.Name, limit: rules.MaxBodyBytes}
	defer b.release()
	call, err := b.parse(w, r, rt, params)
	if err != nil {
		g.refuse(w, rec, err)
		return
	}
	rec.model, rec.wanted = rules.label(call.Model), call.Model
	rec.session = cmp.Or(r.Header.Get("X-Claude-Code-Session-Id"), call.Session)
	if who, err = g.admit(who, call); err != nil {
		g.refuse(w, rec, err)
		return
	}
	call.Header = scoped(call.Header, who.Team.Name)
	p, err := g.planFor(rules, who, rt, call)
	if err != nil {
		g.refuse(w, rec, err)
		return
	}
	b.rest() // the work on it is done
	p.body, p.since = b, since
	if p.maxWait, err = maxWaitOf(r.Header); err != nil {
		g.refuse(w, rec, err)
		return
	}
	rec.planned(w, p)
	r, tries := g.attempts.begin(r, who.Caller, call.Body)
	defer tries.end()
	rec.client = r.Context()
	p.still = g.stillOf(r, rt, who.User, call)
	held, err := g.reserve(r.Context(), p, rec.id)
	rec.reserved(w, p, held)
	if err != nil {
		g.refuse(w, rec, err)
		return
	}
	rec.admitted = true
	s := &settlement{gateway: g, plan: p, held: held, attempt: tries, reported: rec.began}
	rec.settlement = s
	defer s.settle(charge.Worst)
	g.forward(w, r, rules, s, rec)
}

// planFor plans a call by what it will use, by its route's flat charge, or as
// one about something stored.
func (g *Gateway) planFor(rules *Rules, who charge.Caller, rt route, call *dialect.Call) (*plan, error) {
	if rt.flat != nil {
		return rt.flatPlan(rules, who, call), nil
	}
	if call.Endpoint.Operation == dialect.Stored {
		return rules.storedPlan(who, rt.dialect, call)
	}
	return g.plan(rules, who, rt.dialect, call)
}

// forward sends the call, relays the answer, and settles both the call's limits
// and the provider's.
func (g *Gateway) forward(w http.ResponseWriter, r *http.Request, rules *Rules, s *settlement, rec *record) {
	p := s.plan
	line := newLifeline(r.Context(), rules)
	defer line.end()
	ctx, span := rec.span.Upstream(line.ctx, string(p.Call.Endpoint.Operation), p.Call.Header)
	defer func() { rec.endUpstream(span, s.ending.Usage) }()

	s.asking = g.background.asks(p.Call)
	defer s.asking.end()

	rec.asked = time.Now()
	resp, err := s.send(ctx, rec.id)
	if err != nil {
		if failed, ok := errors.AsType[*upstream.TargetError](err); ok {
			p.AnsweredBy(failed.Target)
			rec.reached(w, failed.Target)
		}
		s.settle(unanswered(p, r.Context(), s.sent.Load(), err))
		g.refuse(w, rec, err)
		return
	}
	line.answered()
	p.AnsweredBy(resp.Target)
	if p.Call.Stream { // which nobody tries again once it has begun; a document may still time out
		s.attempt.answer(resp.Status)
	}
	p.body.done(p.Call)
	defer closeAnswer(resp, s)
	rec.answered(w, resp)
	g.relay(w, line, s, resp, rec)
	s.attempt.answer(resp.Status)
}

// send makes the call, the request id, to the provider.
func (s *settlement) send(ctx context.Context, id string) (*upstream.Response, error) {
	if err := s.plan.body.load(ctx, s.plan.Call); err != nil {
		return nil, err
	}
	return s.gateway.Upstream.Do(ctx, s.job(id))
}

// closeAnswer settles the provider's limits by what the call came to, and
// closes the answer.
func closeAnswer(resp *upstream.Response, s *settlement) {
	s.settle(charge.Worst)
	resp.Settle(s.answered)
	_ = resp.Close() // it was read to its end, or is not wanted any more
}

// identify finds who asks, before anything is kept of the request. With an error
// the caller has its address alone.
func (g *Gateway) identify(rules *Rules, r *http.Request) (charge.Caller, error) {
	secret, err := tenant.Credential(dialect.Header(r.Header), r.URL.RawQuery)
	key, known := rules.Directory.Identify(secret)
	if own := rules.socketKey(r, err); own != nil {
		key, known, err = own, true, nil
	}
	ip := rules.Proxies.ClientIP(r.RemoteAddr, r.Header["X-Forwarded-For"])
	who := charge.Caller{Caller: tenant.Caller{IP: ip}, Counter: rules.Prefixes.Bucket(ip), Conn: r.RemoteAddr}
	if err != nil || !known {
		return who, unknownKey(err)
	}
	key.Use(time.Now())
	who.Key, who.Team = key, key.Team
	return who, nil
}

// enter lets in who has a valid key and is not blocked. A call without a key is
// refused, and draws on the limits of its address.
func (g *Gateway) enter(rules *Rules, r *http.Request, rec *record) (charge.Caller, error) {
	who, err := g.identify(rules, r)
	if err != nil {
		return charge.Caller{}, cmp.Or(g.chargeStranger(r.Context(), rules, who.Counter, rec.id), err)
	}
	who.User = r.Header.Get("X-Llmgw-User")
	rec.caller = who
	return who, g.blocked(who)
}

// chargeStranger charges a call without a valid key to the gateway's limits of
// requests that count by address. It returns a *fault.Error if one refuses.
func (g *Gateway) chargeStranger(ctx context.Context, rules *Rules, ip, id string) error {
	p := &plan{Plan: charge.Plan{Caller: charge.Caller{Counter: ip}, Call: &dialect.Call{RequestsOnly: true}, Model: &charge.Model{Name: charge.Wildcard, Weights: tokens.Even}, Requests: 1}}
	for _, l := range rules.Limits {
		if l.Scope == budget.IP && l.Unit == budget.Requests {
			p.Lines = append(p.Lines, budget.Line{Limit: l.For(ip), Value: ip, Amount: 1})
		}
	}
	held, err := g.reserve(ctx, p, id)
	if held.Reservation != nil {
		held.Settle(p.Amounts(tokens.Usage{}, p.Requests))
	}
	return err
}

// unknownKey refuses who is not known, by why there is no secret, or nil.
func unknownKey(why error) error {
	e := fault.New(fault.InvalidAPIKey, "Incorrect API key provided. Ask your platform team for a key of this gateway.")
	switch {
	case errors.Is(why, tenant.ErrSeveralCredentials):
		e.Message = "Several API keys provided that differ. Send the gateway's key alone, in one place."
	case errors.Is(why, tenant.ErrNoCredential):
		e.Message = "No API key provided. Send the gateway's key as your client sends its provider's, such as in an Authorization header: Bearer sk-llmgw-…"
	}
	e.NoRetry = true
	return e
}

// admit completes the caller by the user that its body names, and refuses a
// blocked one.
func (g *Gateway) admit(who charge.Caller, call *dialect.Call) (charge.Caller, error) {
	if who.User == "" {
		who.User = call.User
	}
	return who, g.blocked(who)
}

// blocked is the refusal of who is blocked, nil for anybody else.
func (g *Gateway) blocked(who charge.Caller) error {
	b, blocked := g.Blocks.Match(who.Caller)
	if !blocked {
		return nil
	}
	message := fmt.Sprintf("This %s is blocked.", b.Scope)
	if b.Reason != "" {
		message = fmt.Sprintf("This %s is blocked: %s", b.Scope, b.Reason)
	}
	return &fault.Error{Code: fault.Blocked, Message: message, NoRetry: true}
}

// job is what upstream needs to know of the call, the request id. What the call has
// waited for its limits it cannot wait for its turn.
func (s *settlement) job(id string) upstream.Job {
	p := s.plan
	j := upstream.Job{
		RequestID: id, Call: p.Call, Dialect: p.dialect, Targets: p.Targets,
		Model: p.Label(), SpillAfter: p.Model.SpillAfter,
		Input: p.Estimate.Shown().Input, Output: p.Estimate.Output, // a provider judges by the body, too
		Team: p.Caller.Team.Name, Weight: p.Caller.Team.Weight, MaxWait: upstream.NoMaxWait,
		Counter: p.Counters(s.gateway.Estimator), Watcher: s,
		Check: s.gateway.checkOf(p),
	}
	if p.maxWait >= 0 {
		j.MaxWait = max(0, p.maxWait-s.held.waited)
	}
	bounded := p.Model.CapOutput || p.Call.Detached // what goes on without us is to have a bound
	if bounded && (!p.Call.HasMaxOutput || p.Call.UnsetOutput) {
		j.CapOutput = p.Estimate.MaxOutput // never what was learned: it would cut answers off
	}
	return j
}

// refuse answers with err in the API's shape. If the client has left, it breaks
// the connection off: refuse then panics with http.ErrAbortHandler.
func (g *Gateway) refuse(w http.ResponseWriter, rec *record, err error) {
	if errors.Is(err, context.Canceled) && rec.clientGone() {
		rec.status = statusClientClosed
		if rec.end().Outcome == "" { // nothing had been sent, or settled
			rec.ending = charge.Refund(leftBy(rec.client))
		}
		panic(http.ErrAbortHandler) // no answer is better than an empty one
	}
	e := fault.From(err)
	rec.refused(e)
	if e.Limit != nil {
		g.Metrics.Rejection(e.Limit.Scope, e.Limit.Name, string(e.Code), rec.caller.TeamName(), "enforce")
	}
	if e.Code == fault.RequestTooLarge || e.Code == fault.Overloaded { // the rest of the body is not read
		w.Header().Set("Connection", "close")
	}
	if e.Wait > 0 {
		tellWait(w, e.Wait)
	}
	rec.status = writeFault(w, rec.route.dialect, e, rec.id)
}

// statusClientClosed is what the log and the metrics say of a call whose client
// left before there was a status (nginx's number).
const statusClientClosed = 499

// estimated is the X-LLMGW-Estimated-Tokens of a plan.
func (p *plan) estimated() string {
	return strconv.FormatInt(int64(tokens.Add(p.Estimate.Input, p.Estimate.Output)), 10)
}
