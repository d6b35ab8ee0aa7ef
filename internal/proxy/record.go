package proxy

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"strings"
	"time"

	"llmgw/internal/charge"
	"llmgw/internal/dialect"
	"llmgw/internal/dialect/registry"
	"llmgw/internal/estimate"
	"llmgw/internal/fault"
	"llmgw/internal/telemetry"
	"llmgw/internal/tokens"
	"llmgw/internal/upstream"
)

const requestIDHeader = "X-Llmgw-Request-Id"

// record is what is told of one call when it has ended: to the metrics, the
// trace, the usage log and the ledger. Its parts are filled in as the call goes
// on; nothing is decided by it.
type record struct {
	id     string
	route  route
	client context.Context
	ended  time.Time // when the call ended; zero: it runs

	settlement *settlement // nil: nothing was reserved
	span       *telemetry.Span
	began      time.Time

	model     string // its label
	wanted    string // the model as the client named it; empty: it was not read
	session   string // of the client, within its user; empty: it names none
	caller    charge.Caller
	plan      *plan
	held      reservation
	ending    charge.Ending // where nothing was reserved; see end
	status    int
	code      fault.Code
	limitedBy string // the limit that refused
	cause     string // why the provider failed, for the log
	quiet     bool   // it is recorded only if it is refused
	admitted  bool   // no limit refused: what was reserved is settled

	target   upstream.Target
	attempts int
	queued   time.Duration // waiting for the provider's turn
	asked    time.Time     // when the call was given to upstream
	sent     time.Time     // when the last try was sent
	first    time.Time     // the answer's first byte
	last     time.Time     // the answer's last byte
	answer   dialect.Report
}

// begin starts the record of a call and gives it its id.
func (g *Gateway) begin(w http.ResponseWriter, r *http.Request, rt route) *record {
	g.inflight.Add(1)
	g.Metrics.Inflight(1)
	rec := &record{id: newID(), route: rt, client: r.Context(), model: "other", began: time.Now()}
	_, rec.span = g.Tracing.Start(r.Context(), r.Header, r.Method, braced(rt.endpoint.Pattern))
	h := w.Header()
	id := []string{rec.id}
	h[requestIDHeader], h["X-Request-Id"] = id, id
	if !g.StoreUp() {
		h["X-Llmgw-Degraded"] = []string{"true"}
	}
	return rec
}

// newID is the id of a request that nobody has yet.
func newID() string {
	const prefix = "req_"
	var random [12]byte
	_, _ = rand.Read(random[:]) // never fails
	var id [len(prefix) + 2*len(random)]byte
	hex.Encode(id[copy(id[:], prefix):], random[:])
	return string(id[:])
}

// planned tells the client what was estimated.
func (rec *record) planned(w http.ResponseWriter, p *plan) {
	rec.plan = p
	if p.Call.Endpoint.Operation != dialect.Stored { // which nothing is estimated of
		w.Header()["X-Llmgw-Estimated-Tokens"] = []string{p.estimated()}
	}
	asked := telemetry.Asked{
		Operation: string(p.Call.Endpoint.Operation), Model: p.Call.Model, Choices: p.Call.Choices,
		Team: p.Caller.Team.Name, KeyID: p.Caller.Key.ID, RequestID: rec.id,
	}
	if p.Call.HasMaxOutput {
		asked.MaxTokens = p.Call.MaxOutput
	}
	if p.Call.Stream {
		asked.Stream = telemetry.Streamed
	}
	rec.span.Ask(asked)
}

// endUpstream ends the trace's span of the call to the provider with what is
// known by then.
func (rec *record) endUpstream(span *telemetry.Span, used tokens.Usage) {
	if to := rec.target.Provider; to != nil {
		span.Reach(telemetry.Destination{
			Operation: string(rec.plan.Call.Endpoint.Operation), Provider: to.Name, System: registry.Flavor(to.Dialect, to.Flavor).System,
			Model: rec.modelThere(), BaseURL: to.BaseURL, Attempts: rec.attempts,
		})
	}
	span.End(telemetry.Answered{Status: rec.status, Model: rec.answer.Model, ID: rec.answer.ID, Usage: used})
}

