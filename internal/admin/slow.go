package admin

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"llmgw/internal/tenant"
)

// The second wrong token of an address is answered after firstPause, each
// further one after twice the pause before, up to lastPause. maxHeld bounds how
// long an answer is held back when several are due: what would take longer is
// refused with 429 at once.
const (
	firstPause = 125 * time.Millisecond
	lastPause  = 4 * time.Second
	maxHeld    = 5 * time.Second
)

// Addresses are forgotten after one to two times forgetAfter without a wrong
// token, sooner if more than maxStrangers send them.
const (
	forgetAfter  = 10 * time.Minute
	maxStrangers = 4096
)

// strangers are the addresses that sent wrong tokens. Only answers to wrong
// tokens are held back: a right one passes at once, also from such an address,
// which may be a proxy's. The zero strangers is ready to use, and safe for
// concurrent use.
type strangers struct {
	mu         sync.Mutex
	young, old map[string]*tries // old: unless they come again they are forgotten next
	turned     time.Time         // when young was begun
}

// tries are the wrong tokens of one address.
type tries struct {
	pause time.Duration // before the next answer
	free  time.Time     // when the last answer is due
}

// wrong notes a wrong token of client. It returns how long the answer is to be
// held back; ok is false if that is more than maxHeld, and then wait is how long
// the client has to wait before another try.
func (s *strangers) wrong(client string, now time.Time) (wait time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.find(client, now)
	due := now
	if t.free.After(now) {
		due = t.free
	}
	due = due.Add(t.pause)
	if wait = due.Sub(now); wait > maxHeld {
		return t.free.Sub(now), false
	}
	t.free = due
	t.pause = min(max(2*t.pause, firstPause), lastPause)
	return wait, true
}

// find returns the tries of client, a new record if it has none; mu is held.
func (s *strangers) find(client string, now time.Time) *tries {
	if s.young == nil || len(s.young) >= maxStrangers || now.Sub(s.turned) >= forgetAfter {
		s.young, s.old, s.turned = map[string]*tries{}, s.young, now
	}
	t := s.young[client]
	if t == nil {
		if t = s.old[client]; t == nil {
			t = &tries{}
		}
		s.young[client] = t
	}
	return t
}

// hold notes a wrong token of r and waits until it may be answered, with status.
// The client may be gone then.
func (h *handler) hold(r *http.Request) (status int, retryAfter time.Duration) {
	client := h.config.Client(r)
	h.config.WrongToken(client)
	wait, ok := h.strangers.wrong(client, time.Now())
	if !ok {
		return http.StatusTooManyRequests, wait
	}
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	<-ctx.Done()
	return http.StatusUnauthorized, 0
}

// peer is the address that r comes from, as wrong tokens are counted.
func peer(r *http.Request) string {
	return tenant.Prefixes{}.Bucket(tenant.Proxies(nil).ClientIP(r.RemoteAddr, nil))
}

// refused sets the headers that a wrong or missing token is answered with.
func refused(w http.ResponseWriter, status int, retryAfter time.Duration) {
	if status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(retryAfter.Seconds()))))
		return
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="llmgw admin"`)
}
