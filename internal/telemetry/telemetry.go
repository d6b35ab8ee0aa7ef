// Package telemetry is how llmgw tells what it does: Prometheus metrics, JSON
// logs and OpenTelemetry traces. It knows names, labels and bounds, and decides
// nothing: callers say what happened, in plain types.
//
// metrics.go holds every metric with its name and labels, record.go the
// methods that callers use, labels.go keeps label values bounded and their
// lookups free of allocations, levels.go shows the limits' levels at a scrape, estimates.go sums up how good
// estimates are.
// log.go and redact.go are the logger that cannot tell a secret. tracing.go
// sets up tracing and the export of both over OTLP, span.go is one request's span.
package telemetry

// Build says what is running.
type Build struct {
	Version   string // such as 1.4.0
	Commit    string // the revision it was built from
	GoVersion string // such as go1.26.0
}
