package fakellm

import (
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Outcome is how a request ended.
type Outcome string

// The outcomes.
const (
	Done     Outcome = "done"      // answered in full
	Limited  Outcome = "limited"   // 429: over the provider's own limits
	Failed   Outcome = "failed"    // an error, scripted or deserved
	Cut      Outcome = "cut"       // broken off by the script
	PeerGone Outcome = "peer_gone" // the client closed the connection before the end
	Aborted  Outcome = "aborted"   // anything else
)

// Seen is one request as the provider saw it.
type Seen struct {
	Method  string      `json:"method"`
	Path    string      `json:"path"`
	Query   string      `json:"query,omitempty"`
	Header  http.Header `json:"header"`
	Body    string      `json:"body"`
	Key     string      `json:"key"`
	Model   string      `json:"model"`
	Attempt int64       `json:"attempt"` // 1 for the first request for this name
	Began   time.Time   `json:"began"`
	Ended   time.Time   `json:"ended"` // zero while it runs
	Chunks  int64       `json:"chunks"`
	Outcome Outcome     `json:"outcome"`
}

// Stats is what a Provider has seen since it was made or reset.
type Stats struct {
	Requests     int64            `json:"requests"`  // to endpoints of an API
	InFlight     int64            `json:"in_flight"` // now
	MaxInFlight  int64            `json:"max_in_flight"`
	Done         int64            `json:"done"`
	Limited      int64            `json:"limited"`
	Failed       int64            `json:"failed"`
	Cut          int64            `json:"cut"`
	PeerGone     int64            `json:"peer_gone"`
	Aborted      int64            `json:"aborted"`
	InputTokens  int64            `json:"input_tokens"` // reported by answers that were done
	OutputTokens int64            `json:"output_tokens"`
	Models       map[string]int64 `json:"models"` // requests that were let in, by name
	Last         []Seen           `json:"last"`   // the last requests, oldest first
}

// maxNames bounds the model names that are counted apart.
const maxNames = 10_000

type counters struct {
	mu     sync.Mutex
	stats  Stats
	keep   int
	recent []*Seen
}

func newCounters(keep int) *counters {
	return &counters{keep: keep, stats: Stats{Models: map[string]int64{}}}
}

// Stats returns what was seen so far.
func (p *Provider) Stats() Stats {
	c := p.stats
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Models = make(map[string]int64, len(c.stats.Models))
	for name, n := range c.stats.Models {
		s.Models[name] = n
	}
	s.Last = make([]Seen, 0, len(c.recent))
	for _, seen := range c.recent {
		s.Last = append(s.Last, *seen)
	}
	return s
}

// Reset forgets what was seen, the counts of scripted failures and the limits'
// logs. Requests in flight stay in flight.
func (p *Provider) Reset() {
	p.stats.reset()
	p.limits.reset()
}

func (c *counters) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats = Stats{Models: map[string]int64{}, InFlight: c.stats.InFlight, MaxInFlight: c.stats.InFlight}
	c.recent = nil
}

func (l *limits) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, g := range l.logs {
		g.entries = nil
	}
}

// begin counts a request in.
func (c *counters) begin(r *http.Request, body []byte, now time.Time) *Seen {
	seen := &Seen{Method: r.Method, Path: r.URL.Path, Key: key(r), Began: now}
	if c.keep > 0 {
		seen.Query, seen.Header, seen.Body = r.URL.RawQuery, r.Header.Clone(), string(body)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Requests++
	c.stats.InFlight++
	c.stats.MaxInFlight = max(c.stats.MaxInFlight, c.stats.InFlight)
	if c.keep > 0 {
		if len(c.recent) == c.keep {
			c.recent = slices.Delete(c.recent, 0, 1)
		}
		c.recent = append(c.recent, seen)
	}
	return seen
}

// end counts it out.
func (c *counters) end(seen *Seen, outcome Outcome, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen.Outcome, seen.Ended = outcome, now
	c.stats.InFlight--
	switch outcome {
	case Done:
		c.stats.Done++
	case Limited:
		c.stats.Limited++
	case Failed:
		c.stats.Failed++
	case Cut:
		c.stats.Cut++
	case PeerGone:
		c.stats.PeerGone++
	case Aborted:
		c.stats.Aborted++
	}
}

// name notes the model that was asked for.
func (c *counters) name(seen *Seen, model string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen.Model = model
}

// admit counts a request that was let in, and returns its number among those
// for the same model. Beyond maxNames, new names count as one.
func (c *counters) admit(seen *Seen, model string) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.stats.Models[model]; !known && len(c.stats.Models) >= maxNames {
		model = "other"
	}
	c.stats.Models[model]++
	seen.Attempt = c.stats.Models[model]
	return seen.Attempt
}

// chunk notes that one more content chunk was sent.
func (c *counters) chunk(seen *Seen) {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen.Chunks++
}

func (c *counters) used(u usage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.InputTokens += u.input
	c.stats.OutputTokens += u.output
}

// control serves the provider's own endpoints. It tells whether it did.
func (p *Provider) control(w http.ResponseWriter, r *http.Request) bool {
	switch r.URL.Path {
	case "/sim/stats":
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(p.Stats()); err != nil {
			p.options.Logger.Debug("stats", "error", err)
		}
	case "/sim/reset":
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return true
		}
		p.Reset()
		w.WriteHeader(http.StatusNoContent)
	case "/healthz":
		w.WriteHeader(http.StatusOK)
	default:
		return false
	}
	return true
}