// reserved tells the client how its limits stand after the verdict, unless the
// main switch is at shadow: who slows down for a limit that nobody enforces has
// another answer.
func (rec *record) reserved(w http.ResponseWriter, p *plan, held reservation) {
	rec.held, rec.caller = held, p.Caller // which a reload may have changed while it waited
	if held.mode != Shadow {
		writeLimits(w.Header(), p.dialect.Profile(), p.Lines, held.verdict)
	}
	if held.verdict.Degraded {
		w.Header()["X-Llmgw-Degraded"] = []string{"true"}
	}
}

// refused notes that the call is answered with e.
func (rec *record) refused(e *fault.Error) {
	rec.status, rec.code, rec.cause = dialect.StatusOf(e), e.Code, causeOf(e)
	if e.Limit != nil {
		rec.limitedBy = e.Limit.By
	}
	if rec.end().Outcome != "" {
		return // it was settled already, by what went wrong
	}
	switch e.Code {
	case fault.InvalidRequest, fault.RequestTooLarge, fault.NotFound, fault.MethodNotAllowed, fault.ModelNotFound, fault.InvalidAPIKey, fault.AlreadyEnded:
		rec.ending = charge.Refund(charge.Invalid)
	case fault.Internal:
		rec.ending = charge.Refund(charge.InternalError)
	default:
		rec.ending = charge.Refund(charge.Refused)
	}
}

// endpoint is the path's pattern, as people write it: {model} for a parameter.
func (rec *record) endpoint() string {
	return braced(rec.route.endpoint.Pattern)
}

// braced writes a router's pattern with {name} for each :name.
func braced(pattern string) string {
	if !strings.Contains(pattern, "/:") {
		return pattern
	}
	segments := strings.Split(pattern, "/")
	for i, s := range segments {
		if name, ok := strings.CutPrefix(s, ":"); ok {
			name, action, found := strings.Cut(name, ":")
			segments[i] = "{" + name + "}"
			if found {
				segments[i] += ":" + action
			}
		}
	}
	return strings.Join(segments, "/")
}

// ok notes that the call was answered by the gateway itself.
func (rec *record) ok() { rec.status, rec.ending = http.StatusOK, charge.Refund(charge.Completed) }

// answered notes which provider answered, and when.
func (rec *record) answered(w http.ResponseWriter, resp *upstream.Response) {
	rec.reached(w, resp.Target)
	rec.attempts, rec.queued = resp.Attempts, resp.QueueWait
	rec.sent, rec.first, rec.last, rec.status = resp.Sent, resp.HeaderAt, resp.HeaderAt, resp.Status
	tellWait(w, rec.held.waited+rec.queued)
}

// reached tells the client where its call was sent.
func (rec *record) reached(w http.ResponseWriter, t upstream.Target) {
	rec.target = t
	name := rec.modelThere()
	if name != "" {
		name = "/" + name
	}
	w.Header()["X-Llmgw-Upstream"] = []string{t.Provider.Name + name}
}

// atOnce is what most calls wait. It is shared: nobody changes a header's values.
var atOnce = []string{"0s"}

// tellWait tells how long a call has waited for its limits and its provider's turn,
// or would have to.
func tellWait(w http.ResponseWriter, d time.Duration) {
	told := atOnce
	if d = d.Round(10 * time.Millisecond); d > 0 {
		told = []string{d.String()}
	}
	w.Header()["X-Llmgw-Queue-Wait"] = told
}

// modelThere is the model as the target names it; empty where none is named.
func (rec *record) modelThere() string { return cmp.Or(rec.target.Model, rec.plan.Call.Model) }

// end is how the call ended and what it is charged; empty while that is open. It
// is the settlement's where something was reserved.
func (rec *record) end() charge.Ending {
	if s := rec.settlement; s != nil {
		return s.ending
	}
	return rec.ending
}

// clientGone tells whether the client has left.
func (rec *record) clientGone() bool { return rec.client.Err() != nil }

