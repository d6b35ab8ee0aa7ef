package main

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"time"
)

// describe says where and how this is measured.
func (b *bench) describe() {
	pinned := "nothing is pinned"
	if b.pin {
		pinned = "each proxy on core 0, everything else on core 1"
	}
	fmt.Printf("%s, %d cores, Linux %s, %s; %s. Medians of %d interleaved rounds of %v. Store: %s.\n",
		processor(), runtime.NumCPU(), kernel(), runtime.Version(), pinned, b.rounds, b.each, b.store)
}

func (b *bench) counts() []string {
	var names []string
	for _, n := range b.idle {
		names = append(names, strconv.Itoa(n)+" streams, each")
	}
	return names
}

// base is the index of the bare reverse proxy, which the others are compared
// with.
const base = 1

func (b *bench) reportThroughput(what string, targets []target, all [][]figures) {
	fmt.Printf("\n### Throughput: %s\n\n| | requests/s | of the bare proxy's | p50 | p99 | proxy's CPU per request | bare proxy's ÷ this |\n|---|--:|--:|--:|--:|--:|--:|\n", what)
	perSec := func(f figures) float64 { return f.PerSec }
	requests := func(f figures) int { return f.Requests }
	for i, t := range targets {
		f := all[i]
		work := "–"
		if t.pid != 0 {
			work = fmt.Sprintf("%.0f %%", 100*cpuEach(all[base], requests)/cpuEach(f, requests))
		}
		fmt.Printf("| %s | %.0f | %.0f %% | %s | %s | %s | %s |\n", t.name, median(f, perSec), 100*median(f, perSec)/median(all[base], perSec),
			micros(median(f, func(f figures) float64 { return f.P50 })), micros(median(f, func(f figures) float64 { return f.P99 })), t.each(f, requests), work)
	}
}

func (b *bench) reportLatency(what string, all [][]figures) {
	fmt.Printf("\n### Latency: %s, bodies of 1 KB\n\n| | p50 | added | p99 | added | proxy's CPU per request |\n|---|--:|--:|--:|--:|--:|\n", what)
	p50 := func(f figures) float64 { return f.P50 }
	p99 := func(f figures) float64 { return f.P99 }
	for i, t := range b.targets {
		f := all[i]
		fmt.Printf("| %s | %s | %s | %s | %s | %s |\n", t.name, micros(median(f, p50)), micros(median(f, p50)-median(all[0], p50)),
			micros(median(f, p99)), micros(median(f, p99)-median(all[0], p99)), t.each(f, func(f figures) int { return f.Requests }))
	}
}

func (b *bench) reportStreams(all [][]figures) {
	fmt.Print("\n### Streams: 64 at a time, 50 chunks each, one every 20 ms\n\n| | chunks/s | first byte p50 | proxy's CPU per chunk |\n|---|--:|--:|--:|\n")
	for i, t := range b.targets {
		f := all[i]
		fmt.Printf("| %s | %.0f | %s | %s |\n", t.name, median(f, func(f figures) float64 { return float64(f.Pieces) / b.each.Seconds() }),
			micros(median(f, func(f figures) float64 { return f.FirstP50 })), t.each(f, func(f figures) int { return f.Pieces }))
	}
}

// each is t's median CPU time for each of what n counts.
func (t target) each(all []figures, n func(figures) int) string {
	if t.pid == 0 {
		return "–"
	}
	return micros(cpuEach(all, n))
}

// cpuEach is the median CPU time, in microseconds, for each of what n counts.
func cpuEach(all []figures, n func(figures) int) float64 {
	return median(all, func(f figures) float64 {
		return float64(f.cpu) / float64(time.Microsecond) / float64(max(n(f), 1))
	})
}

// median is the median of what of picks; of an even number the lower one.
func median(all []figures, of func(figures) float64) float64 {
	values := make([]float64, 0, len(all))
	for _, f := range all {
		values = append(values, of(f))
	}
	slices.Sort(values)
	return values[(len(values)-1)/2]
}

func micros(us float64) string {
	if us >= 10_000 || us <= -10_000 {
		return fmt.Sprintf("%.1f ms", us/1000)
	}
	return fmt.Sprintf("%.0f µs", us)
}

func kilobytes(n int) string { return fmt.Sprintf("%d KB", n/1000) }
