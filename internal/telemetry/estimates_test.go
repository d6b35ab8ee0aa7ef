package telemetry

import (
	"slices"
	"testing"
	"time"
)

func TestEstimatesAreToldByModel(t *testing.T) {
	m := NewMetrics(Build{}, 3)
	if got := m.Estimates(); len(got) != 0 {
		t.Errorf("before any request: %+v", got)
	}
	for _, ratio := range []float64{0.5, 1, 1.5} {
		m.EstimateRatio("often", ratio)
		m.EstimateSeconds("often", 2*time.Millisecond)
	}
	m.EstimateRatio("once", 0.5)
	m.EstimateSeconds("once", time.Millisecond)
	m.EstimateSeconds("once", 3*time.Millisecond) // refused, so that nothing was used
	m.EstimateSeconds("never", time.Millisecond)
	m.EstimateSeconds("too many", time.Millisecond)
	want := []Estimates{{"often", 3, 1, 0.002}, {"once", 1, 0.5, 0.002}, {"never", 0, 0, 0.001}, {"other", 0, 0, 0.001}}
	if got := m.Estimates(); !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
