package telemetry

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortraces "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"llmgw/internal/tokens"
)

// collector is an OTLP/HTTP collector that keeps what it gets.
type collector struct {
	*httptest.Server
	mu       sync.Mutex
	spans    []*tracepb.Span
	metrics  []*metricspb.Metric
	resource map[string]string
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			unzipped, err := gzip.NewReader(r.Body)
			if err != nil {
				t.Error(err)
				return
			}
			body = unzipped
		}
		raw, err := io.ReadAll(body)
		if err != nil {
			t.Error(err)
		}
		c.take(t, r.URL.Path, raw)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *collector) take(t *testing.T, path string, raw []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch path {
	case "/v1/traces":
		var in collectortraces.ExportTraceServiceRequest
		if err := proto.Unmarshal(raw, &in); err != nil {
			t.Error(err)
		}
		for _, r := range in.GetResourceSpans() {
			c.resource = texts(r.GetResource().GetAttributes())
			for _, s := range r.GetScopeSpans() {
				c.spans = append(c.spans, s.GetSpans()...)
			}
		}
	case "/v1/metrics":
		var in collectormetrics.ExportMetricsServiceRequest
		if err := proto.Unmarshal(raw, &in); err != nil {
			t.Error(err)
		}
		for _, r := range in.GetResourceMetrics() {
			for _, s := range r.GetScopeMetrics() {
				c.metrics = append(c.metrics, s.GetMetrics()...)
			}
		}
	default:
		t.Errorf("something came to %s", path)
	}
}

func (c *collector) span(name string) *tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.GetName() == name {
			return s
		}
	}
	return nil
}

// texts is a list of attributes as protobuf prints their values.
func texts(attrs []*common.KeyValue) map[string]string {
	out := make(map[string]string)
	for _, a := range attrs {
		switch v := a.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			out[a.GetKey()] = v.StringValue
		default:
			out[a.GetKey()] = strings.Join(strings.Fields(a.GetValue().String()), " ")
		}
	}
	return out
}

