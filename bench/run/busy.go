package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// neighbour: throughput again, beside a program that streams through memory on
// the other core. It yields to the load there, which would be slowed otherwise.
func (b *bench) neighbour(ctx context.Context) (err error) {
	cmd := b.command(others, "nice", "-n", "10", filepath.Join(b.dir, "load"), "-mode", "memory")
	hold, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, hold.Close(), cmd.Wait()) }()
	return b.sizes(ctx, ", beside a neighbour that streams through memory")
}

// teams: 64 teams at once, and every request waits for the store.
func (b *bench) teams(ctx context.Context) error {
	if b.gateway == "" {
		return nil
	}
	off, err := b.startGateway(variant{name: "llmgw without leases", leases: "off"})
	if err != nil {
		return err
	}
	targets := append(slices.Clone(b.targets[:base+1]), off)
	all, err := b.interleave(ctx, targets, "-connections", "64", "-keys", "64")
	if err != nil {
		return err
	}
	b.reportThroughput("64 teams, a connection each, bodies of 1 KB", targets, all)
	return nil
}

// users: a limit of one counter for each user, with one user and with a
// million.
func (b *bench) users(ctx context.Context) error {
	if b.gateway == "" {
		return nil
	}
	const million = "1000000"
	fmt.Print("\n### A limit for each user: 64 connections, bodies of 1 KB\n\n| | requests/s | memory grew by |\n|---|--:|--:|\n")
	for _, s := range []struct{ what, users string }{{"one user", "1"}, {"each request another of a million users", million}} {
		t, err := b.startGateway(variant{name: "llmgw with " + s.users, leases: "off", users: true})
		if err != nil {
			return err
		}
		var all []figures
		var first, last int64
		for round := range b.rounds + 1 { // the first warms up
			f, err := b.load(ctx, t, "-connections", "64", "-users", s.users)
			if err != nil {
				return err
			}
			if last, err = rss(t.pid); err != nil {
				return err
			}
			if round == 0 {
				first = last
				continue
			}
			all = append(all, f)
		}
		fmt.Printf("| %s | %.0f | %.1f MB |\n", s.what, median(all, func(f figures) float64 { return f.PerSec }), float64(last-first)/1e6)
	}
	return nil
}

// pacedStreams: 1,000 streams of 50 chunks a second, and how late the chunks
// come.
func (b *bench) pacedStreams(ctx context.Context) error {
	all, err := b.interleave(ctx, b.targets, "-connections", "1000", "-stream", "-model", "sim-in250-chunks100-every20ms", "-every", "20ms", "-warmup", "1s", "-duration", "6s")
	if err != nil {
		return err
	}
	fmt.Print("\n### Streams: 1,000 at a time, 50 chunks a second each\n\n| | chunks/s | 99 % of the chunks are late by | added |\n|---|--:|--:|--:|\n")
	late := func(f figures) float64 { return f.LateP99 }
	for i, t := range b.targets {
		f := all[i]
		fmt.Printf("| %s | %.0f | %s | %s |\n", t.name, median(f, func(f figures) float64 { return float64(f.Pieces) / f.Seconds }),
			micros(median(f, late)), micros(median(f, late)-median(all[0], late)))
	}
	return nil
}

// starts: from the start of the process until it is ready, and what it holds
// when it has nothing to do.
func (b *bench) starts(context.Context) error {
	if b.gateway == "" {
		return nil
	}
	info, err := os.Stat(b.gateway)
	if err != nil {
		return err
	}
	var took []figures
	var idle int64
	for range b.rounds {
		began := time.Now()
		t, err := b.startGateway(variant{name: "llmgw anew", leases: "auto"})
		if err != nil {
			return err
		}
		took = append(took, figures{P50: float64(time.Since(began).Microseconds())})
		time.Sleep(time.Second) // what starting left to do
		if idle, err = rss(t.pid); err != nil {
			return err
		}
		b.stopLast()
	}
	fmt.Printf("\n### Start\n\n| start to ready | memory when idle | binary |\n|--:|--:|--:|\n| %s | %.0f MB | %.0f MB |\n",
		micros(median(took, func(f figures) float64 { return f.P50 })), float64(idle)/1e6, float64(info.Size())/1e6)
	return nil
}