// record tells of a call that has ended; of what it used only when its response
// has ended too. It never blocks.
func (g *Gateway) record(rec *record) {
	defer g.inflight.Add(-1)     // last: who stops the gateway waits for it
	defer g.Metrics.Inflight(-1) // when the other metrics have the call
	if rec.end().Outcome == "" { // a panic
		rec.ending = charge.Worst
	}
	if rec.end().Outcome == charge.Shutdown {
		g.cut.Add(1)
	}
	if rec.status == 0 { // it is answered after this
		rec.status = http.StatusInternalServerError
	}
	rec.ended = time.Now()
	if rec.quiet && rec.code == "" {
		rec.span.End(telemetry.Answered{Status: rec.status, Outcome: string(rec.end().Outcome)})
		return
	}
	timing := telemetry.Timing{Total: rec.ended.Sub(rec.began), Overhead: rec.overhead(rec.ended), TraceID: rec.span.TraceID()}
	if !rec.first.IsZero() {
		timing.FirstToken = rec.first.Sub(rec.began)
	}
	defer g.Metrics.RequestDone(telemetry.RequestLabels{ // when its tokens are counted
		Team: rec.caller.TeamName(), Model: rec.model, Endpoint: rec.endpoint(), Status: rec.status, Outcome: string(rec.end().Outcome),
	}, timing)
	if s := rec.settlement; s != nil && s.goesOn != "" {
		g.bills.charged(s.goesOn, "left", rec, s.ending.Usage)
		if g.background.leave(s.goesOn, rec) {
			return
		}
		s.charge(s.ending)
	}
	g.recordUse(rec)
}

// recordUse tells of what a call has come to.
func (g *Gateway) recordUse(rec *record) {
	team, model := rec.caller.TeamName(), rec.model
	e := rec.entry(team, model, rec.ended)
	g.recordTokens(rec, team, model)
	if rec.plan != nil && rec.plan.Model.Prices != nil {
		g.Metrics.Cost(team, model, e.Provider, e.MicroUSD)
	}
	if e.Provider != "" && !rec.sent.IsZero() && rec.last.After(rec.sent) {
		g.Metrics.Provider(e.Provider, model, rec.last.Sub(rec.sent), rec.first.Sub(rec.sent))
	}
	rec.span.End(telemetry.Answered{
		Status: rec.status, ID: rec.answer.ID, Model: rec.answer.Model, Finish: rec.answer.Finish, Usage: rec.end().Usage,
		Outcome: string(rec.end().Outcome), ErrorType: rec.errorType(),
	})
	g.Ledger.Record(e)
}

// learn lets the estimator compare what an answer used with what was estimated.
func (g *Gateway) learn(p *plan, o charge.Outcome, r dialect.Report) {
	if r.Failure != nil || (!r.InputKnown && !r.OutputKnown) || p.Call.RequestsOnly || p.Flat {
		return
	}
	expected := p.Expected()
	g.Estimator.Observe(estimate.Observation{
		Rules: p.RulesFor(p.Targets[p.At]), Estimate: expected, Call: p.Call, Used: r.Usage, Counted: r.Counted,
		InputKnown: r.InputKnown, OutputKnown: p.Believes(r), Complete: o == charge.Completed,
	})
	if r.InputKnown && expected.Input > 0 {
		g.Metrics.EstimateRatio(p.Label(), float64(r.Usage.Input)/float64(expected.Input))
	}
}

// recordTokens counts what was reserved, used and given back.
func (g *Gateway) recordTokens(rec *record, team, model string) {
	if !rec.admitted {
		return
	}
	reserved, used := rec.plan.Reserved().Total(), rec.end().Usage.Total()
	g.Metrics.Reserved(team, model, reserved)
	if used < reserved {
		g.Metrics.Refunded(team, model, reserved-used)
	}
	if used > reserved {
		g.Metrics.Overrun(team, model, used-reserved)
	}
	g.Metrics.Tokens(team, model, rec.end().Usage)
	if prices := rec.plan.Model.Prices; prices != nil {
		g.unpriced.note(model, prices, rec.end().Usage)
	}
	if rec.end().Estimated {
		g.Metrics.SettlementEstimated(team, model)
	}
}
