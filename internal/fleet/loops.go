package fleet

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"llmgw/internal/budget"
)

// beat says that this process lives, every Heartbeat and when asked to.
func (k *Keeper) beat() {
	tick := time.NewTicker(k.cfg.Heartbeat)
	defer tick.Stop()
	for {
		k.heartbeat()
		select {
		case <-k.ctx.Done():
			return
		case <-tick.C:
		case <-k.beats:
		}
	}
}

// heartbeat beats once, and learns what the answer tells. An error is nobody's
// business here: the Limiter says when the store is away.
func (k *Keeper) heartbeat() {
	e := k.Epoch()
	var b budget.Beat
	sent := time.Now()
	err := k.bounded("heartbeat", func(ctx context.Context) (err error) {
		b, err = k.cfg.Store.Heartbeat(ctx, e)
		return err
	})
	if b.Fenced || errors.Is(err, budget.ErrFenced) {
		k.Renew(e)
	}
	if err != nil {
		k.steady.Store(0)
		return
	}
	k.steady.CompareAndSwap(0, k.clock.elapsed())
	k.Observe(b.At, sent, time.Now())
	k.fleet.see(max(1, b.Live), k.cfg.ReclaimAfter)
}

// fleet is the number of live gateways.
type fleet struct {
	live atomic.Int64

	mu    sync.Mutex
	seen  time.Time // when live was last told
	fewer int       // the most that was told since
}

// see takes a number that the store has told.
func (f *fleet) see(n int, patience time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	switch {
	case n >= int(f.live.Load()):
	case now.Sub(f.seen) < patience:
		f.fewer = max(f.fewer, n)
		return
	default:
		n = max(n, f.fewer)
	}
	f.live.Store(int64(n))
	f.seen, f.fewer = now, 0
}

// reclaim ends what silent epochs left, this process's predecessor included.
// Every gateway does it, each at its own times: whoever comes first does the
// work, and the others find none.
//
// After the store was away, or its clock stepped, every gateway looks silent to
// it until it has beaten again. So a gateway reclaims only once its own beats
// have been answered for as long as any living one needs for that.
func (k *Keeper) reclaim() {
	for k.ctx.Err() == nil {
		k.pause(k.cfg.ReclaimAfter / 4)
		k.heartbeat()
		if since := k.steady.Load(); since != 0 && k.clock.elapsed()-since >= int64(k.settling()) {
			k.sweep()
		}
	}
}

// settling is the time in which every living gateway has beaten: one call that
// was under way, the next, and one to spare.
func (k *Keeper) settling() time.Duration { return k.cfg.Timeout + 2*k.cfg.Heartbeat }

// sweep reclaims batch by batch until nothing is left to reclaim.
func (k *Keeper) sweep() {
	for k.ctx.Err() == nil {
		var r budget.Reclaimed
		err := k.bounded("reclaim", func(ctx context.Context) (err error) {
			r, err = k.cfg.Store.Reclaim(ctx, k.cfg.ReclaimAfter, k.cfg.ReclaimBatch)
			return err
		})
		if len(r.Ended) > 0 && k.cfg.Book != nil { // also what was ended before an error
			k.cfg.Book(r.Ended)
		}
		if err != nil {
			return
		}
		if r.Epochs > 0 || r.Records > 0 {
			k.cfg.Observer.Reservations("reclaimed", r.Records)
			k.cfg.Logger.Warn("reclaimed what silent gateways left open", "epochs", r.Epochs, "reservations", r.Records)
		}
		if !r.More {
			return
		}
	}
}

// compare ends the reservations that the store has of this epoch and this
// process does not know: what a lost answer or a full queue has orphaned.
func (k *Keeper) compare() {
	for {
		k.pause(k.cfg.AntiEntropy)
		if k.ctx.Err() != nil {
			return
		}
		k.settleStrangers()
	}
}

// settleStrangers is one comparison. What the store lists is looked up here
// only after it has answered, so a reservation made or ended meanwhile is at
// worst ended twice, which has no effect.
func (k *Keeper) settleStrangers() {
	e := k.Epoch()
	var ages map[string]time.Duration
	err := k.bounded("open_ids", func(ctx context.Context) (err error) {
		ages, err = k.cfg.Store.OpenIDs(ctx, e)
		return err
	})
	if err != nil {
		return
	}
	k.open.Strangers(ages)
	var strangers []budget.Settlement
	for id, age := range ages {
		if age >= k.cfg.Grace {
			strangers = append(strangers, budget.Settlement{ID: id, Epoch: e})
		}
	}
	for len(strangers) > 0 {
		n := min(len(strangers), k.cfg.ReclaimBatch)
		if !k.endStrangers(strangers[:n]) {
			return
		}
		strangers = strangers[n:]
	}
}

// endStrangers ends a batch of reservations and reports whether the store did.
func (k *Keeper) endStrangers(batch []budget.Settlement) bool {
	var settled []budget.Settled
	err := k.bounded("settle", func(ctx context.Context) (err error) {
		settled, err = k.cfg.Store.Settle(ctx, batch)
		return err
	})
	if err != nil {
		return false
	}
	n := 0
	for _, s := range settled {
		if s.Known {
			n++
		}
	}
	if n > 0 {
		k.cfg.Observer.Reservations("reclaimed", n)
		k.cfg.Logger.Warn("ended reservations that this gateway had lost sight of", "reservations", n)
	}
	return true
}

// bounded is call with a context that ends with the loops or after Timeout.
func (k *Keeper) bounded(op string, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(k.ctx, k.cfg.Timeout)
	defer cancel()
	return k.call(op, func() error { return do(ctx) })
}

// pause waits for d, give or take half, or until the loops end: gateways that
// were started together do not stay together.
func (k *Keeper) pause(d time.Duration) {
	t := time.NewTimer(d/2 + rand.N(d+1))
	defer t.Stop()
	select {
	case <-k.ctx.Done():
	case <-t.C:
	}
}
