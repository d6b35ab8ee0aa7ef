package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// allocated is what a process has allocated since it started.
type allocated struct{ objects, bytes float64 }

// allocations: what a request costs the heap, as the process counts it itself.
// Connections are warm, and what goes on in the background counts too.
func (b *bench) allocations(ctx context.Context) error {
	targets := b.targets
	if b.gateway != "" {
		off, err := b.startGateway(variant{name: "llmgw without leases", leases: "off"})
		if err != nil {
			return err
		}
		targets = append(targets[:len(targets):len(targets)], off)
	}
	fmt.Print("\n### Allocations\n\n| | a request of 1 KB | | a stream of 20 chunks | |\n|---|--:|--:|--:|--:|\n")
	for _, t := range targets {
		if t.metrics == "" {
			continue
		}
		row := "| " + t.name
		for _, args := range [][]string{{"-size", "1000"}, {"-stream", "-model", "sim-in250-chunks20"}} {
			each, err := b.allocationsOf(ctx, t, args...)
			if err != nil {
				return err
			}
			row += fmt.Sprintf(" | %.0f | %.1f KB", each.objects, each.bytes/1000)
		}
		fmt.Println(row + " |")
	}
	return nil
}

// allocationsOf counts for one kind of request.
func (b *bench) allocationsOf(ctx context.Context, t target, args ...string) (allocated, error) {
	load := func() (figures, error) {
		return b.load(ctx, t, append([]string{"-connections", "64", "-warmup", "0s"}, args...)...)
	}
	if _, err := load(); err != nil { // the warm-up
		return allocated{}, err
	}
	before, err := t.allocated(ctx)
	if err != nil {
		return allocated{}, err
	}
	f, err := load()
	if err != nil {
		return allocated{}, err
	}
	after, err := t.allocated(ctx)
	n := float64(max(f.Requests, 1))
	return allocated{(after.objects - before.objects) / n, (after.bytes - before.bytes) / n}, err
}

// allocated asks t's metrics.
func (t target) allocated(ctx context.Context) (allocated, error) {
	var a allocated
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.metrics, http.NoBody)
	if err != nil {
		return a, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return a, err
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		switch name {
		case "go_memstats_mallocs_total":
			a.objects, err = strconv.ParseFloat(value, 64)
		case "go_memstats_alloc_bytes_total":
			a.bytes, err = strconv.ParseFloat(value, 64)
		}
		if err != nil {
			return a, err
		}
	}
	if a.objects == 0 || a.bytes == 0 {
		return a, fmt.Errorf("%s tells nothing of what was allocated", t.metrics)
	}
	return a, lines.Err()
}
