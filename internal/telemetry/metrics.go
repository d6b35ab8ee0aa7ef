package telemetry

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics are all metrics of one gateway, in a registry of their own. All
// methods are safe for concurrent use; those of a request's path do not
// allocate once their labels were seen.
type Metrics struct {
	registry *prometheus.Registry
	bounds   bounds
	levels   *levels

	requests     *series[requestKey, prometheus.Counter]
	timings      *series[string, timings]
	tokens       *series[pair, tokenCounters]
	settlements  *series[pair, prometheus.Counter]
	reserved     *series[pair, prometheus.Counter]
	refunded     *series[pair, prometheus.Counter]
	overrun      *series[pair, prometheus.Counter]
	unpriced     *series[pair, prometheus.Counter]
	dropped      prometheus.Counter
	reservations *series[string, prometheus.Counter]
	rejections   *series[rejectionKey, prometheus.Counter]
	ratio        *series[string, prometheus.Observer]
	estimating   *series[string, prometheus.Observer]
	queueWait    *series[string, prometheus.Observer]
	spilled      *series[spillKey, prometheus.Counter]
	cost         *series[costKey, prometheus.Counter]
	provider     *series[pair, timings]
	upstream     *series[upstreamKey, prometheus.Counter]
	remaining    *series[pair, prometheus.Gauge]
	rests        *series[pair, prometheus.Counter]
	resting      *series[pair, prometheus.Gauge]
	store        *series[string, storeMetrics]

	ratios, estimates *prometheus.HistogramVec // for Estimates

	overhead   prometheus.Histogram
	inflight   prometheus.Gauge
	storeUp    prometheus.Gauge
	clockSteps prometheus.Counter
	crowded    prometheus.Counter
	strangers  prometheus.Counter
	alerts     *prometheus.CounterVec
	reloaded   prometheus.Gauge
	drift      prometheus.Gauge
}

// bounds has one bound for each label whose values come from outside, shared by
// all metrics: a team that is shown in one is shown in all.
type bounds struct {
	team, model, endpoint, outcome, provider, unit, scope, owner, limit, code, mode, op, result *bound
}

type (
	pair       struct{ a, b string }
	requestKey struct {
		team, model, endpoint string
		status                int
		outcome               string
	}
	rejectionKey struct{ scope, limit, code, team, mode string }
	spillKey     struct{ model, from, to string }
	costKey      struct{ team, model, provider string }
	upstreamKey  struct {
		provider string
		status   int
	}
	timings       struct{ total, firstToken prometheus.Observer }
	tokenCounters struct{ input, output, cached, written, reasoning prometheus.Counter }
	storeMetrics  struct {
		seconds prometheus.Observer
		errors  prometheus.Counter
	}
)

// NewMetrics returns the metrics of a gateway, with those of Go and of the
// process. A label shows its first maxLabelValues values, at least 1, and the
// rest as "other".
func NewMetrics(build Build, maxLabelValues int) *Metrics {
	r := prometheus.NewRegistry()
	m := &Metrics{registry: r, bounds: newBounds(max(1, maxLabelValues))}
	m.registerRequests(r)
	m.registerTokens(r)
	m.registerLimits(r)
	m.registerUpstream(r)
	m.registerProcess(r, build)
	return m
}

func newBounds(most int) bounds {
	n := func() *bound { return newBound(most) }
	return bounds{n(), n(), n(), n(), n(), n(), n(), n(), n(), n(), n(), n(), n()}
}

// Handler serves the metrics in Prometheus's formats.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		EnableOpenMetrics:   true,
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: 8,
	})
}

func (m *Metrics) registerRequests(r *prometheus.Registry) {
	requests := counters(r, "llmgw_requests_total", "Requests that ended.", "team", "model", "endpoint", "status", "outcome")
	m.requests = newSeries(func(k requestKey) prometheus.Counter {
		return requests.WithLabelValues(k.team, k.model, k.endpoint, statusLabel(k.status), k.outcome)
	})
	total := histograms(r, "llmgw_request_seconds", "From the request's arrival to the answer's end.",
		[]float64{.025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640}, "model")
	first := histograms(r, "llmgw_time_to_first_token_seconds", "From the request's arrival to the answer's first byte.",
		[]float64{.01, .025, .05, .1, .25, .5, 1, 2, 4, 8, 16, 32, 64}, "model")
	m.timings = newSeries(func(model string) timings {
		return timings{total.WithLabelValues(model), first.WithLabelValues(model)}
	})
	m.overhead = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "llmgw_overhead_seconds", Help: "The time of a request that the gateway itself took.",
		Buckets: []float64{.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1},
	})
	m.inflight = gauge("llmgw_inflight_requests", "Requests being handled by this instance.")
	r.MustRegister(m.overhead, m.inflight)
}

