package telemetry

import (
	"context"
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"llmgw/internal/tokens"
)

// RequestLabels say which request ended and how.
type RequestLabels struct {
	Team     string // empty: unknown
	Model    string // as the client named it, "other" if it is not configured
	Endpoint string // the path's pattern
	Status   int    // as the client saw it; 0: none was sent
	Outcome  string // completed, client_gone, upstream_error, …
}

// Timing is where one request's time went. A zero FirstToken: none came.
type Timing struct {
	Total      time.Duration
	Overhead   time.Duration // what the gateway itself took
	FirstToken time.Duration // until the answer's first byte
	TraceID    string        // the exemplar's; empty: not traced
}

// observe notes d, with the trace as its exemplar.
func (t Timing) observe(o prometheus.Observer, d time.Duration) {
	if e, ok := o.(prometheus.ExemplarObserver); ok && t.TraceID != "" {
		e.ObserveWithExemplar(d.Seconds(), prometheus.Labels{"trace_id": t.TraceID})
		return
	}
	o.Observe(d.Seconds())
}

// RequestDone counts a request that ended.
func (m *Metrics) RequestDone(l RequestLabels, t Timing) {
	m.RequestEnded(l)
	seconds := m.timings.of(m.bounds.model.value(l.Model))
	t.observe(seconds.total, t.Total)
	if t.FirstToken > 0 {
		t.observe(seconds.firstToken, t.FirstToken)
	}
	t.observe(m.overhead, max(0, t.Overhead))
}

// RequestEnded counts a request of which no time is known: its gateway died.
func (m *Metrics) RequestEnded(l RequestLabels) {
	m.requests.of(requestKey{
		team:     m.bounds.team.value(l.Team),
		model:    m.bounds.model.value(l.Model),
		endpoint: m.bounds.endpoint.value(l.Endpoint),
		status:   plausible(l.Status),
		outcome:  m.bounds.outcome.value(l.Outcome),
	}).Inc()
}

// Inflight adds delta to the number of requests being handled.
func (m *Metrics) Inflight(delta int) { m.inflight.Add(float64(delta)) }

// Tokens counts what one request used.
func (m *Metrics) Tokens(team, model string, u tokens.Usage) {
	c := m.tokens.of(m.teamModel(team, model))
	add(c.input, u.Input)
	add(c.output, u.Output)
	add(c.cached, u.CachedInput)
	add(c.written, u.CacheWrite)
	add(c.reasoning, u.Reasoning)
}

// Cost counts what a call cost, in millionths of a dollar; an empty provider is not
// known.
func (m *Metrics) Cost(team, model, provider string, microUSD int64) {
	if provider == "" {
		provider = "none"
	}
	m.cost.of(costKey{m.bounds.team.value(team), m.bounds.model.value(model), m.bounds.provider.value(provider)}).Add(float64(max(0, microUSD)) / 1e6)
}

// Provider notes how long a provider took for an answer to a call for model, and
// until its first byte.
func (m *Metrics) Provider(provider, model string, whole, first time.Duration) {
	seconds := m.provider.of(pair{m.bounds.provider.value(provider), m.bounds.model.value(model)})
	seconds.total.Observe(whole.Seconds())
	seconds.firstToken.Observe(first.Seconds())
}

// Configured makes the counters of a team and a model begin at 0: one that is first
// seen at 1 has not risen, for Prometheus. providers are those of a model with
// prices.
func (m *Metrics) Configured(team, model string, providers []string) {
	k := m.teamModel(team, model)
	m.tokens.of(k)
	m.reserved.of(k)
	m.refunded.of(k)
	m.overrun.of(k)
	m.settlements.of(k)
	for _, p := range providers {
		m.Cost(team, model, p, 0)
	}
}

// SettlementEstimated counts a request whose usage was counted by ourselves.
func (m *Metrics) SettlementEstimated(team, model string) {
	m.settlements.of(m.teamModel(team, model)).Inc()
}

// Reserved counts tokens that were reserved.
func (m *Metrics) Reserved(team, model string, n tokens.Count) {
	add(m.reserved.of(m.teamModel(team, model)), n)
}

// Refunded counts reserved tokens that were given back.
func (m *Metrics) Refunded(team, model string, n tokens.Count) {
	add(m.refunded.of(m.teamModel(team, model)), n)
}

// Overrun counts tokens that were used above the reserve.
func (m *Metrics) Overrun(team, model string, n tokens.Count) {
	add(m.overrun.of(m.teamModel(team, model)), n)
}

// Unpriced counts an answer that reported something, such as cache_write_1h or
// web_search, that the model has no price for.
func (m *Metrics) Unpriced(model, class string) {
	m.unpriced.of(pair{m.bounds.model.value(model), class}).Inc()
}

// RecordsDropped counts single records that had no room.
func (m *Metrics) RecordsDropped(n int) { m.dropped.Add(float64(n)) }

// Leases shows what open returns, the leases that requests are granted from or
// still open on, and granted, the requests that were granted from leases.
func (m *Metrics) Leases(open func() int, granted func() int64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "llmgw_leases_open", Help: "Leases of this instance that the store has not ended.",
	}, func() float64 { return float64(open()) }), prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "llmgw_reservations_leased_total", Help: "Requests that were granted from a lease, without a call of the store.",
	}, func() float64 { return float64(granted()) }))
}

// ReservationsOpen shows what open returns: the reservations that this instance
// holds. It is called at each scrape and must be called once.
func (m *Metrics) ReservationsOpen(open func() int) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "llmgw_reservations_open", Help: "Reservations of this instance that are not yet settled in the store.",
	}, func() float64 { return float64(open()) }))
}

