package telemetry

import (
	"sync"
	"time"
)

// Sampler bounds how often something is logged that a stranger can cause as
// often as it likes. The zero Sampler is ready to use, and safe for concurrent
// use.
type Sampler struct {
	mu    sync.Mutex
	next  time.Time
	since int
}

// sampleEvery is the shortest time between two lines of one Sampler.
const sampleEvery = 10 * time.Second

// Allow counts an event and reports whether it should be logged, with how many
// there were since the last one that was, itself included.
func (s *Sampler) Allow() (since int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since++
	now := time.Now()
	if now.Before(s.next) {
		return 0, false
	}
	since, s.since, s.next = s.since, 0, now.Add(sampleEvery)
	return since, true
}