func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func newTestTracing(t *testing.T, c TracingConfig) *Tracing {
	t.Helper()
	if c.Getenv == nil {
		c.Getenv = env()
	}
	tracing, err := NewTracing(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return tracing
}

const (
	parentTrace = "0af7651916cd43dd8448eb211c80319c"
	parentSpan  = "b7ad6b7169203331"
)

// oneRequest traces a request with one call to a provider, and returns what
// went to the provider.
func oneRequest(t *testing.T, tracing *Tracing) http.Header {
	t.Helper()
	in := http.Header{"Traceparent": {"00-" + parentTrace + "-" + parentSpan + "-01"}}
	out := in.Clone()
	asked := Asked{Operation: "chat", Model: "gpt-4o", MaxTokens: 256, Stream: Streamed, Team: "search", KeyID: "search-prod", RequestID: "req_1"}
	ctx, span := tracing.Start(t.Context(), in, "POST", "/v1/chat/completions")
	span.Ask(asked)
	_, call := span.Upstream(ctx, "chat", out)
	call.Reach(Destination{
		Operation: "chat", Provider: "azure-eu", System: "azure.ai.openai", Model: "gpt-4o-2024-11-20", BaseURL: "https://eu.example.com/", Attempts: 2,
	})
	answered := Answered{
		Status: 200, ID: "chatcmpl-1", Model: "gpt-4o-2024-11-20", Finish: "stop", Outcome: "completed",
		Usage: tokens.Usage{Input: 20, CachedInput: 8, Output: 6, Reasoning: 2},
	}
	call.End(answered)
	span.End(answered)
	span.End(answered)
	return out
}

func TestARequestIsASpanOfTheCallersTraceWithTheProvidersWithin(t *testing.T) {
	c := newCollector(t)
	tracing := newTestTracing(t, TracingConfig{Endpoint: c.URL, Build: Build{Version: "1.2.3"}, Instance: "gw1"})
	sent := oneRequest(t, tracing)
	if err := tracing.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	request, call := c.span("POST /v1/chat/completions"), c.span("chat gpt-4o-2024-11-20")
	if request == nil || call == nil || len(c.spans) != 2 {
		t.Fatalf("spans: %v", c.spans)
	}
	hex := func(id []byte) string { return strings.ToLower(strings.TrimSpace(hexOf(id))) }
	if hex(request.GetTraceId()) != parentTrace || hex(request.GetParentSpanId()) != parentSpan {
		t.Errorf("the request's span is not the caller's child: %v", request)
	}
	if hex(call.GetTraceId()) != parentTrace || hex(call.GetParentSpanId()) != hex(request.GetSpanId()) {
		t.Errorf("the call's span is not the request's child: %v", call)
	}
	if got, want := sent.Get("Traceparent"), "00-"+parentTrace+"-"+hex(call.GetSpanId())+"-01"; got != want {
		t.Errorf("the provider gets traceparent %q, want %q", got, want)
	}
	if request.GetKind() != tracepb.Span_SPAN_KIND_SERVER || call.GetKind() != tracepb.Span_SPAN_KIND_CLIENT {
		t.Errorf("kinds: %v, %v", request.GetKind(), call.GetKind())
	}
	for key, want := range map[string]string{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "azure.ai.openai", "gen_ai.request.model": "gpt-4o",
		"gen_ai.request.max_tokens": "int_value:256", "gen_ai.request.stream": "bool_value:true",
		"gen_ai.response.id": "chatcmpl-1", "gen_ai.response.model": "gpt-4o-2024-11-20",
		"gen_ai.response.finish_reasons": `array_value:{values:{string_value:"stop"}}`,
		"gen_ai.usage.input_tokens":      "int_value:20", "gen_ai.usage.output_tokens": "int_value:6",
		"gen_ai.usage.cache_read.input_tokens": "int_value:8", "gen_ai.usage.reasoning.output_tokens": "int_value:2",
		"http.route": "/v1/chat/completions", "http.response.status_code": "int_value:200",
		"llmgw.team": "search", "llmgw.key_id": "search-prod", "llmgw.request_id": "req_1", "llmgw.outcome": "completed",
	} {
		if got := texts(request.GetAttributes())[key]; got != want {
			t.Errorf("request: %s is %q, want %q", key, got, want)
		}
	}
	for key, want := range map[string]string{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "azure.ai.openai", "gen_ai.request.model": "gpt-4o-2024-11-20",
		"server.address": "eu.example.com", "server.port": "int_value:443", "http.request.resend_count": "int_value:1", "llmgw.provider": "azure-eu",
	} {
		if got := texts(call.GetAttributes())[key]; got != want {
			t.Errorf("call: %s is %q, want %q", key, got, want)
		}
	}
	if got := c.resource["service.name"] + " " + c.resource["service.version"] + " " + c.resource["service.instance.id"]; got != "llmgw 1.2.3 gw1" {
		t.Errorf("the resource is %q", got)
	}
}

func hexOf(id []byte) string {
	const digits = "0123456789abcdef"
	var out strings.Builder
	for _, b := range id {
		out.WriteByte(digits[b>>4])
		out.WriteByte(digits[b&15])
	}
	return out.String()
}

func TestAFailureIsAnErrorOfTheSpan(t *testing.T) {
	c := newCollector(t)
	tracing := newTestTracing(t, TracingConfig{Endpoint: c.URL})
	_, span := tracing.Start(t.Context(), http.Header{}, "POST", "/v1/messages")
	span.End(Answered{Status: 429, Outcome: "refused", ErrorType: "rate_limit_exceeded"})
	if err := tracing.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := c.span("POST /v1/messages")
	if got.GetStatus().GetCode() != tracepb.Status_STATUS_CODE_ERROR || texts(got.GetAttributes())["error.type"] != "rate_limit_exceeded" {
		t.Errorf("%v", got)
	}
	if len(got.GetParentSpanId()) != 0 {
		t.Error("a request without traceparent has a parent")
	}
}

func TestWithoutAnEndpointNothingIsTracedAtNoCost(t *testing.T) {
	for what, getenv := range map[string]func(string) string{
		"no variable":    env(),
		"switched off":   env("OTEL_SDK_DISABLED", "true", "OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"),
		"exporters none": env("OTEL_TRACES_EXPORTER", "none", "OTEL_METRICS_EXPORTER", "none", "OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"),
	} {
		tracing := newTestTracing(t, TracingConfig{Getenv: getenv, Metrics: newTestMetrics(t)})
		header := http.Header{"Traceparent": {"00-" + parentTrace + "-" + parentSpan + "-01"}}
		ctx := context.Background()
		n := testing.AllocsPerRun(100, func() {
			ctx, span := tracing.Start(ctx, header, "POST", "/v1/chat/completions")
			span.Ask(Asked{Operation: "chat", Model: "gpt-4o"})
			_, call := span.Upstream(ctx, "chat", header)
			call.Reach(Destination{})
			call.End(Answered{Status: 200})
			span.End(Answered{Status: 200})
		})
		if n != 0 {
			t.Errorf("%s: a request allocates %v times", what, n)
		}
		if got := oneRequest(t, tracing).Get("Traceparent"); got != "00-"+parentTrace+"-"+parentSpan+"-01" {
			t.Errorf("%s: the traceparent that came in became %q", what, got)
		}
		if _, span := tracing.Start(ctx, header, "GET", "/"); span.TraceID() != "" {
			t.Errorf("%s: there is a trace", what)
		}
		if err := tracing.Shutdown(t.Context()); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestAnEndpointThatCannotBeIsAnError(t *testing.T) {
	for what, c := range map[string]TracingConfig{
		"another scheme":   {Endpoint: "ftp://collector", Getenv: env()},
		"another protocol": {Endpoint: "http://collector:4317", Getenv: env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")},
	} {
		if _, err := NewTracing(t.Context(), c); err == nil {
			t.Errorf("%s is no error", what)
		}
	}
}

func TestMetricsAreExportedOverOTLPAsPrometheusHasThem(t *testing.T) {
	c := newCollector(t)
	m := newTestMetrics(t)
	everything(m)
	tracing := newTestTracing(t, TracingConfig{Endpoint: strings.TrimPrefix(c.URL, "http://"), Metrics: m})
	if err := tracing.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	found := make(map[string]*metricspb.Metric)
	for _, metric := range c.metrics {
		found[metric.GetName()] = metric
	}
	sum := found["llmgw_tokens_total"].GetSum()
	if !sum.GetIsMonotonic() || len(sum.GetDataPoints()) != 4 {
		t.Errorf("llmgw_tokens_total is %v", found["llmgw_tokens_total"])
	}
	for _, p := range sum.GetDataPoints() {
		if attrs := texts(p.GetAttributes()); attrs["kind"] == "input" && attrs["team"] == "search" && p.GetAsDouble() != 10 {
			t.Errorf("input is %v", p)
		}
	}
	if got := found["llmgw_store_up"].GetGauge().GetDataPoints(); len(got) != 1 || got[0].GetAsDouble() != 1 {
		t.Errorf("llmgw_store_up is %v", got)
	}
	if nativeFactor == 0 { // under the race detector the classic buckets are exported
		if got := found["llmgw_request_seconds"].GetHistogram().GetDataPoints(); len(got) != 1 || got[0].GetSum() != 2 {
			t.Errorf("llmgw_request_seconds is %v", got)
		}
		return
	}
	points := found["llmgw_request_seconds"].GetExponentialHistogram().GetDataPoints()
	if len(points) != 1 {
		t.Fatalf("llmgw_request_seconds is %v", found["llmgw_request_seconds"])
	}
	h := points[0]
	var counted uint64
	base := math.Exp2(math.Exp2(-float64(h.GetScale())))
	for i, n := range h.GetPositive().GetBucketCounts() {
		counted += n
		lower := math.Pow(base, float64(int(h.GetPositive().GetOffset())+i))
		if n == 1 && (lower >= 2 || lower*base < 2-1e-9) {
			t.Errorf("2 s are in the bucket from %v to %v", lower, lower*base)
		}
	}
	if h.GetCount() != 1 || counted != 1 || h.GetSum() != 2 {
		t.Errorf("llmgw_request_seconds is %v", h)
	}
}

func TestACollectorThatIsAwayHoldsNothingUp(t *testing.T) {
	tracing := newTestTracing(t, TracingConfig{Endpoint: "http://127.0.0.1:1", Metrics: newTestMetrics(t)})
	oneRequest(t, tracing)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := tracing.Shutdown(ctx); err == nil {
		t.Error("what could not be exported is no error at the end")
	}
}

func TestACollectorThatIsAwayIsToldOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		c := &complaints{logger: NewLogger(&out, slog.LevelInfo)}
		for range 36 { // three minutes
			c.Handle(errors.New("connection refused"))
			time.Sleep(5 * time.Second)
		}
		if n := strings.Count(out.String(), `"error":"connection refused"`); n != 3 {
			t.Errorf("it is told %d times, want 3:\n%s", n, out.String())
		}
		(&complaints{}).Handle(errors.New("nobody hears it"))
	})
}
