package lease

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"llmgw/internal/budget"
)

// group is the requests that meet the same counters and have the same tag.
type group struct {
	tag   string
	lines []budget.Line // in their order, without amounts
	keys  []budget.CounterID
	held  []*atomic.Int64 // of each counter, by all leases that are granted from

	mu     sync.Mutex
	demand demand
	lease  *lease    // that requests are granted from, or nil
	asking bool      // for one
	notYet time.Time // none before
}

// groups finds the group of a request.
type groups struct {
	mu    sync.RWMutex
	m     map[uint64]*group
	held  map[budget.CounterID]*atomic.Int64
	swept time.Time
}

func (t *groups) init() {
	t.m = make(map[uint64]*group)
	t.held = make(map[budget.CounterID]*atomic.Int64)
}

// leasable reports whether l's counter can be spent from in advance.
func leasable(l *budget.Limit) bool {
	switch l.Algorithm {
	case budget.TokenBucket, budget.CalendarUsage, budget.Slots:
		return l.Mode == budget.Enforce && l.Candidate == 0 && l.Scope != budget.Provider
	default:
		return false
	}
}

// group is r's group, or nil if r cannot be granted from a lease.
func (s *Limiter) group(r *budget.Request) *group {
	if r.Shadow || r.Force || r.Epoch == budget.Outside || len(r.Lines) == 0 {
		return nil
	}
	var sum uint64
	for i := range r.Lines {
		if !leasable(r.Lines[i].Limit) {
			return nil
		}
		sum = sum*31 + maphash.Comparable(s.seed, r.Lines[i].Limit)
		if v := r.Lines[i].Value; v != "" {
			sum = sum*31 + maphash.String(s.seed, v)
		}
	}
	tag := budget.Tag(r.ID)
	sum = sum*31 + maphash.String(s.seed, tag)
	s.groups.mu.RLock()
	g := s.groups.m[sum]
	s.groups.mu.RUnlock()
	if g == nil {
		g = s.groups.make(sum, tag, r.Lines)
	}
	if g == nil || g.tag != tag || !g.of(r.Lines) {
		return nil
	}
	return g
}

// of reports whether lines meet g's counters.
func (g *group) of(lines []budget.Line) bool {
	if len(lines) != len(g.lines) {
		return false
	}
	for i := range lines {
		if lines[i].Limit != g.lines[i].Limit || lines[i].Value != g.lines[i].Value {
			return false
		}
	}
	return true
}

// make enters a new group, unless there are too many busier ones.
func (t *groups) make(sum uint64, tag string, lines []budget.Line) *group {
	t.mu.Lock()
	defer t.mu.Unlock()
	if g := t.m[sum]; g != nil {
		return g
	}
	now := time.Now()
	if len(t.m) >= groupsOf && !t.sweep(now) {
		return nil
	}
	n := len(lines)
	g := &group{tag: tag, lines: make([]budget.Line, n), keys: make([]budget.CounterID, n), held: make([]*atomic.Int64, n)}
	for i, l := range lines {
		g.lines[i] = budget.Line{Limit: l.Limit, Value: l.Value}
		g.keys[i] = l.Counter()
		if g.held[i] = t.held[g.keys[i]]; g.held[i] == nil {
			g.held[i] = new(atomic.Int64)
			t.held[g.keys[i]] = g.held[i]
		}
	}
	g.demand.start(now, len(lines))
	t.m[sum] = g
	return g
}

// sweep forgets groups that nobody has used for a while, once a second at most,
// and reports whether there is room.
func (t *groups) sweep(now time.Time) bool {
	if now.Sub(t.swept) < time.Second {
		return false
	}
	t.swept = now
	clear(t.held)
	for sum, g := range t.m {
		g.mu.Lock()
		idle := g.lease == nil && !g.asking && now.Sub(g.demand.since) > 2*time.Second
		g.mu.Unlock()
		if idle {
			delete(t.m, sum)
			continue
		}
		for i, k := range g.keys {
			t.held[k] = g.held[i]
		}
	}
	return len(t.m) < groupsOf
}

// demand is how much a group asks for.
type demand struct {
	since  time.Time // the count's start
	count  int
	sums   []int64
	rate   float64 // requests a second, in the last window
	mean   []int64 // of each line by one of them, rounded up
	steady int     // windows in a row that were busy
}

func (d *demand) start(now time.Time, lines int) {
	d.since, d.sums, d.mean = now, make([]int64, lines), make([]int64, lines)
}

// record adds a request to the averages, unless no lease would be good for enough
// like it: one such among many must not make the many seem large.
func (d *demand) record(lines []budget.Line, now time.Time, cfg *Config) {
	if past := now.Sub(d.since); past >= cfg.Window {
		d.turn(now, past, cfg.Busy)
	}
	for i := range lines {
		if lines[i].Amount > lines[i].Limit.Capacity()/(part(lines[i].Limit)*fewest) {
			return
		}
	}
	d.count++
	for i := range lines {
		d.sums[i] = min(d.sums[i]+lines[i].Amount, budget.MaxExact)
	}
}

// turn ends a window.
func (d *demand) turn(now time.Time, past time.Duration, busy int) {
	d.rate = float64(d.count) / past.Seconds()
	if d.rate < float64(busy) {
		d.steady = 0
	} else {
		d.steady++
	}
	for i := range d.sums {
		d.mean[i] = (d.sums[i] + int64(d.count) - 1) / int64(max(d.count, 1))
		d.sums[i] = 0
	}
	d.since, d.count = now, 0
}

// recycles reports whether what a request took of l is there for the next within
// the same lease, as slots are and tokens are not.
func recycles(l *budget.Limit) bool { return l.Algorithm == budget.Slots }

// part is into how many parts what is to spare of l is divided, each gateway's
// lease being one.
func part(l *budget.Limit) int64 {
	if recycles(l) {
		return 4
	}
	return 10
}

// amounts is what a lease should take of each line, or nil if none is worth it:
// the demand of the time ahead, but of each counter at most this gateway's part
// of what is left above the last tenth, together with the leases of others here.
// Slots serve one request after the other: they bound how many it serves at a time.
func (g *group) amounts(states []budget.LineState, gateways int64) []int64 {
	requests := int64(g.demand.rate * ahead.Seconds())
	slots := requests
	for i := range states {
		spare := states[i].Remaining - (states[i].Capacity+9)/10
		if spare < 0 {
			return nil
		}
		others := g.held[i].Load()
		if g.lease != nil { // it makes way for the next; what is left of it is in spare
			others -= g.lease.lines[i].Amount
		}
		mean, n := g.demand.mean[i], &requests
		if recycles(g.lines[i].Limit) {
			n = &slots
		}
		if mean > 0 {
			*n = min(*n, ((spare+others)/(part(g.lines[i].Limit)*gateways)-others)/mean)
		}
	}
	if min(requests, slots) < fewest {
		return nil
	}
	amounts := make([]int64, len(states))
	for i := range amounts {
		n := requests
		if recycles(g.lines[i].Limit) {
			n = min(n, slots)
		}
		amounts[i] = n * g.demand.mean[i]
	}
	return amounts
}
