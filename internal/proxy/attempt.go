package proxy

import (
	"context"
	"errors"
	"hash/maphash"
	"net/http"
	"sync"
	"time"

	"llmgw/internal/tenant"
)

// attempts knows the calls that may be attempts of one call. A client that tries
// again has given the earlier attempt up; its reservation must not stand beside
// that of the new one. So the earlier attempt is ended first, as if its client
// had left, and the new one goes on when it is settled.
//
// What belongs together is told by a name, an Idempotency-Key or the id that
// AWS's clients give all attempts of one call, else by what a retry has in common
// with the attempt before it: see retries.
type attempts struct {
	mu      sync.Mutex
	named   map[attemptName]*attempt
	retries retries
}

func newAttempts() *attempts {
	return &attempts{named: map[attemptName]*attempt{}, retries: retries{seed: maphash.MakeSeed(), known: map[retry]*tries{}}}
}

type attemptName struct{ keyID, name string }

// attempt is a call that a later one may end. The nil attempt is one that none
// can.
type attempt struct {
	all      *attempts
	cancel   context.CancelCauseFunc
	ended    chan struct{} // closed when the attempt is settled
	name     attemptName   // empty: it is known by its retry
	retry    retry
	patient  time.Time // until when its client waits, as it says
	answered bool      // so far that no client tries again
	given    bool      // given up: a later attempt has come
}

// nameOf is what the attempts of one call have in common, or empty.
func nameOf(h http.Header) string {
	if name := h.Get("Idempotency-Key"); name != "" {
		return name
	}
	return h.Get("Amz-Sdk-Invocation-Id")
}

// errSuperseded ends an attempt in whose place another came. Its answer is not
// drained: nobody is left to read it, and the other waits for its end.
var errSuperseded = errors.New("proxy: the client tries again")

// supersedeWait bounds how long a new attempt waits for the one before it.
const supersedeWait = 2 * time.Second

// begin makes r an attempt of the call that its headers tell, and ends the one
// before it. It returns r with a context that the next attempt may end, and the
// attempt, whose end must be called when it is settled. Where nothing tells of
// attempts it returns r as it is.
func (a *attempts) begin(r *http.Request, who tenant.Caller, body []byte) (*http.Request, *attempt) {
	name := nameOf(r.Header)
	count, counted := retryCount(r.Header)
	if name == "" && !counted {
		return r, nil
	}
	mine := &attempt{all: a, ended: make(chan struct{})}
	if name != "" {
		mine.name = attemptName{who.Key.ID, name}
	} else {
		mine.retry, mine.patient = a.retries.of(r, who, body, count), patientUntil(r.Header, time.Now())
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	mine.cancel = cancel
	if before := a.enter(mine); before != nil {
		before.await(ctx)
	}
	return r.WithContext(ctx), mine
}

// enter makes mine known and returns the attempt that it takes the place of, or
// nil.
func (a *attempts) enter(mine *attempt) (before *attempt) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if mine.name == (attemptName{}) {
		return a.retries.enter(mine, time.Now())
	}
	before = a.named[mine.name]
	a.named[mine.name] = mine
	return before
}

// answer notes that the client has an answer: not an error, which may be tried
// again.
func (t *attempt) answer(status int) {
	if t == nil || status >= 400 {
		return
	}
	t.all.mu.Lock()
	defer t.all.mu.Unlock()
	t.answered = true
}

// end notes that the attempt is settled.
func (t *attempt) end() {
	if t == nil {
		return
	}
	t.cancel(nil)
	close(t.ended)
	a := t.all
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case t.name == (attemptName{}):
		a.retries.leave(t, time.Now())
	case a.named[t.name] == t:
		delete(a.named, t.name)
	}
}

// await ends the attempt and waits until it is settled, within bounds.
func (t *attempt) await(ctx context.Context) {
	t.cancel(errSuperseded)
	timer := time.NewTimer(supersedeWait)
	defer timer.Stop()
	select {
	case <-t.ended:
	case <-ctx.Done():
	case <-timer.C:
	}
}
