package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	prometheusbridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// scope names llmgw's instrumentation in what it exports.
const scope = "llmgw"

// TracingConfig says where traces and metrics go over OTLP/HTTP.
type TracingConfig struct {
	// Endpoint is the collector's base URL, such as http://127.0.0.1:4318. Empty:
	// the standard OTEL_* variables decide, and if they name no endpoint either,
	// nothing is traced.
	Endpoint string
	Build    Build
	// Instance tells this gateway from the others.
	Instance string
	// Metrics go to the same collector each minute (OTEL_METRIC_EXPORT_INTERVAL).
	// nil: none do.
	Metrics *Metrics
	// Logger is told when something cannot be exported, once a minute at most.
	// nil: nobody is.
	Logger *slog.Logger
	// Getenv reads the environment. nil: os.Getenv.
	Getenv func(string) string
}

// Tracing makes spans and exports them. One that has no endpoint makes none, at
// no cost: a traceparent that comes in is then left as it is. It is safe for
// concurrent use.
type Tracing struct {
	spans      *sdktrace.TracerProvider // nil: nothing is traced
	metrics    *sdkmetric.MeterProvider // nil: none are exported
	tracer     trace.Tracer
	propagator propagation.TextMapPropagator
}

// NewTracing returns the Tracing that c and the OTEL_* variables ask for:
// OTEL_EXPORTER_OTLP_ENDPOINT with its _TRACES_ and _METRICS_ forms and
// headers, OTEL_SDK_DISABLED, OTEL_TRACES_EXPORTER and OTEL_METRICS_EXPORTER
// (none), OTEL_TRACES_SAMPLER, OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES. It
// does not wait for the collector; an endpoint that is no URL is an error, and
// so is another protocol than http/protobuf.
func NewTracing(ctx context.Context, c TracingConfig) (*Tracing, error) {
	if c.Getenv == nil {
		c.Getenv = os.Getenv
	}
	t := &Tracing{}
	if strings.EqualFold(c.Getenv("OTEL_SDK_DISABLED"), "true") {
		return t, nil
	}
	res, err := describe(ctx, c)
	if err != nil {
		return nil, err
	}
	// OpenTelemetry has one handler for the whole process, and by default writes
	// plain text to stderr, where the JSON log is.
	otel.SetErrorHandler(&complaints{logger: c.Logger})
	if c.wants("TRACES") {
		if err := t.startTraces(ctx, c, res); err != nil {
			return nil, err
		}
	}
	if c.wants("METRICS") && c.Metrics != nil {
		if err := t.startMetrics(ctx, c, res); err != nil {
			return nil, errors.Join(err, t.Shutdown(ctx))
		}
	}
	return t, nil
}

// Shutdown exports what is still held, within ctx, and stops.
func (t *Tracing) Shutdown(ctx context.Context) error {
	var errs []error
	if t.spans != nil {
		errs = append(errs, t.spans.Shutdown(ctx))
	}
	if t.metrics != nil {
		errs = append(errs, t.metrics.Shutdown(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("shut telemetry down: %w", err)
	}
	return nil
}

func (t *Tracing) startTraces(ctx context.Context, c TracingConfig, res *resource.Resource) error {
	if err := c.checkProtocol("TRACES"); err != nil {
		return err
	}
	var options []otlptracehttp.Option
	if c.Endpoint != "" {
		url, err := c.signalURL("traces")
		if err != nil {
			return err
		}
		options = append(options, otlptracehttp.WithEndpointURL(url))
	}
	exporter, err := otlptracehttp.New(ctx, options...)
	if err != nil {
		return fmt.Errorf("open the OTLP exporter of traces: %w", err)
	}
	t.spans = sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(res))
	t.tracer = t.spans.Tracer(scope, trace.WithInstrumentationVersion(c.Build.Version))
	t.propagator = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
	return nil
}

func (t *Tracing) startMetrics(ctx context.Context, c TracingConfig, res *resource.Resource) error {
	if err := c.checkProtocol("METRICS"); err != nil {
		return err
	}
	var options []otlpmetrichttp.Option
	if c.Endpoint != "" {
		url, err := c.signalURL("metrics")
		if err != nil {
			return err
		}
		options = append(options, otlpmetrichttp.WithEndpointURL(url))
	}
	exporter, err := otlpmetrichttp.New(ctx, options...)
	if err != nil {
		return fmt.Errorf("open the OTLP exporter of metrics: %w", err)
	}
	reader := sdkmetric.NewPeriodicReader(exporter, sdkmetric.WithProducer(
		prometheusbridge.NewMetricProducer(prometheusbridge.WithGatherer(c.Metrics.registry))))
	t.metrics = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithResource(res))
	return nil
}

// wants tells whether signal (TRACES or METRICS) is to be exported.
func (c TracingConfig) wants(signal string) bool {
	if c.Getenv("OTEL_"+signal+"_EXPORTER") == "none" {
		return false
	}
	return c.Endpoint != "" || c.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" ||
		c.Getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") != ""
}

func (c TracingConfig) checkProtocol(signal string) error {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_" + signal + "_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		switch protocol := c.Getenv(name); protocol {
		case "":
			continue
		case "http/protobuf":
			return nil
		default:
			return fmt.Errorf("%s is %q: only http/protobuf is spoken", name, protocol)
		}
	}
	return nil
}

// signalURL is where one signal goes: the configured base with /v1/traces or
// /v1/metrics, as OTEL_EXPORTER_OTLP_ENDPOINT is read.
func (c TracingConfig) signalURL(signal string) (string, error) {
	base := c.Endpoint
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	if !strings.HasPrefix(base, "http://") && !strings.HasPrefix(base, "https://") {
		return "", fmt.Errorf("the OTLP endpoint %q is not an http or https URL", c.Endpoint)
	}
	return strings.TrimSuffix(base, "/") + "/v1/" + signal, nil
}

// complaints logs what OpenTelemetry cannot do, seldom enough for a collector
// that is away for a day.
type complaints struct {
	logger *slog.Logger // nil: nothing is logged

	mu   sync.Mutex
	last time.Time
}

// Handle implements otel.ErrorHandler.
func (c *complaints) Handle(err error) {
	if c.logger == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); c.last.IsZero() || now.Sub(c.last) >= time.Minute {
		c.last = now
		c.logger.Warn("telemetry is not exported", "error", err)
	}
}

// describe says who exports; the environment's own words win.
func describe(ctx context.Context, c TracingConfig) (*resource.Resource, error) {
	res, err := resource.New(ctx,
		resource.WithAttributes(
			attribute.String("service.name", "llmgw"),
			attribute.String("service.version", c.Build.Version),
			attribute.String("service.instance.id", c.Instance),
		),
		resource.WithTelemetrySDK(), resource.WithHost(), resource.WithFromEnv(),
	)
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("describe the exporting process: %w", err)
	}
	return res, nil
}
