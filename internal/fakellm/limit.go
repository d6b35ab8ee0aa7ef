package fakellm

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// TokenCost is what a request counts against the limit of tokens.
type TokenCost string

// The ways to count.
const (
	// CostReserved counts input and the most output, whatever is used.
	CostReserved TokenCost = "reserved"
	// CostInput counts input as the request arrives, and what it used when it
	// has ended.
	CostInput TokenCost = "input"
	// CostSettled counts as CostReserved, until the request has ended: then what
	// it used.
	CostSettled TokenCost = "settled"
)

// parseTokenCost reads a TokenCost. Any other word is an error.
func parseTokenCost(s string) (TokenCost, error) {
	switch c := TokenCost(s); c {
	case CostReserved, CostInput, CostSettled:
		return c, nil
	}
	return "", fmt.Errorf("%q is not reserved, input or settled", s)
}

// limits is a sliding log of the last minute's requests, for each key or for
// all: the strictest judge there is, in any interval and not only in aligned
// ones.
type limits struct {
	options Options
	mu      sync.Mutex
	logs    map[string]*requestLog
}

// requestLog is what one account asked for in the last minute, oldest first.
type requestLog struct {
	entries  []*entry
	inFlight int64
}

type entry struct {
	at     time.Time
	tokens int64
}

// turn is a request that was let in. The zero turn was not.
type turn struct {
	limits *limits
	log    *requestLog
	entry  *entry
	left   balance
}

// balance is what the minute has left, for headers.
type balance struct {
	requests, tokens           int64
	requestsReset, tokensReset time.Duration
}

func newLimits(o Options) *limits { return &limits{options: o, logs: map[string]*requestLog{}} }

