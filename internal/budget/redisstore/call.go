package redisstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"llmgw/internal/budget"
)

// call makes one round trip and gives everyone their answer.
func (l *batcher) call(settles []*settling, reserves []*reserving) {
	if len(settles)+len(reserves) == 0 {
		return // all that waited have left
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.s.timeout)
	defer cancel()
	scripts := &l.s.scripts
	switch {
	case len(reserves) == 0:
		keys, args := l.settleKeys(settles), l.settleArgs(settles)
		l.asks()
		a := l.s.run(ctx, &scripts.settle, keys, args)
		l.heard(a)
		l.settled(a, settles)
	case len(settles) == 0:
		keys, args := l.reserveCall(reserves)
		l.asks()
		b := l.s.run(ctx, &scripts.reserve, keys, args)
		l.heard(b)
		l.reserved(b, reserves)
	default:
		keys, args := l.reserveCall(reserves)
		a := scripts.settle.command(ctx, l.settleKeys(settles), l.settleArgs(settles))
		b := scripts.reserve.command(ctx, keys, args)
		if !l.warm { // without the first Redis would apply the second before it
			a, b = scripts.settle.whole(a), scripts.reserve.whole(b)
		}
		l.asks()
		a, b = l.s.runBoth(ctx, &scripts.settle, a, &scripts.reserve, b)
		l.heard(b)
		l.warm = a.Err() == nil && b.Err() == nil
		l.settled(a, settles)
		l.reserved(b, reserves)
	}
}

// asks notes that a call goes out: from now on Redis owes an answer, unless it
// owed one before.
func (l *batcher) asks() { l.owed.CompareAndSwap(0, l.s.elapsed()) }

// heard notes that Redis answered, if it did.
func (l *batcher) heard(cmd *redis.Cmd) {
	var reply redis.Error
	if err := cmd.Err(); err == nil || errors.As(err, &reply) {
		l.owed.Store(0)
	}
}

func (l *batcher) settleKeys(settles []*settling) []any {
	keys := make([]any, 1, 1+len(settles))
	keys[0] = l.base
	for _, w := range settles {
		keys = append(keys, recordKey(l.base, w.id))
	}
	return keys
}

func (l *batcher) settleArgs(settles []*settling) []any {
	blob := make([]byte, 0, 64*len(settles))
	for _, w := range settles {
		blob = append(appendText(blob, w.id), w.body...)
	}
	return []any{l.s.given(), blob}
}

// settled tells the callers what came of their settlements.
func (l *batcher) settled(cmd *redis.Cmd, settles []*settling) {
	answer, err := text(cmd)
	results := make([]budget.Settled, len(settles))
	if err == nil {
		l.s.sync(answer.int())
		for i := range results {
			results[i] = budget.Settled{Known: answer.byte() == 1, Unbooked: answer.int()}
		}
		err = answer.err()
	}
	for i, w := range settles {
		if w.done == nil { // a cancellation: of a call that failed it is tried again
			if err != nil {
				l.cancelLater(w)
			}
			continue
		}
		if err != nil {
			w.done(budget.Settled{}, fmt.Errorf("settle %s: %w", w.id, err))
			continue
		}
		w.done(results[i], nil)
	}
}

// cancelLater keeps a cancellation for the next call. What does not fit, or
// never gets another call, the gateway finds by comparing open reservations.
func (l *batcher) cancelLater(w *settling) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.cancels) < maxCancels {
		l.cancels = append(l.cancels, w)
	}
}

// reserveCall makes KEYS and ARGV of reserve.lua, each counter and its rules once.
func (l *batcher) reserveCall(reserves []*reserving) (keys, args []any) {
	keys = make([]any, 1, 1+len(reserves)+8)
	keys[0] = l.base
	for _, w := range reserves {
		keys = append(keys, recordKey(l.base, w.id))
	}
	var epochs []any
	index := make(map[string]int, 8)
	rules, requests := make([]byte, 0, 512), make([]byte, 0, 80*len(reserves))
	now := l.s.nowMS()
	for _, w := range reserves {
		e := 0
		for e < len(epochs) && epochs[e] != string(w.epoch) {
			e++
		}
		if e == len(epochs) {
			epochs = append(epochs, string(w.epoch))
		}
		requests = append(appendText(requests, w.id), byte(e+1))
		requests = append(requests, w.head...)
		for i := range w.parts {
			p := &w.parts[i]
			n, ok := index[p.key]
			if !ok {
				n = len(index) + 1
				index[p.key] = n
				keys = append(keys, p.key)
				rules = append(rules, p.rules.bytes(now)...)
			}
			requests = append(requests, byte(n), byte(n>>8), byte(p.line+1), p.enforced)
			requests = appendInt(requests, p.amount)
		}
	}
	return keys, append([]any{l.s.given(), len(reserves), rules, requests}, epochs...)
}

// reserved tells the callers the decisions on their requests.
func (l *batcher) reserved(cmd *redis.Cmd, reserves []*reserving) {
	answer, err := text(cmd)
	at := int64(0)
	if err == nil {
		at = answer.int()
		l.s.sync(at)
	}
	for _, w := range reserves {
		if err == nil {
			w.read(answer, at)
			err = answer.err()
		}
		if err != nil {
			w.err = fmt.Errorf("reserve %s: %w", w.id, err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range reserves {
		switch {
		case w.force:
			// What was spent stays so; the caller posts it again.
		case w.err != nil && len(l.cancels) < maxCancels:
			l.cancels = append(l.cancels, w.cancellation()) // it may have been applied
		case w.left && w.err == nil && w.granted():
			l.settles = append(l.settles, w.cancellation())
		}
		close(w.done)
	}
}

// The statuses of reserve.lua's answer.
const (
	decided byte = iota
	repeated
	conflict
	tooLate
	fenced
)

// read reads the decision on w.
func (w *reserving) read(answer *reader, at int64) {
	w.at = at
	switch w.status = answer.byte(); w.status {
	case decided, repeated:
		w.states = make([]budget.LineState, len(w.parts))
		for i := range w.states {
			w.states[i] = answer.state(w.parts[i].rules.limit)
		}
	}
}

// granted reports whether the decision took anything.
func (w *reserving) granted() bool {
	if w.status != decided {
		return false
	}
	for i := range w.parts {
		if w.parts[i].enforced == 1 && w.states[i].Outcome != budget.Granted {
			return false
		}
	}
	return true
}

// cancellation settles w with nothing used; nobody waits for it.
func (w *reserving) cancellation() *settling {
	return &settling{id: w.id, body: usedBody(make([]int64, w.lines))}
}

// usedBody is a settlement's mode, count and numbers.
func usedBody(used []int64) []byte {
	return appendInts(append(make([]byte, 0, 2+8*len(used)), 0), used)
}

// appendInts is a count and so many numbers.
func appendInts(b []byte, list []int64) []byte {
	b = append(b, byte(len(list)))
	for _, n := range list {
		b = appendInt(b, min(max(n, 0), budget.MaxExact))
	}
	return b
}

// crashBody ends a reservation by its crash charge.
func crashBody() []byte { return []byte{1, 0} }

func recordKey(base, id string) string { return base + ":r:" + id }
