package proxy

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// attempts knows the calls that run under an Idempotency-Key, or under the id
// that AWS's clients give all attempts of one call. A client that
// sends the key again has given the earlier attempt up; its reservation must
// not stand beside that of the new one. So the earlier attempt is ended first,
// as if its client had left, and the new one goes on when it is settled.
type attempts struct {
	mu      sync.Mutex
	running map[attemptKey]*attempt
}

type attemptKey struct{ keyID, idempotencyKey string }

type attempt struct {
	cancel context.CancelFunc
	ended  chan struct{} // closed when the attempt is settled
}

// nameOf is what the attempts of one call have in common, or empty.
func nameOf(h http.Header) string {
	if name := h.Get("Idempotency-Key"); name != "" {
		return name
	}
	return h.Get("Amz-Sdk-Invocation-Id")
}

// supersedeWait bounds how long a new attempt waits for the one before it.
const supersedeWait = 2 * time.Second

// begin makes r an attempt of the request that its name tells. It
// returns r with a context that the next attempt may end, and what to call when
// this one is settled. Without a name it returns r as it is.
func (a *attempts) begin(r *http.Request, keyID string) (*http.Request, func()) {
	name := nameOf(r.Header)
	if name == "" {
		return r, func() {}
	}
	ctx, cancel := context.WithCancel(r.Context())
	mine := &attempt{cancel: cancel, ended: make(chan struct{})}
	key := attemptKey{keyID, name}
	a.mu.Lock()
	before := a.running[key]
	if a.running == nil {
		a.running = map[attemptKey]*attempt{}
	}
	a.running[key] = mine
	a.mu.Unlock()
	if before != nil {
		before.await(ctx)
	}
	return r.WithContext(ctx), func() {
		cancel()
		close(mine.ended)
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.running[key] == mine {
			delete(a.running, key)
		}
	}
}

// await ends the attempt and waits until it is settled, within bounds.
func (a *attempt) await(ctx context.Context) {
	a.cancel()
	timer := time.NewTimer(supersedeWait)
	defer timer.Stop()
	select {
	case <-a.ended:
	case <-ctx.Done():
	case <-timer.C:
	}
}
