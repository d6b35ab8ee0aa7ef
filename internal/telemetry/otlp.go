package telemetry

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// producer shows a Prometheus registry to OpenTelemetry: the same metrics,
// under the same names, are exported over OTLP without being counted twice.
type producer struct{ from prometheus.Gatherer }

// Produce implements sdkmetric.Producer.
func (p producer) Produce(context.Context) ([]metricdata.ScopeMetrics, error) {
	families, err := p.from.Gather()
	if err != nil && len(families) == 0 {
		return nil, fmt.Errorf("gather metrics: %w", err)
	}
	now := time.Now()
	metrics := make([]metricdata.Metrics, 0, len(families))
	for _, f := range families {
		if data := aggregation(f, now); data != nil {
			metrics = append(metrics, metricdata.Metrics{Name: f.GetName(), Description: f.GetHelp(), Data: data})
		}
	}
	return []metricdata.ScopeMetrics{{Scope: instrumentation.Scope{Name: scope}, Metrics: metrics}}, nil
}

// aggregation is nil for types that have no counterpart or are not in use here.
func aggregation(f *dto.MetricFamily, now time.Time) metricdata.Aggregation {
	switch f.GetType() {
	case dto.MetricType_COUNTER:
		return metricdata.Sum[float64]{
			Temporality: metricdata.CumulativeTemporality, IsMonotonic: true,
			DataPoints: points(f, now, func(m *dto.Metric) (float64, time.Time) {
				return m.GetCounter().GetValue(), began(m.GetCounter())
			}),
		}
	case dto.MetricType_GAUGE:
		return metricdata.Gauge[float64]{DataPoints: points(f, now, func(m *dto.Metric) (float64, time.Time) {
			return m.GetGauge().GetValue(), time.Time{}
		})}
	case dto.MetricType_HISTOGRAM:
		return metricdata.Histogram[float64]{Temporality: metricdata.CumulativeTemporality, DataPoints: histogramPoints(f, now)}
	default:
		return nil
	}
}

func points(f *dto.MetricFamily, now time.Time, read func(*dto.Metric) (float64, time.Time)) []metricdata.DataPoint[float64] {
	out := make([]metricdata.DataPoint[float64], 0, len(f.GetMetric()))
	for _, m := range f.GetMetric() {
		v, since := read(m)
		out = append(out, metricdata.DataPoint[float64]{Attributes: labelSet(m), StartTime: since, Time: now, Value: v})
	}
	return out
}

func histogramPoints(f *dto.MetricFamily, now time.Time) []metricdata.HistogramDataPoint[float64] {
	out := make([]metricdata.HistogramDataPoint[float64], 0, len(f.GetMetric()))
	for _, m := range f.GetMetric() {
		h := m.GetHistogram()
		point := metricdata.HistogramDataPoint[float64]{
			Attributes: labelSet(m), StartTime: began(h), Time: now,
			Count: h.GetSampleCount(), Sum: h.GetSampleSum(),
		}
		var below uint64 // Prometheus's buckets are cumulative, OpenTelemetry's are not
		for _, b := range h.GetBucket() {
			point.Bounds = append(point.Bounds, b.GetUpperBound())
			point.BucketCounts = append(point.BucketCounts, b.GetCumulativeCount()-below)
			below = b.GetCumulativeCount()
		}
		point.BucketCounts = append(point.BucketCounts, h.GetSampleCount()-below)
		out = append(out, point)
	}
	return out
}

// began is when a metric began to count, or zero if it does not say.
func began(m interface{ GetCreatedTimestamp() *timestamppb.Timestamp }) time.Time {
	if t := m.GetCreatedTimestamp(); t != nil {
		return t.AsTime()
	}
	return time.Time{}
}

func labelSet(m *dto.Metric) attribute.Set {
	kvs := make([]attribute.KeyValue, 0, len(m.GetLabel()))
	for _, l := range m.GetLabel() {
		kvs = append(kvs, attribute.String(l.GetName(), l.GetValue()))
	}
	return attribute.NewSet(kvs...)
}
