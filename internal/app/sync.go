package app

import (
	"context"
	"errors"
	"time"

	"llmgw/internal/tenant"
)

// Names of the shared maps, and how often they are looked at.
const (
	ratiosMap      = "ratios"
	ratiosField    = "learned"
	refreshEvery   = time.Second
	ratiosEvery    = 10 // refreshes
	driftEvery     = 3
	usedEvery      = 5
	refreshTimeout = 900 * time.Millisecond
)

// synchronize keeps what all gateways share up to date until ctx ends: blocks
// and the enforcement mode each second, learned ratios now and then. Nothing
// waits for it, and what fails is tried again.
func (a *App) synchronize(ctx context.Context) {
	tick := time.NewTicker(refreshEvery)
	defer tick.Stop()
	for n := 1; ; n++ {
		a.refresh(ctx, n)
		select {
		case <-ctx.Done():
			a.saveRatios(context.WithoutCancel(ctx))
			a.saveUsed(context.WithoutCancel(ctx))
			return
		case <-tick.C:
		}
	}
}

func (a *App) refresh(ctx context.Context, n int) {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	err := a.blocks.Refresh(ctx)
	if err != nil && !errors.Is(err, tenant.ErrUnreadable) {
		return // the store is away, which the limiter tells
	}
	a.tellUnreadable(err)
	a.storeSeen.Store(true)
	a.readSwitch(ctx)
	if n%usedEvery == 0 {
		a.saveUsed(ctx)
	}
	if n%driftEvery == 0 {
		a.lookForDrift()
	}
	if n%ratiosEvery == 0 {
		a.saveRatios(ctx)
	}
}

// lookForDrift counts the limits of this gateway's file for which the store, when it
// was last asked, had other amounts, of a newer file. It logs when that begins and ends.
func (a *App) lookForDrift() {
	drifted, n := a.limiter.Drifted(), int64(0)
	for _, l := range everyLimit(a.config.Load()) {
		if _, ok := drifted[l]; ok {
			n++
		}
	}
	switch before := a.drift.Swap(n); {
	case n > 0 && before == 0:
		a.log.Warn("the configuration of another gateway is newer: its amounts are in force", "limits", n, "config", a.options.ConfigFile)
	case n == 0 && before > 0:
		a.log.Info("the amounts in force are those of this configuration again")
	}
	a.metrics.LimitDrift(n)
}

// tellUnreadable logs each new state of blocks that cannot be read, nil if all can.
func (a *App) tellUnreadable(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != a.unreadable {
		a.log.Error("a block in the store is not in force", "error", text)
	}
	a.unreadable = text
}

// saveRatios merges what the others learned and writes what is known then.
func (a *App) saveRatios(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	a.restore(ctx)
	if err := a.backing.shared.Set(ctx, ratiosMap, ratiosField, string(a.estimator.Snapshot())); err != nil {
		a.log.Debug("learned ratios cannot be written", "error", err.Error())
	}
}

// restore takes in what all gateways have learned so far. From a store that is
// away it comes with a later refresh; what cannot be read, such as what a later
// version wrote, is done without.
func (a *App) restore(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	learned, err := a.backing.shared.Fields(ctx, ratiosMap)
	if err == nil && learned[ratiosField] != "" {
		err = a.estimator.Merge([]byte(learned[ratiosField]))
	}
	if err != nil {
		a.log.Debug("learned ratios cannot be read", "error", err.Error())
	}
}
