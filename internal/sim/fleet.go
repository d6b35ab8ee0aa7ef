package sim

import (
	"fmt"

	"llmgw/internal/budget"
)

// Sharing is how the nodes of a fleet hold one limit together.
type Sharing string

// The ways to share a limit.
const (
	// Full gives each node the whole limit: the mistake of counters in memory.
	Full Sharing = "full limit on each node"
	// Split gives each node its part: right only for an even spread.
	Split Sharing = "limit ÷ nodes on each"
	// Shared is one counter for all, asked at each request: what llmgw does.
	Shared Sharing = "one shared counter"
	// Synced counts at each node and tells the others now and then.
	Synced Sharing = "counters synchronised"
)

// Spread is which node a client's next request reaches.
type Spread string

// The spreads.
const (
	Even   Spread = "even"   // each node in turn
	Pinned Spread = "pinned" // always the same node
)

// Fleet is nodes that share a limit of requests per second under a steady load.
type Fleet struct {
	Nodes   int
	Limit   int64 // per second
	Load    int   // requests per second
	Spread  Spread
	Sharing Sharing
	SyncMS  int64 // between two synchronisations of a node, of Synced
	Seconds int
}

// Admitted is the rate that the fleet lets through, per second, after the first
// second, whose full buckets say nothing about the long run.
func (f Fleet) Admitted() (float64, error) {
	if f.Nodes < 1 || f.Limit < 1 || f.Load < 1 || f.Seconds < 2 || (f.Sharing == Synced && f.SyncMS < 1) {
		return 0, fmt.Errorf("simulate a fleet: nodes, limit and load must be at least 1, seconds 2, and a synchronisation 1 ms apart: %+v", f)
	}
	if f.Sharing == Synced {
		return f.synced(), nil
	}
	counters := f.Nodes
	amount := f.Limit
	switch f.Sharing {
	case Split:
		amount = max(1, f.Limit/int64(f.Nodes))
	case Shared:
		counters = 1
	}
	limiters := make([]*Limiter, counters)
	for i := range limiters {
		m, err := NewLimiter(&budget.Limit{
			Name: "fleet", Unit: budget.Requests, Amount: amount, Period: budget.Second, Burst: amount, Bank: 1, Algorithm: budget.TokenBucket,
		})
		if err != nil {
			return 0, err
		}
		limiters[i] = m
	}
	n := 0
	for i, t := range Steady(f.Load, f.Seconds) {
		if limiters[f.node(i)%counters].Allow(t, 1) && t >= second {
			n++
		}
	}
	return float64(n) / float64(f.Seconds-1), nil
}

func (f Fleet) node(request int) int {
	if f.Spread == Pinned {
		return 0
	}
	return request % f.Nodes
}

// peer is a node that counts by itself in windows of a second.
type peer struct {
	window int64 // that it counts in
	own    int64 // admitted since it last told the others
	known  int64 // of all in this window, when it last asked
}

// synced plays nodes that each count a window of a second and, SyncMS apart and
// each in its own phase, add what they admitted to the common count and read it.
// What the others admitted since is not known to a node, and is admitted again.
func (f Fleet) synced() float64 {
	peers := make([]peer, f.Nodes)
	common := map[int64]int64{} // by window
	n, turns := 0, int64(0)     // the peers take turns
	due := func(until int64) {
		for nodes := int64(f.Nodes); ; turns++ {
			round, i := turns/nodes, turns%nodes
			at := f.SyncMS*round + f.SyncMS*i/nodes
			if at > until {
				return
			}
			p := &peers[i]
			p.turn(at / second)
			common[p.window] += p.own
			p.own, p.known = 0, common[p.window]
		}
	}
	for i, t := range Steady(f.Load, f.Seconds) {
		due(t)
		p := &peers[f.node(i)]
		p.turn(t / second)
		if p.known+p.own >= f.Limit {
			continue
		}
		p.own++
		if t >= second {
			n++
		}
	}
	return float64(n) / float64(f.Seconds-1)
}

// turn begins a window: what was admitted in the last one is forgotten.
func (p *peer) turn(window int64) {
	if p.window != window {
		*p = peer{window: window}
	}
}

// Lease is how often a node asks the store when it takes n requests at a time
// instead of one.
type Lease struct {
	Size  int64
	Calls int // of the store in a second
}

// Leases counts the store's calls of one second under a load that the limit
// admits, for each size.
func Leases(load int, sizes ...int64) []Lease {
	all := make([]Lease, 0, len(sizes))
	for _, size := range sizes {
		l := Lease{Size: size}
		var held int64
		for range load {
			if held == 0 {
				l.Calls++
				held = size
			}
			held--
		}
		all = append(all, l)
	}
	return all
}
