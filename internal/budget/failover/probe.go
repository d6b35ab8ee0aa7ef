package failover

import (
	"context"
	"errors"
	"strconv"
	"time"

	"llmgw/internal/budget"
)

// probe asks a store that is down whether it is back, when it is time to. It
// returns 0 if it is, else how long to wait.
func (w *worker) probe() time.Duration {
	now := time.Now()
	if w.nextProbe.IsZero() {
		w.nextProbe = now.Add(w.fallen(now))
	}
	if wait := w.nextProbe.Sub(now); wait > 0 {
		return wait
	}
	if err := w.probeOnce(); err != nil {
		w.nextProbe = time.Now().Add(w.probeEvery)
		return w.probeEvery
	}
	w.nextProbe = time.Time{}
	w.rose = time.Now()
	down := w.breaker.rise()
	w.observer.StoreUp(true)
	w.log.Info("the limit store answers again", "after", down.String())
	return 0
}

// fallen sets the time between probes when the store has just gone down: one
// that falls soon after it rose is asked less often.
func (w *worker) fallen(now time.Time) time.Duration {
	if now.Sub(w.rose) < 10*w.probeEvery {
		w.probeEvery = min(2*w.probeEvery, 10*w.cfg.Probe)
	} else {
		w.probeEvery = w.cfg.Probe
	}
	return w.probeEvery
}

// probeLimit is what a probe reserves nothing of.
var probeLimit = &budget.Limit{
	Place: "gateway", Scope: budget.Gateway, Name: "~probe", Unit: budget.Requests,
	Amount: 1, Period: budget.Minute, Burst: 1, Bank: 4, MaxDebt: 10,
	Algorithm: budget.TokenBucket, Location: time.UTC, Mode: budget.Shadow, Tag: "gateway", Version: 1,
}

// probeOnce makes and ends a reservation of nothing: a store that refuses
// writes, or runs no scripts, is not back.
func (w *worker) probeOnce() error {
	e := w.keeper.Epoch()
	r := budget.Request{
		ID: w.probeID + strconv.Itoa(w.probes), Epoch: e, CrashCharge: budget.ChargeNone,
		Lines: []budget.Line{{Limit: probeLimit}},
	}
	if now := w.keeper.Now(); !now.IsZero() {
		r.NotAfter = now.Add(w.cfg.Timeout + w.cfg.Slack)
	}
	ctx, cancel := w.deadline(w.ctx, time.Now().Add(w.cfg.Timeout))
	defer cancel()
	start := time.Now()
	_, err := w.store.Reserve(ctx, r)
	w.observer.StoreCall("probe", time.Since(start), err)
	if errors.Is(err, budget.ErrFenced) {
		w.keeper.Renew(e)
	}
	if !answer(err) {
		w.probeEnds = time.Now().Add(w.cfg.Timeout + 2*w.cfg.Slack)
		return err
	}
	return w.settleProbe(ctx)
}

// settleProbe ends the present probe. Until that has come through the next ones
// have the same id, so that however many are lost, one record lies there.
func (w *worker) settleProbe(ctx context.Context) error {
	_, err := w.store.Settle(ctx, []budget.Settlement{{
		ID: w.probeID + strconv.Itoa(w.probes), Epoch: w.keeper.Epoch(),
		Lines: []budget.Line{{Limit: probeLimit}}, Used: []int64{0},
	}})
	if !answer(err) {
		w.probeEnds = time.Now().Add(w.cfg.Timeout + 2*w.cfg.Slack)
		return err
	}
	w.probes++
	w.probeEnds = time.Time{}
	return nil
}

// endProbe cancels a probe that was never answered, when it is time to, and
// returns when to come again.
func (w *worker) endProbe() time.Duration {
	if w.probeEnds.IsZero() {
		return idle
	}
	if wait := time.Until(w.probeEnds); wait > 0 {
		return wait
	}
	ctx, cancel := w.background()
	defer cancel()
	if err := w.settleProbe(ctx); err != nil {
		return retryAfter
	}
	return idle
}
