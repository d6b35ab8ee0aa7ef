// Command run compares the gateway with a bare reverse proxy, and with nginx
// where it is installed, in one run on one machine, and prints the figures as
// Markdown. It starts and stops everything itself: Redis, the simulated
// provider, the proxies, the load. See bench/README.md.
//
// main.go is the order of measurements, measure.go makes one, busy.go makes
// those of a busy host, allocations.go counts, servers.go starts processes, config.go configures them, proc.go asks the kernel what
// they cost, report.go prints.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

// options are the command line's.
type options struct {
	gateway string
	rounds  int
	each    time.Duration
	idle    []int
	store   string
	only    string
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGPIPE)
	defer stop()
	o := options{}
	flag.StringVar(&o.gateway, "llmgw", "", "the gateway's binary; without it only the others are measured")
	flag.IntVar(&o.rounds, "rounds", 5, "rounds of each measurement; the median is told")
	flag.DurationVar(&o.each, "each", 2*time.Second, "how long one measurement of one proxy takes")
	flag.StringVar(&o.store, "store", "redis", "the gateway's store: redis or memory")
	flag.StringVar(&o.only, "only", "", "only this part: start, throughput, neighbour, teams, users, allocations, latency, streams, paced or idle")
	idle := flag.Int("idle", 10_000, "the most idle streams that are held open")
	flag.Parse()
	limit, err := files()
	if err != nil {
		return err
	}
	most := min(*idle, int(limit)/2-100)
	if most < *idle {
		fmt.Fprintf(os.Stderr, "%d open files are allowed: %d idle streams at most\n", limit, most)
	}
	for _, n := range []int{1000, most} {
		if n <= most && !slices.Contains(o.idle, n) {
			o.idle = append(o.idle, n)
		}
	}
	b, err := start(ctx, o)
	if err != nil {
		return err
	}
	defer b.stop()
	b.describe()
	for _, part := range []struct {
		name    string
		measure func(context.Context) error
	}{
		{"start", b.starts},
		{"throughput", b.throughput},
		{"neighbour", b.neighbour},
		{"teams", b.teams},
		{"users", b.users},
		{"allocations", b.allocations},
		{"latency", b.latency},
		{"streams", b.streams},
		{"paced", b.pacedStreams},
		{"idle", b.idleStreams},
	} {
		if o.only != "" && o.only != part.name {
			continue
		}
		if err := part.measure(ctx); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}
