package proxy

import (
	"hash/maphash"
	"net/http"
	"slices"
	"strconv"
	"time"

	"llmgw/internal/tenant"
)

// retries knows the attempts of clients that count them (X-Stainless-Retry-Count
// of OpenAI's, Anthropic's, Groq's and Together's) but give them no name. A retry
// takes the place of an open attempt if it can be meant: the same key, user,
// address, client, path and body, one count less, no stream that has begun, and
// no doubt about which:
//
//   - An attempt of that count that failed is what the retry repeats; each
//     failure explains one retry.
//   - Of several that are open none is ended: independent calls may be equal.
//   - An attempt whose client says how long it waits is not given up before: what
//     the retry repeats never came here, or has lost its connection.
//
// First attempts never take a place. What runs at another gateway is not known.
type retries struct {
	seed  maphash.Seed
	known map[retry]*tries
	full  time.Time // when there was last no room: until a while later nothing is sure
	swept time.Time
}

// retry is what an attempt has in common with what it may repeat.
type retry struct {
	print uint64 // of the call; 0: not known by this
	count int    // of the attempts before it
}

// tries are the attempts of equal calls that have the same count.
type tries struct {
	open   []*attempt
	failed int       // ended without an answer, and not tried again
	until  time.Time // when the failures are forgotten
}

const (
	// retryWindow is how long a failed attempt may be tried again: clients wait
	// for at most a minute.
	retryWindow = 90 * time.Second
	// maxPatience is the longest wait that is believed.
	maxPatience = 24 * time.Hour
	// maxRetries bounds the calls that are known.
	maxRetries = 16 << 10
)

// retryCount is the number of attempts that a client says to have made before.
func retryCount(h http.Header) (int, bool) {
	count := h.Get("X-Stainless-Retry-Count")
	if count == "" { // an error costs more
		return 0, false
	}
	n, err := strconv.ParseUint(count, 10, 8)
	return int(n), err == nil
}

// patientUntil is until when a client that has begun a call by now waits for its
// answer, as its headers say, less what it took to get here; zero: they do not.
func patientUntil(h http.Header, now time.Time) time.Time {
	for _, name := range []string{"X-Stainless-Timeout", "X-Stainless-Read-Timeout"} {
		value := h.Get(name)
		if value == "" {
			continue
		}
		if seconds, err := strconv.ParseFloat(value, 64); err == nil && seconds > 0 && seconds <= maxPatience.Seconds() {
			return now.Add(time.Duration(seconds * 0.9 * float64(time.Second)))
		}
	}
	return time.Time{}
}

// of is what r has in common with its other attempts.
func (s *retries) of(r *http.Request, who tenant.Caller, body []byte, count int) retry {
	var h maphash.Hash
	h.SetSeed(s.seed)
	for _, part := range []string{who.Key.ID, who.User, who.IP.String(), r.UserAgent(), r.URL.Path, r.URL.RawQuery} {
		_, _ = h.WriteString(part) // never fails
		_ = h.WriteByte(0)
	}
	_, _ = h.Write(body)
	return retry{print: h.Sum64(), count: count}
}

// enter makes t known and returns the attempt whose place it takes, or nil.
func (s *retries) enter(t *attempt, now time.Time) (before *attempt) {
	if t.retry.count > 0 {
		before = s.repeated(retry{t.retry.print, t.retry.count - 1}, now)
	}
	k := s.known[t.retry]
	if k == nil {
		if len(s.known) >= maxRetries && !s.sweep(now) {
			s.full = now
			return before
		}
		k = &tries{}
		s.known[t.retry] = k
	}
	k.open = append(k.open, t)
	return before
}

// repeated is the open attempt that a retry of an earlier one gives up, or nil.
func (s *retries) repeated(earlier retry, now time.Time) *attempt {
	k := s.known[earlier]
	if k == nil {
		return nil
	}
	if k.failed > 0 && now.Before(k.until) {
		k.failed--
		return nil
	}
	if len(k.open) != 1 || now.Sub(s.full) < retryWindow {
		return nil
	}
	before := k.open[0]
	if before.answered || before.given || now.Before(before.patient) {
		return nil
	}
	before.given = true
	return before
}

// leave notes that t has ended.
func (s *retries) leave(t *attempt, now time.Time) {
	k := s.known[t.retry]
	if k == nil {
		return
	}
	i := slices.Index(k.open, t)
	if i < 0 {
		return // there was no room for it
	}
	k.open = slices.Delete(k.open, i, i+1)
	if !t.answered && !t.given {
		if !now.Before(k.until) {
			k.failed = 0
		}
		k.failed++
		k.until = now.Add(retryWindow)
	}
	if k.over(now) {
		delete(s.known, t.retry)
	}
}

// over tells whether nothing is to be remembered of k.
func (k *tries) over(now time.Time) bool {
	return len(k.open) == 0 && (k.failed == 0 || !now.Before(k.until))
}

// sweep forgets what is over, and tells whether there is room now. It looks at
// most once a second.
func (s *retries) sweep(now time.Time) bool {
	if now.Sub(s.swept) < time.Second {
		return false
	}
	s.swept = now
	for at, k := range s.known {
		if k.over(now) {
			delete(s.known, at)
		}
	}
	return len(s.known) < maxRetries
}
