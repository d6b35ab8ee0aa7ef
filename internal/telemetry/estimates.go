package telemetry

import (
	"cmp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Estimates is how good and how costly the estimates of a model's requests were
// since the process began.
type Estimates struct {
	Model   string
	Answers uint64  // that told their input
	Ratio   float64 // input used ÷ estimated on the average; 0 without answers
	Seconds float64 // that an estimate took on the average
}

// Estimates returns what llmgw_estimate_ratio and llmgw_estimate_seconds have
// by now: of each model, the one with the most answers first.
func (m *Metrics) Estimates() []Estimates {
	ratios := meansOf(m.ratios)
	var all []Estimates
	for model, seconds := range meansOf(m.estimates) {
		ratio := ratios[model]
		all = append(all, Estimates{Model: model, Answers: ratio.count, Ratio: ratio.mean, Seconds: seconds.mean})
	}
	slices.SortFunc(all, func(a, b Estimates) int {
		return cmp.Or(cmp.Compare(b.Answers, a.Answers), cmp.Compare(a.Model, b.Model))
	})
	return all
}

// mean is of so many observations.
type mean struct {
	count uint64
	mean  float64
}

// meansOf are the means of a histogram with one label, by its value.
func meansOf(vec *prometheus.HistogramVec) map[string]mean {
	collected := make(chan prometheus.Metric)
	go func() {
		vec.Collect(collected)
		close(collected)
	}()
	all := map[string]mean{}
	for c := range collected {
		var d dto.Metric
		if c.Write(&d) != nil || len(d.GetLabel()) != 1 || d.GetHistogram().GetSampleCount() == 0 {
			continue
		}
		n := d.GetHistogram().GetSampleCount()
		all[d.GetLabel()[0].GetValue()] = mean{n, d.GetHistogram().GetSampleSum() / float64(n)}
	}
	return all
}
