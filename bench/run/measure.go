package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// figures are what one measurement of one target told.
type figures struct {
	PerSec   float64       `json:"per_second"`
	P50      float64       `json:"p50_us"`
	P99      float64       `json:"p99_us"`
	FirstP50 float64       `json:"first_p50_us"`
	LateP99  float64       `json:"late_p99_us"`
	Requests int           `json:"requests"`
	Seconds  float64       `json:"seconds"`
	Pieces   int           `json:"pieces"`
	Failed   int           `json:"failed"`
	Broken   int           `json:"broken"`
	cpu      time.Duration // of the proxy
}

// warmup is how long a target is loaded before it is measured.
const warmup = 500 * time.Millisecond

// load loads t as args say.
func (b *bench) load(ctx context.Context, t target, args ...string) (figures, error) {
	var f figures
	cmd := b.loader(ctx, t, append([]string{"-duration", b.each.String(), "-warmup", warmup.String()}, args...)...)
	before, err := t.cpu()
	if err != nil {
		return f, err
	}
	out, err := cmd.Output()
	if err != nil {
		return f, fmt.Errorf("%s: %w%s", t.name, err, stderr(err))
	}
	after, err := t.cpu()
	if err != nil {
		return f, err
	}
	if err := json.Unmarshal(out, &f); err != nil {
		return f, err
	}
	if f.Failed+f.Broken > 0 {
		return f, fmt.Errorf("%s: %d of %d requests failed, %d broke", t.name, f.Failed, f.Requests, f.Broken)
	}
	// The warm-up's work is in the CPU time and not in the requests.
	f.cpu = time.Duration(float64(after-before) * b.each.Seconds() / (b.each + warmup).Seconds())
	return f, nil
}

func (b *bench) loader(ctx context.Context, t target, args ...string) *exec.Cmd {
	args = append([]string{"-key", benchKey, "-url", t.url + "/v1/chat/completions"}, args...)
	pinned := b.command(others, filepath.Join(b.dir, "load"), args...)
	cmd := exec.CommandContext(ctx, pinned.Path, pinned.Args[1:]...)
	cmd.SysProcAttr = pinned.SysProcAttr
	return cmd
}

func (t target) cpu() (time.Duration, error) {
	if t.pid == 0 {
		return 0, nil
	}
	return cpu(t.pid)
}

// stderr is what a command that failed had to say.
func stderr(err error) string {
	if e := (*exec.ExitError)(nil); errors.As(err, &e) {
		return "\n" + string(e.Stderr)
	}
	return ""
}

// interleave measures every target in every round, each round in another order.
func (b *bench) interleave(ctx context.Context, targets []target, args ...string) ([][]figures, error) {
	all := make([][]figures, len(targets))
	for round := range b.rounds {
		for k := range targets {
			i := (k + round) % len(targets)
			f, err := b.load(ctx, targets[i], args...)
			if err != nil {
				return nil, err
			}
			all[i] = append(all[i], f)
		}
	}
	return all, nil
}

// throughput: as many requests as 64 connections get, with bodies of three
// sizes.
func (b *bench) throughput(ctx context.Context) error {
	return b.sizes(ctx, "")
}

// sizes measures throughput for each size of body.
func (b *bench) sizes(ctx context.Context, beside string) error {
	for _, size := range []int{1000, 16_000, 400_000} {
		all, err := b.interleave(ctx, b.targets, "-connections", "64", "-size", strconv.Itoa(size))
		if err != nil {
			return err
		}
		b.reportThroughput(fmt.Sprintf("64 connections, bodies of %s%s", kilobytes(size), beside), b.targets, all)
	}
	return nil
}

// latency: one connection, without and with a pause in which what a request
// left to do can be done, and then 2,000 requests a second.
func (b *bench) latency(ctx context.Context) error {
	one, err := b.interleave(ctx, b.targets, "-connections", "1")
	if err != nil {
		return err
	}
	b.reportLatency("one connection, closed loop", one)
	calm, err := b.interleave(ctx, b.targets, "-connections", "1", "-pause", "1ms")
	if err != nil {
		return err
	}
	b.reportLatency("one connection, a pause of 1 ms after each answer", calm)
	steady, err := b.interleave(ctx, b.targets, "-connections", "64", "-mode", "open", "-rate", "2000")
	if err != nil {
		return err
	}
	b.reportLatency("2,000 requests per second, open loop", steady)
	return nil
}

// streams: what a chunk costs, when each comes alone.
func (b *bench) streams(ctx context.Context) error {
	all, err := b.interleave(ctx, b.targets, "-connections", "64", "-stream", "-model", "sim-in250-chunks50-every20ms")
	if err != nil {
		return err
	}
	b.reportStreams(all)
	return nil
}

// idleStreams: what a stream costs that says nothing.
func (b *bench) idleStreams(ctx context.Context) error {
	fmt.Printf("\n### Idle streams: memory\n\n| | %s |\n|---|%s\n", strings.Join(b.counts(), " | "), strings.Repeat("--:|", len(b.idle)))
	for _, t := range b.targets {
		if t.pid == 0 {
			continue
		}
		row := []string{t.name}
		before, err := rss(t.pid) // what the second crowd finds is still held from the first
		if err != nil {
			return err
		}
		for _, n := range b.idle {
			with, err := b.hold(ctx, t, n)
			if err != nil {
				return err
			}
			row = append(row, fmt.Sprintf("%.1f KiB", float64(with-before)/float64(n)/1024))
		}
		fmt.Printf("| %s |\n", strings.Join(row, " | "))
	}
	return nil
}

// hold opens n streams through t and returns the memory that t has then.
func (b *bench) hold(ctx context.Context, t target, n int) (int64, error) {
	cmd := b.loader(ctx, t, "-mode", "idle", "-connections", strconv.Itoa(n), "-model", "sim-in250-chunks2-hang1")
	hold, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	var problem strings.Builder
	cmd.Stderr = &problem
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	ready, readErr := bufio.NewReader(out).ReadString('\n')
	after, rssErr := rss(t.pid)
	if err := hold.Close(); err != nil {
		return 0, err
	}
	drain(out)
	if err := cmd.Wait(); err != nil {
		return 0, fmt.Errorf("%s: %d idle streams: %w\n%s", t.name, n, err, problem.String())
	}
	if strings.TrimSpace(ready) != "ready" {
		return 0, fmt.Errorf("%s: %d idle streams were not opened: %w\n%s", t.name, n, readErr, problem.String())
	}
	return after, rssErr
}
