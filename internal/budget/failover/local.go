package failover

import (
	"context"
	"time"

	"llmgw/internal/budget"
)

// closedWait is when a request that only the store could grant may try again:
// nobody knows, but not at once.
const closedWait = time.Second

// decide answers r without the store, in three steps: the policies, the slots,
// and the shares' counters. It does not block.
func (l *Limiter) decide(r budget.Request) (*budget.Reservation, budget.Verdict) {
	d := decision{
		l: l, s: l.currentOutage(), r: &r,
		v: budget.Verdict{At: l.now(), Degraded: true, Lines: make([]budget.LineState, len(r.Lines))},
	}
	d.byPolicy()
	d.conclude()
	d.bySlots()
	d.byShares()
	if d.conclude(); d.v.Outcome != budget.Granted {
		d.giveBack()
		return nil, d.v
	}
	rec := &record{outage: d.s, posted: unknown, charged: d.charged()}
	rec.mine = append(rec.holding[:0], d.slots...)
	held := l.enter(rec, &r, false)
	if l.Up() {
		l.nudge() // one call failed, but the store is there to be told
	}
	return held, d.v
}

// decision is one request being decided without the store.
type decision struct {
	l *Limiter
	s *outage
	r *budget.Request
	v budget.Verdict

	shares []budget.Line // the lines to ask of the shares' store …
	index  []int         // … and where they stand in the request
	slots  []int64       // of each line, the slots that were taken
}

// conclude puts the lines' answers so far together.
func (d *decision) conclude() {
	d.v.Outcome, d.v.Binding, d.v.Wait = budget.Decide(d.r, d.v.Lines)
}

// byPolicy answers for Open and Closed limits and lists what the shares must be asked.
func (d *decision) byPolicy() {
	now := time.Now()
	for i, line := range d.r.Lines {
		last, seen := d.l.counters.level(line, now)
		limit, state := line.Limit.InForce(last), &d.v.Lines[i]
		state.Remaining, state.Capacity = last.Remaining, limit.Capacity()
		state.Amount, state.Burst = limit.Amount, limit.Capacity()
		if !seen {
			state.Remaining = state.Capacity
		}
		switch {
		case line.Limit.WhenStoreDown == budget.Closed:
			state.Outcome, state.Remaining, state.Wait, state.Reset = budget.Unavailable, 0, closedWait, closedWait
		case hasShare(line.Limit) && line.Limit.Unit != budget.Concurrency:
			d.shares = append(d.shares, d.s.line(line, last, seen))
			d.index = append(d.index, i)
		}
	}
}

// bySlots takes the slots, of Local limits up to the share. Of a request that is
// refused already it only looks, so that every line tells what this gateway
// would grant.
func (d *decision) bySlots() {
	ask := d.l.counters.take
	if d.v.Outcome != budget.Granted {
		ask = d.l.counters.look
	}
	d.slots = make([]int64, len(d.r.Lines))
	for i, line := range d.r.Lines {
		if line.Limit.Unit != budget.Concurrency || d.v.Lines[i].Outcome != budget.Granted {
			continue
		}
		most := int64(budget.MaxExact)
		if hasShare(line.Limit) {
			d.v.Lines[i].Capacity = d.s.share(line.Limit, d.v.Lines[i]).Amount
		}
		if hasShare(line.Limit) && !d.r.Force {
			most = d.v.Lines[i].Capacity
		}
		ok, left := ask(line, most)
		d.v.Lines[i].Remaining = min(left, d.v.Lines[i].Capacity)
		if !ok {
			d.v.Lines[i].Outcome = budget.NoSlot
			continue
		}
		if d.v.Outcome == budget.Granted {
			d.slots[i] = line.Amount
		}
	}
}

// giveBack frees the slots of a request that the shares refused.
func (d *decision) giveBack() {
	for i, n := range d.slots {
		if n > 0 {
			d.l.counters.release(d.r.Lines[i], n)
			d.v.Lines[i].Remaining = min(d.v.Lines[i].Remaining+n, d.v.Lines[i].Capacity)
		}
	}
}

// byShares asks the shares for the rest. Of a request that is refused already it
// only looks: a rate that is short is named before a slot.
func (d *decision) byShares() {
	if len(d.shares) == 0 {
		return
	}
	ctx := context.Background() // the store is in memory
	var states []budget.LineState
	var err error
	if d.conclude(); d.v.Outcome != budget.Granted {
		states, _, err = d.s.store.Read(ctx, d.shares)
	} else {
		var v budget.Verdict
		v, err = d.s.store.Reserve(ctx, budget.Request{
			ID: d.r.ID, Epoch: localEpoch, Lines: d.shares, Shadow: d.r.Shadow, Force: d.r.Force,
		})
		states = v.Lines
	}
	for j, i := range d.index {
		state := &d.v.Lines[i]
		if err != nil || len(states) != len(d.index) {
			state.Outcome, state.Wait = budget.Unavailable, closedWait
			continue
		}
		amount, burst := state.Amount, state.Burst
		*state = states[j]
		state.Amount, state.Burst = amount, burst
		if state.Outcome == budget.NeverFits && d.r.Lines[i].Amount <= burst {
			// Too much for a share, but not for the limit: only the store can grant it.
			state.Outcome, state.Wait = budget.Unavailable, closedWait
		}
	}
}

// now is the store's time, or this machine's if the store never told.
func (l *Limiter) now() time.Time {
	if t := l.keeper.Now(); !t.IsZero() {
		return t
	}
	return time.Now()
}

// charged is a mask of the lines that the granted request is charged.
func (d *decision) charged() uint64 {
	if d.r.Force {
		return full(len(d.v.Lines))
	}
	return charged(d.v.Lines)
}

// charged is a mask of the lines that were granted.
func charged(states []budget.LineState) uint64 {
	mask := full(len(states))
	for i := range states {
		if states[i].Outcome != budget.Granted {
			mask &^= bit(i)
		}
	}
	return mask
}
