package main

import (
	"net/http"
	"slices"
	"time"
)

// tally is what one connection counted.
type tally struct {
	latencies []time.Duration
	firsts    []time.Duration
	late      []time.Duration
	pieces    int
	failed    int
	broken    int
}

// add counts one answer.
func (t *tally) add(a answer, err error, latency time.Duration) {
	switch {
	case err != nil:
		t.broken++
	case a.status != http.StatusOK:
		t.failed++
	default:
		t.latencies = append(t.latencies, latency)
		t.firsts = append(t.firsts, a.first)
		t.pieces += a.pieces
	}
}

// result is what is told. Times are in microseconds.
type result struct {
	Requests int     `json:"requests"` // answered with 200
	Failed   int     `json:"failed"`   // answered with something else
	Broken   int     `json:"broken"`   // not answered
	Seconds  float64 `json:"seconds"`
	PerSec   float64 `json:"per_second"`
	Pieces   int     `json:"pieces"`
	P50      float64 `json:"p50_us"`
	P90      float64 `json:"p90_us"`
	P99      float64 `json:"p99_us"`
	Max      float64 `json:"max_us"`
	FirstP50 float64 `json:"first_p50_us"`
	FirstP99 float64 `json:"first_p99_us"`
	LateP99  float64 `json:"late_p99_us"` // of the pieces of streams whose pace is known
}

// summarize puts the tallies of a run together.
func summarize(tallies []tally, took time.Duration) result {
	var r result
	var latencies, firsts, late []time.Duration
	for _, t := range tallies {
		latencies = append(latencies, t.latencies...)
		firsts = append(firsts, t.firsts...)
		late = append(late, t.late...)
		r.Failed += t.failed
		r.Broken += t.broken
		r.Pieces += t.pieces
	}
	slices.Sort(latencies)
	slices.Sort(firsts)
	slices.Sort(late)
	r.Requests = len(latencies)
	r.Seconds = took.Seconds()
	r.PerSec = float64(r.Requests) / r.Seconds
	r.P50, r.P90, r.P99, r.Max = quantile(latencies, 0.5), quantile(latencies, 0.9), quantile(latencies, 0.99), quantile(latencies, 1)
	r.FirstP50, r.FirstP99 = quantile(firsts, 0.5), quantile(firsts, 0.99)
	r.LateP99 = quantile(late, 0.99)
	return r
}

// quantile is the nearest rank in sorted, in microseconds; 0 of nothing.
func quantile(sorted []time.Duration, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	i := int(q*float64(len(sorted))+0.5) - 1
	return float64(sorted[min(max(i, 0), len(sorted)-1)].Nanoseconds()) / 1000
}
