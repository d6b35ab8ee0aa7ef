package telemetry

import (
	"context"
	"net/url"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"llmgw/internal/tokens"
)

// Span is one request, or one call to a provider, in a trace. All methods of a
// nil Span do nothing: that is what an untraced request has. A Span is used by
// one goroutine at a time.
type Span struct {
	span    trace.Span
	within  *Span // of a call to a provider: the request's span
	tracing *Tracing
}

// Asked is what a request asks for.
type Asked struct {
	Operation string // gen_ai.operation.name
	Model     string // as the client names it
	MaxTokens tokens.Count
	Choices   tokens.Count // 0 and 1 are not shown
	Stream    Streaming
	Team      string
	KeyID     string
	RequestID string
}

// Streaming says how an answer is wanted.
type Streaming string

// The ways to answer.
const (
	Streamed Streaming = "stream"
	Whole    Streaming = ""
)

// Destination is where a call to a provider went.
type Destination struct {
	Operation string // gen_ai.operation.name
	Provider  string // its name in the configuration
	System    string // gen_ai.provider.name
	Model     string // as the provider names it
	BaseURL   string
	Attempts  int // tries until it came there, itself included; 0 and 1 are not shown
}

// Answered is what came back. Zero fields are not shown.
type Answered struct {
	Status  int
	ID      string
	Model   string
	Finish  string
	Usage   tokens.Usage
	Outcome string // of the whole request
	// ErrorType is short and of few values: a refusal's code, timeout, 502, …
	// Empty: all went well.
	ErrorType string
}

// Start begins the span of a request that came to endpoint (a path's pattern)
// with header, as part of the trace that its traceparent names.
func (t *Tracing) Start(ctx context.Context, header map[string][]string, method, endpoint string) (context.Context, *Span) {
	if t == nil || t.spans == nil {
		return ctx, nil
	}
	ctx = t.propagator.Extract(ctx, propagation.HeaderCarrier(header))
	ctx, span := t.tracer.Start(ctx, method+" "+endpoint, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("http.request.method", method),
		attribute.String("http.route", endpoint),
	))
	return ctx, &Span{span: span, tracing: t}
}

// Ask notes what the request asks for, once it was read.
func (s *Span) Ask(a Asked) {
	if s == nil || !s.span.IsRecording() {
		return
	}
	set := attributes{
		attribute.String("gen_ai.operation.name", a.Operation),
		attribute.String("gen_ai.request.model", a.Model),
	}
	set.count("gen_ai.request.max_tokens", a.MaxTokens)
	if a.Choices > 1 {
		set.count("gen_ai.request.choice.count", a.Choices)
	}
	if a.Stream == Streamed {
		set = append(set, attribute.Bool("gen_ai.request.stream", true))
	}
	set.text("llmgw.team", a.Team)
	set.text("llmgw.key_id", a.KeyID)
	set.text("llmgw.request_id", a.RequestID)
	s.span.SetAttributes(set...)
}

// Upstream begins the span of a call to a provider within s, and writes its
// traceparent into the header that goes there. Which provider it is, Reach tells.
func (s *Span) Upstream(ctx context.Context, operation string, header map[string][]string) (context.Context, *Span) {
	if s == nil {
		return ctx, nil
	}
	ctx = trace.ContextWithSpan(ctx, s.span)
	ctx, span := s.tracing.tracer.Start(ctx, operation, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("gen_ai.operation.name", operation)))
	s.tracing.propagator.Inject(ctx, propagation.HeaderCarrier(header))
	return ctx, &Span{span: span, within: s, tracing: s.tracing}
}

// Reach notes, in a span that Upstream began, where the call went.
func (s *Span) Reach(to Destination) {
	if s == nil || !s.span.IsRecording() {
		return
	}
	provider := to.System
	s.within.span.SetAttributes(attribute.String("gen_ai.provider.name", provider))
	s.span.SetName(to.Operation + " " + to.Model)
	set := attributes{
		attribute.String("gen_ai.provider.name", provider),
		attribute.String("gen_ai.request.model", to.Model),
		attribute.String("llmgw.provider", to.Provider),
	}
	set.server(to.BaseURL)
	if to.Attempts > 1 {
		set = append(set, attribute.Int("http.request.resend_count", to.Attempts-1))
	}
	s.span.SetAttributes(set...)
}

// End ends the span with what came back. A second End does nothing.
func (s *Span) End(a Answered) {
	if s == nil {
		return
	}
	defer s.span.End()
	if !s.span.IsRecording() {
		return
	}
	var set attributes
	if a.Status != 0 {
		set = append(set, attribute.Int("http.response.status_code", a.Status))
	}
	set.text("gen_ai.response.id", a.ID)
	set.text("gen_ai.response.model", a.Model)
	if a.Finish != "" {
		set = append(set, attribute.StringSlice("gen_ai.response.finish_reasons", []string{a.Finish}))
	}
	if a.Usage != (tokens.Usage{}) {
		set = append(set, attribute.Int64("gen_ai.usage.input_tokens", int64(a.Usage.Input)),
			attribute.Int64("gen_ai.usage.output_tokens", int64(a.Usage.Output)))
	}
	set.count("gen_ai.usage.cache_read.input_tokens", a.Usage.CachedInput)
	set.count("gen_ai.usage.cache_write.input_tokens", a.Usage.CacheWrite)
	set.count("gen_ai.usage.reasoning.output_tokens", a.Usage.Reasoning)
	set.text("llmgw.outcome", a.Outcome)
	set.text("error.type", a.ErrorType)
	s.span.SetAttributes(set...)
	if a.ErrorType != "" {
		s.span.SetStatus(codes.Error, a.ErrorType)
	}
}

// TraceID is the trace's id for the log, or empty.
func (s *Span) TraceID() string {
	if s == nil {
		return ""
	}
	return s.span.SpanContext().TraceID().String()
}

// attributes is a list under construction; what is not known is left out.
type attributes []attribute.KeyValue

func (a *attributes) text(key, v string) {
	if v != "" {
		*a = append(*a, attribute.String(key, v))
	}
}

func (a *attributes) count(key string, n tokens.Count) {
	if n > 0 {
		*a = append(*a, attribute.Int64(key, int64(n)))
	}
}

func (a *attributes) server(base string) {
	u, err := url.Parse(base)
	if err != nil || u.Hostname() == "" {
		return // an address that cannot be read is not shown
	}
	a.text("server.address", u.Hostname())
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		port = map[string]int{"http": 80, "https": 443}[u.Scheme]
	}
	*a = append(*a, attribute.Int("server.port", port))
}