// take lets a request of that many tokens in, or says why not. A refused
// request counts for nothing. Safe for concurrent use.
func (l *limits) take(key string, tokens int64, now time.Time) (turn, fault) {
	o := l.options
	if o.RPM == 0 && o.TPM == 0 && o.Concurrency == 0 {
		return turn{}, fault{}
	}
	if !o.PerKey {
		key = ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	log := l.logs[key]
	if log == nil {
		log = &requestLog{}
		l.logs[key] = log
	}
	log.expire(now)
	f := log.judge(o, tokens, now)
	if f.status != 0 {
		return turn{limits: l, left: log.balance(o, now)}, f
	}
	e := &entry{at: now, tokens: tokens}
	log.entries = append(log.entries, e)
	log.inFlight++
	return turn{limits: l, log: log, entry: e, left: log.balance(o, now)}, fault{}
}

// judge says whether one more request fits.
func (g *requestLog) judge(o Options, tokens int64, now time.Time) fault {
	if o.Concurrency > 0 && g.inFlight >= o.Concurrency {
		return fault{status: http.StatusTooManyRequests, unit: "requests", limit: o.Concurrency, used: g.inFlight, requested: 1,
			wait: 100 * time.Millisecond, per: "concurrent"}
	}
	if o.TPM > 0 && tokens > o.TPM {
		return fault{status: http.StatusTooManyRequests, unit: "tokens", limit: o.TPM, requested: tokens, never: true, per: "min"}
	}
	var worst fault
	for _, axis := range [...]struct {
		unit        string
		limit, cost int64
		of          func(*entry) int64
	}{
		{"requests", o.RPM, 1, func(*entry) int64 { return 1 }},
		{"tokens", o.TPM, tokens, func(e *entry) int64 { return e.tokens }},
	} {
		if axis.limit == 0 {
			continue
		}
		wait, used := g.wait(now, time.Minute, axis.limit, axis.cost, axis.of)
		if o.Window > 0 {
			share := max(axis.limit*int64(o.Window)/int64(time.Minute), 1)
			// What is larger than a window's share needs as many empty windows.
			windows := max(ceilDiv(axis.cost, share), 1)
			short, _ := g.wait(now, min(o.Window*time.Duration(windows), time.Minute), share*windows, axis.cost, axis.of)
			wait = max(wait, short)
		}
		if wait > worst.wait {
			worst = fault{status: http.StatusTooManyRequests, unit: axis.unit, limit: axis.limit, used: used, requested: axis.cost, wait: wait, per: "min"}
		}
	}
	return worst
}

// wait returns how long it takes until cost more fits into span under limit,
// and what span holds now. It walks back from the newest entry to the one that
// has to leave.
func (g *requestLog) wait(now time.Time, span time.Duration, limit, cost int64, of func(*entry) int64) (time.Duration, int64) {
	var sum int64
	var wait time.Duration
	for i := len(g.entries) - 1; i >= 0; i-- {
		e := g.entries[i]
		left := e.at.Add(span).Sub(now)
		if left <= 0 {
			break
		}
		sum += of(e)
		if wait == 0 && sum+cost > limit {
			wait = left
		}
	}
	return wait, sum
}

func (g *requestLog) expire(now time.Time) {
	i := 0
	for i < len(g.entries) && !g.entries[i].at.Add(time.Minute).After(now) {
		i++
	}
	g.entries = g.entries[i:]
}

func (g *requestLog) balance(o Options, now time.Time) balance {
	var b balance
	var tokens int64
	for _, e := range g.entries {
		tokens += e.tokens
	}
	b.requests = max(o.RPM-int64(len(g.entries)), 0)
	b.tokens = max(o.TPM-tokens, 0)
	if n := len(g.entries); n > 0 {
		b.requestsReset = g.entries[n-1].at.Add(time.Minute).Sub(now)
		b.tokensReset = b.requestsReset
	}
	return b
}

// settle replaces what t was counted for by what it used, where the provider
// counts so.
func (t turn) settle(used int64, outcome Outcome) {
	if t.entry == nil || t.limits.options.TokenCost == CostReserved || t.limits.options.TokenCost == "" {
		return
	}
	if outcome != Done {
		return // what came of it is not known
	}
	t.limits.mu.Lock()
	defer t.limits.mu.Unlock()
	t.entry.tokens = used
}

// release ends t's time in flight.
func (t turn) release() {
	if t.log == nil {
		return
	}
	t.limits.mu.Lock()
	defer t.limits.mu.Unlock()
	t.log.inFlight--
}

// headers adds what is left to h, in the API's own terms.
func (t turn) headers(h http.Header, a api, now time.Time) {
	if t.limits == nil {
		return
	}
	o := t.limits.options
	for _, axis := range [...]struct {
		unit        string
		limit, left int64
		reset       time.Duration
	}{
		{"requests", o.RPM, t.left.requests, t.left.requestsReset},
		{"tokens", o.TPM, t.left.tokens, t.left.tokensReset},
	} {
		if axis.limit == 0 {
			continue
		}
		limit, left := strconv.FormatInt(axis.limit, 10), strconv.FormatInt(axis.left, 10)
		switch a {
		case openai:
			h.Set("x-ratelimit-limit-"+axis.unit, limit)
			h.Set("x-ratelimit-remaining-"+axis.unit, left)
			h.Set("x-ratelimit-reset-"+axis.unit, axis.reset.Round(time.Millisecond).String())
		case anthropic:
			prefix := "anthropic-ratelimit-" + axis.unit
			h.Set(prefix+"-limit", limit)
			h.Set(prefix+"-remaining", left)
			h.Set(prefix+"-reset", now.Add(axis.reset).UTC().Format(time.RFC3339))
		case gemini, bedrock, cohere, ollama: // have no such headers
		}
	}
}

// rateMessage is OpenAI's sentence for a limit that was hit.
func (f fault) rateMessage() string {
	short := map[string]string{"requests": "RPM", "tokens": "TPM"}[f.unit]
	if f.never {
		return fmt.Sprintf("Request too large for %s in organization org-sim on %s per %s (%s): Limit %d, Requested %d. "+
			"The input or output tokens must be reduced in order to run successfully.", f.model, f.unit, f.per, short, f.limit, f.requested)
	}
	return fmt.Sprintf("Rate limit reached for %s in organization org-sim on %s per %s (%s): Limit %d, Used %d, Requested %d. Please try again in %s.",
		f.model, f.unit, f.per, short, f.limit, f.used, f.requested, f.wait.Round(time.Millisecond))
}