func (m *Metrics) registerTokens(r *prometheus.Registry) {
	kinds := counters(r, "llmgw_tokens_total",
		"Tokens used, input and output.", "team", "model", "kind")
	details := counters(r, "llmgw_token_details_total",
		"Parts of the tokens used: cached_input and cache_write of the input, reasoning of the output.", "team", "model", "kind")
	m.tokens = newSeries(func(k pair) tokenCounters {
		all := func(kind string) prometheus.Counter { return kinds.WithLabelValues(k.a, k.b, kind) }
		part := func(kind string) prometheus.Counter { return details.WithLabelValues(k.a, k.b, kind) }
		return tokenCounters{all("input"), all("output"), part("cached_input"), part("cache_write"), part("reasoning")}
	})
	cost := counters(r, "llmgw_cost_usd_total", "Dollars that calls cost by the prices of their models; provider none: not known.", "team", "model", "provider")
	m.cost = newSeries(func(k costKey) prometheus.Counter { return cost.WithLabelValues(k.team, k.model, k.provider) })
	byTeam := func(name, help string) *series[pair, prometheus.Counter] {
		vec := counters(r, name, help, "team", "model")
		return newSeries(func(k pair) prometheus.Counter { return vec.WithLabelValues(k.a, k.b) })
	}
	m.settlements = byTeam("llmgw_settlements_estimated_total", "Requests settled by an estimate because the provider told no usage.")
	m.reserved = byTeam("llmgw_reserved_tokens_total", "Tokens reserved.")
	m.refunded = byTeam("llmgw_refunded_tokens_total", "Tokens reserved and given back.")
	m.overrun = byTeam("llmgw_overrun_tokens_total", "Tokens used above what was reserved.")
	unpriced := counters(r, "llmgw_unpriced_total", "Answers that reported something that the model has no price for.", "model", "class")
	m.dropped = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "llmgw_records_dropped_total", Help: "Single records of requests that had no room; their totals are kept.",
	})
	r.MustRegister(m.dropped)
	m.unpriced = newSeries(func(k pair) prometheus.Counter { return unpriced.WithLabelValues(k.a, k.b) })

	m.ratios = histograms(r, "llmgw_estimate_ratio", "Input tokens used, divided by those estimated.",
		[]float64{.25, .5, .75, .9, .95, .98, 1, 1.02, 1.05, 1.1, 1.25, 1.5, 2, 4}, "model")
	m.ratio = newSeries(func(model string) prometheus.Observer { return m.ratios.WithLabelValues(model) })
	m.estimates = histograms(r, "llmgw_estimate_seconds", "Time to estimate one request.",
		[]float64{.00001, .000025, .00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .1, 1}, "model")
	m.estimating = newSeries(func(model string) prometheus.Observer { return m.estimates.WithLabelValues(model) })
}

func (m *Metrics) registerLimits(r *prometheus.Registry) {
	results := counters(r, "llmgw_reservations_total", "Reservations that ended.", "result")
	m.reservations = newSeries(func(result string) prometheus.Counter { return results.WithLabelValues(result) })
	for _, result := range []string{"settled", "refunded", "reclaimed"} {
		// A counter that is first seen at 1 has not risen, for Prometheus.
		m.reservations.of(m.bounds.result.value(result))
	}
	rejections := counters(r, "llmgw_rejections_total",
		"Requests that a limit refused, or would have refused in shadow or with its candidate amount.", "scope", "limit", "code", "team", "mode")
	m.rejections = newSeries(func(k rejectionKey) prometheus.Counter {
		return rejections.WithLabelValues(k.scope, k.limit, k.code, k.team, k.mode)
	})
	m.levels = newLevels(m.bounds)
	r.MustRegister(m.levels)
}

