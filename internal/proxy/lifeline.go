package proxy

import (
	"context"
	"errors"
	"sync"
	"time"
)

// lifeline is the context of the call to the provider. It outlives the client's
// by as long as something is to be read on for: the whole answer under Drain,
// and the usage that comes behind an answer of which the client has all.
//
//	client here ──leaves──► patience 0: the call ends
//	            └─────────► patience d: it ends after d, or when patience becomes 0
type lifeline struct {
	ctx    context.Context
	cancel context.CancelFunc
	rules  *Rules
	client context.Context
	stop   func() bool

	mu       sync.Mutex
	patience time.Duration // how long the answer is read on when its client has left
	left     bool          // it has
	timer    *time.Timer
}

// billTime is how long the usage of an answer is waited for whose client left
// with all of it: providers send it at once, or some tenths of a second later.
const billTime = 10 * time.Second

// newLifeline returns the lifeline of a call for client. Its end must be called.
func newLifeline(client context.Context, rules *Rules) *lifeline {
	l := &lifeline{rules: rules, client: client}
	l.ctx, l.cancel = context.WithCancel(context.WithoutCancel(client))
	l.stop = context.AfterFunc(client, l.leave)
	return l
}

// answered notes that the answer has come: from now on the rules may drain it.
func (l *lifeline) answered() { l.due(false) }

// due sets whether the usage of an answer is still to come of which the client
// has the rest.
func (l *lifeline) due(bill bool) {
	var d time.Duration
	if l.rules.OnClientGone == Drain {
		d = l.rules.DrainTime
	}
	if bill {
		d = max(d, billTime)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if d == l.patience {
		return
	}
	l.patience = d
	if l.left {
		l.await()
	}
}

// leave notes that the client has left. A client that tries again, or a gateway
// that stops, waits for nothing.
func (l *lifeline) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if cause := context.Cause(l.client); errors.Is(cause, errSuperseded) || errors.Is(cause, ErrShutdown) {
		l.cancel()
		return
	}
	if !l.left {
		l.left = true
		l.await()
	}
}

// await ends the call when the patience has passed. mu is held.
func (l *lifeline) await() {
	if l.timer != nil {
		l.timer.Stop()
	}
	if l.patience <= 0 {
		l.cancel()
		return
	}
	l.timer = time.AfterFunc(l.patience, l.cancel)
}

// end ends the call.
func (l *lifeline) end() {
	l.stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
	}
	l.cancel()
}
