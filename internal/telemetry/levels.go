package telemetry

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Level is one limit's counter as its store has it. USD is in dollars.
type Level struct {
	Scope, Owner, Name, Unit string
	// Remaining may be negative, in debt. NaN: not known now.
	Remaining float64
	Amount    float64
	Capacity  float64 // the most that can be left
	Per, Mode string
}

const (
	levelsFreshFor = time.Second            // how old shown levels may be
	levelsWait     = 500 * time.Millisecond // how long a scrape waits for them
)

// levels is the collector of the limits' levels: it reads them when asked, for
// all scrapes of a second at once, and never makes a scrape wait for long.
type levels struct {
	bounds                      bounds
	remaining, amount, capacity *prometheus.Desc

	mu      sync.Mutex
	read    func(context.Context) []Level
	last    []Level
	at      time.Time     // of last
	reading chan struct{} // closed when the read under way ends; nil: none is
}

func newLevels(b bounds) *levels {
	labels := []string{"scope", "owner", "name", "unit", "per", "mode"}
	return &levels{
		bounds:    b,
		remaining: prometheus.NewDesc("llmgw_limit_remaining", "What is left of a limit, open reservations subtracted; negative in debt.", labels, nil),
		amount:    prometheus.NewDesc("llmgw_limit_amount", "What a limit grants in a period; slots of a concurrency limit.", labels, nil),
		capacity:  prometheus.NewDesc("llmgw_limit_capacity", "The most that can be left of a limit: its burst, or its amount.", labels, nil),
	}
}

func (l *levels) use(read func(context.Context) []Level) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.read, l.last, l.at = read, nil, time.Time{}
}

// Describe implements prometheus.Collector.
func (l *levels) Describe(ch chan<- *prometheus.Desc) {
	ch <- l.remaining
	ch <- l.amount
	ch <- l.capacity
}

// Collect implements prometheus.Collector.
func (l *levels) Collect(ch chan<- prometheus.Metric) {
	seen := make(map[[6]string]bool)
	for _, level := range l.current() {
		labels := [6]string{
			l.bounds.scope.value(level.Scope), l.bounds.owner.value(level.Owner),
			l.bounds.limit.value(level.Name), l.bounds.unit.value(level.Unit), level.Per, level.Mode,
		}
		if seen[labels] {
			continue // beyond the bound: two levels cannot share a series
		}
		seen[labels] = true
		ch <- prometheus.MustNewConstMetric(l.amount, prometheus.GaugeValue, level.Amount, labels[:]...)
		ch <- prometheus.MustNewConstMetric(l.capacity, prometheus.GaugeValue, level.Capacity, labels[:]...)
		if !math.IsNaN(level.Remaining) {
			ch <- prometheus.MustNewConstMetric(l.remaining, prometheus.GaugeValue, level.Remaining, labels[:]...)
		}
	}
}

// current returns levels that are fresh, or the last ones with their Remaining
// unknown if fresh ones do not come in time.
func (l *levels) current() []Level {
	done := l.refresh()
	if done != nil {
		timer := time.NewTimer(levelsWait)
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C:
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.at) <= levelsFreshFor {
		return l.last
	}
	stale := make([]Level, len(l.last))
	copy(stale, l.last)
	for i := range stale {
		stale[i].Remaining = math.NaN()
	}
	return stale
}

// refresh begins a read unless levels are fresh or one is under way, and
// returns what closes when it ends; nil if there is nothing to wait for.
func (l *levels) refresh() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reading != nil {
		return l.reading
	}
	if l.read == nil || time.Since(l.at) < levelsFreshFor {
		return nil
	}
	done := make(chan struct{})
	l.reading = done
	read := l.read
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), levelsWait)
		defer cancel()
		began := time.Now()
		got := read(ctx)
		l.mu.Lock()
		defer l.mu.Unlock()
		if got != nil {
			l.last, l.at = got, began
		}
		l.reading = nil
		close(done)
	}()
	return done
}