func (m *Metrics) registerUpstream(r *prometheus.Registry) {
	wait := histograms(r, "llmgw_queue_wait_seconds", "Time that requests waited for their turn at a provider.",
		[]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}, "provider")
	spilled := counters(r, "llmgw_spilled_total", "Calls that went to a provider of a later order, since they would have waited too long.", "model", "from", "to")
	m.spilled = newSeries(func(k spillKey) prometheus.Counter { return spilled.WithLabelValues(k.model, k.from, k.to) })
	m.queueWait = newSeries(func(provider string) prometheus.Observer { return wait.WithLabelValues(provider) })
	answers := counters(r, "llmgw_upstream_requests_total", "Calls to a provider by the status of its answer; none: there was no answer.", "provider", "status")
	m.upstream = newSeries(func(k upstreamKey) prometheus.Counter {
		return answers.WithLabelValues(k.provider, statusLabel(k.status))
	})
	whole := histograms(r, "llmgw_provider_seconds", "From sending a call to a provider to the end of its answer.",
		[]float64{.025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640}, "provider", "model")
	begun := histograms(r, "llmgw_provider_first_token_seconds", "From sending a call to a provider to the first byte of its answer.",
		[]float64{.01, .025, .05, .1, .25, .5, 1, 2, 4, 8, 16, 32, 64}, "provider", "model")
	m.provider = newSeries(func(k pair) timings { return timings{whole.WithLabelValues(k.a, k.b), begun.WithLabelValues(k.a, k.b)} })
	remaining := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "llmgw_upstream_remaining", Help: "What a provider said is left of its own limits."}, []string{"provider", "unit"})
	r.MustRegister(remaining)
	m.remaining = newSeries(func(k pair) prometheus.Gauge { return remaining.WithLabelValues(k.a, k.b) })
	rests := counters(r, "llmgw_upstream_rests_total", "Times that a credential, a model or both began to rest at a provider.", "provider", "cause")
	m.rests = newSeries(func(k pair) prometheus.Counter { return rests.WithLabelValues(k.a, k.b) })
	resting := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "llmgw_upstream_resting", Help: "Credentials, models or both that rest at a provider now, as this instance knows."}, []string{"provider", "cause"})
	r.MustRegister(resting)
	m.resting = newSeries(func(k pair) prometheus.Gauge { return resting.WithLabelValues(k.a, k.b) })
}

func (m *Metrics) registerProcess(r *prometheus.Registry, build Build) {
	seconds := histograms(r, "llmgw_store_seconds", "Time of one call to the store of counters.",
		[]float64{.0001, .00025, .0005, .001, .0025, .005, .01, .02, .05, .1, .25, 1}, "op")
	failed := counters(r, "llmgw_store_errors_total", "Calls to the store of counters that failed.", "op")
	m.store = newSeries(func(op string) storeMetrics {
		return storeMetrics{seconds.WithLabelValues(op), failed.WithLabelValues(op)}
	})
	m.storeUp = gauge("llmgw_store_up", "Whether the store of counters answers.")
	m.clockSteps = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "llmgw_store_clock_steps_total", Help: "Steps of the store's clock by more than a quarter of a second against this instance's."})
	m.crowded = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "llmgw_connections_refused_total", Help: "Connections closed at once because their address had as many as it may have."})
	m.strangers = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "llmgw_admin_auth_failures_total", Help: "Wrong tokens at the admin port."})
	m.alerts = counters(r, "llmgw_alerts_total", "Tries to deliver an alert.", "receiver", "outcome")
	m.drift = gauge("llmgw_limit_drift", "Limits whose amounts in force are of another gateway's newer configuration.")
	m.reloaded = gauge("llmgw_config_last_reload_successful", "Whether the last load of the configuration was accepted.")
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "llmgw_build_info", Help: "What is running; always 1.",
		ConstLabels: prometheus.Labels{"version": build.Version, "commit": build.Commit, "go_version": build.GoVersion},
	})
	info.Set(1)
	r.MustRegister(m.storeUp, m.clockSteps, m.crowded, m.strangers, m.reloaded, m.drift, info,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
}

// Native histograms stand beside the classic ones, for a Prometheus that asks for
// them: buckets of nativeFactor, a bounded number of them.
const nativeBuckets = 100

func counters(r *prometheus.Registry, name, help string, labels ...string) *prometheus.CounterVec {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	r.MustRegister(vec)
	return vec
}

func histograms(r *prometheus.Registry, name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	vec := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor: nativeFactor, NativeHistogramMaxBucketNumber: nativeBuckets, NativeHistogramMinResetDuration: time.Hour,
	}, labels)
	r.MustRegister(vec)
	return vec
}

func gauge(name, help string) prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}