// Reservations counts n reservations that ended: settled, refunded or reclaimed.
func (m *Metrics) Reservations(result string, n int) {
	m.reservations.of(m.bounds.result.value(result)).Add(float64(max(0, n)))
}

// Rejection counts a request that a limit refused; mode is enforce, shadow (it
// would have) or candidate (its candidate amount would have).
func (m *Metrics) Rejection(scope, limit, code, team, mode string) {
	m.rejections.of(rejectionKey{
		scope: m.bounds.scope.value(scope),
		limit: m.bounds.limit.value(limit),
		code:  m.bounds.code.value(code),
		team:  m.bounds.team.value(team),
		mode:  m.bounds.mode.value(mode),
	}).Inc()
}

// EstimateRatio notes input used ÷ input estimated. What is no ratio (negative,
// infinite, no number) is ignored.
func (m *Metrics) EstimateRatio(model string, ratio float64) {
	if math.IsNaN(ratio) || ratio < 0 || ratio > float64(tokens.MaxCount) {
		return
	}
	m.ratio.of(m.bounds.model.value(model)).Observe(ratio)
}

// EstimateSeconds notes how long one estimate took.
func (m *Metrics) EstimateSeconds(model string, d time.Duration) {
	m.estimating.of(m.bounds.model.value(model)).Observe(d.Seconds())
}

// QueueWait notes how long a request waited for its turn at a provider.
func (m *Metrics) QueueWait(provider string, d time.Duration) {
	m.queueWait.of(m.bounds.provider.value(provider)).Observe(d.Seconds())
}

// Spilled counts a call for model that went to a provider of a later order, since
// it would have waited too long for another.
func (m *Metrics) Spilled(model, from, to string) {
	m.spilled.of(spillKey{m.bounds.model.value(model), m.bounds.provider.value(from), m.bounds.provider.value(to)}).Inc()
}

// UpstreamRequest counts a call to a provider; status 0: it did not answer.
func (m *Metrics) UpstreamRequest(provider string, status int) {
	m.upstream.of(upstreamKey{m.bounds.provider.value(provider), plausible(status)}).Inc()
}

// UpstreamRemaining shows what a provider said is left of its limit of unit.
func (m *Metrics) UpstreamRemaining(provider, unit string, n int64) {
	m.remaining.of(pair{m.bounds.provider.value(provider), m.bounds.unit.value(unit)}).Set(float64(n))
}

// UpstreamRest counts that a part of a provider begins to rest, and why.
func (m *Metrics) UpstreamRest(provider, cause string) {
	m.rests.of(pair{m.bounds.provider.value(provider), m.bounds.code.value(cause)}).Inc()
}

// UpstreamResting shows how many parts of a provider rest for a cause. It makes the
// counter of those that began to, so that the first one is a rise.
func (m *Metrics) UpstreamResting(provider, cause string, n int) {
	k := pair{m.bounds.provider.value(provider), m.bounds.code.value(cause)}
	m.rests.of(k)
	m.resting.of(k).Set(float64(n))
}

// StoreCall notes one call to the store. That its caller went away is no error
// of the store.
func (m *Metrics) StoreCall(op string, d time.Duration, err error) {
	s := m.store.of(m.bounds.op.value(op))
	s.seconds.Observe(d.Seconds())
	if err != nil && !errors.Is(err, context.Canceled) {
		s.errors.Inc()
	}
}

// StoreUp says whether the store answers.
func (m *Metrics) StoreUp(up bool) { m.storeUp.Set(truth(up)) }

// ConnectionRefused counts a connection that was one too many of its address.
func (m *Metrics) ConnectionRefused() { m.crowded.Inc() }

// AlertTried counts a try to deliver an alert, with its outcome: delivered or failed.
func (m *Metrics) AlertTried(receiver, outcome string) {
	m.alerts.WithLabelValues(receiver, outcome).Inc()
}

// AdminAuthFailure counts a wrong token at the admin port.
func (m *Metrics) AdminAuthFailure() { m.strangers.Inc() }

// BodyBytes shows what read returns, the memory that requests' bodies hold. Call
// it once.
func (m *Metrics) BodyBytes(read func() int64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "llmgw_body_bytes", Help: "Memory that the bodies of all requests hold, in bytes.",
	}, func() float64 { return float64(read()) }))
}

// ClockStep counts a step of the store's clock.
func (m *Metrics) ClockStep(time.Duration) { m.clockSteps.Inc() }

// ConfigReloaded says whether the last configuration was accepted.
func (m *Metrics) ConfigReloaded(ok bool) { m.reloaded.Set(truth(ok)) }

// LimitDrift says of how many limits other amounts are in force than this gateway's
// configuration has.
func (m *Metrics) LimitDrift(n int64) { m.drift.Set(float64(n)) }

// LimitLevels shows what read returns. read is asked at a scrape, at most once
// a second and never twice at a time, and should honour its ctx. Levels that do
// not come in time are left out; their amounts stay.
func (m *Metrics) LimitLevels(read func(context.Context) []Level) { m.levels.use(read) }

func (m *Metrics) teamModel(team, model string) pair {
	return pair{m.bounds.team.value(team), m.bounds.model.value(model)}
}

func add(c prometheus.Counter, n tokens.Count) {
	if n > 0 {
		c.Add(float64(n))
	}
}

// plausible keeps the statuses of a bad provider from making series without end.
func plausible(status int) int {
	if status < 100 || status > 599 {
		return 0
	}
	return status
}

func statusLabel(status int) string {
	if status == 0 {
		return "none"
	}
	return strconv.Itoa(status)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
