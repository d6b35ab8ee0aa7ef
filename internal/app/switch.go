package app

import (
	"context"

	"llmgw/internal/config"
	"llmgw/internal/proxy"
)

// Where the store keeps the main switch.
const (
	modeMap   = "enforcement"
	modeField = "mode"
)

// enforcement is the main switch, for all gateways of the store. The last word
// counts, of an operator or of a file that changed; with Redis it outlives a
// restart.
type enforcement struct{ app *App }

func (e enforcement) Mode(context.Context) (string, error) {
	return string(e.app.gateway.Enforcement()), nil
}

func (e enforcement) SetMode(ctx context.Context, mode string) error {
	if err := e.app.backing.shared.Set(ctx, modeMap, modeField, mode); err != nil {
		return err
	}
	e.app.enforce(proxy.Enforcement(mode), "the admin plane")
	return nil
}

// turnSwitch puts in force what a changed file says, for all gateways if the
// store can be told.
func (a *App) turnSwitch(ctx context.Context, mode config.Enforcement) {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	if err := a.backing.shared.Set(ctx, modeMap, modeField, string(mode)); err != nil {
		a.log.Warn("the main switch cannot be told to the store: an earlier word may come back with it", "error", err.Error())
	}
	a.enforce(proxy.Enforcement(mode), "the configuration")
}

// readSwitch takes over what any gateway's operator or file said last. A store
// that is away, or was never told, changes nothing.
func (a *App) readSwitch(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	if mode, err := a.backing.shared.Fields(ctx, modeMap); err == nil && mode[modeField] != "" {
		a.enforce(proxy.Enforcement(mode[modeField]), "the store")
	}
}

// enforce turns the switch and says so if that changes it.
func (a *App) enforce(mode proxy.Enforcement, by string) {
	if before := a.gateway.Enforcement(); before != mode {
		a.gateway.SetEnforcement(mode)
		a.log.Warn("the main switch of all limits was turned", "from", string(before), "to", string(mode), "by", by)
	}
}
