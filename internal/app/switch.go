package app

import (
	"context"

	"llmgw/internal/books"
	"llmgw/internal/proxy"
)

// Where the store keeps the main switch.
const (
	modeMap   = "enforcement"
	modeField = "mode"
)

// enforcement is the main switch, for all gateways of the store. The last word
// counts, of an operator or of a file that changed; with Redis it outlives a
// restart. While the store is away a word holds for this gateway alone, and is
// told to the store when it is back.
type enforcement struct{ app *App }

func (e enforcement) Mode(context.Context) (string, error) {
	return string(e.app.gateway.Enforcement()), nil
}

func (e enforcement) SetMode(ctx context.Context, mode string) error {
	e.app.turnSwitch(ctx, proxy.Enforcement(mode), "the admin plane")
	return nil
}

// turnSwitch puts mode in force, at once here and for all gateways as soon as
// the store can be told.
func (a *App) turnSwitch(ctx context.Context, mode proxy.Enforcement, by string) {
	a.enforce(mode, by)
	a.books.Note(books.Event{Kind: "switch", Actor: by, Detail: string(mode)})
	a.untold.Store(&mode)
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	if err := a.tellSwitch(ctx); err != nil {
		a.log.Warn("the main switch is turned here alone until the store is back", "error", err.Error())
	}
}

// tellSwitch tells the store what it was not told yet.
func (a *App) tellSwitch(ctx context.Context) error {
	mode := a.untold.Load()
	if mode == nil {
		return nil
	}
	if err := a.backing.shared.Set(ctx, modeMap, modeField, string(*mode)); err != nil {
		return err
	}
	a.untold.CompareAndSwap(mode, nil) // unless it was turned again meanwhile
	return nil
}

// readSwitch takes over what any gateway's operator or file said last. A store
// that is away, was never told, or was told what is no mode here changes nothing.
func (a *App) readSwitch(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	if a.tellSwitch(ctx) != nil {
		return // the store is away, and this gateway's word is newer
	}
	fields, err := a.backing.shared.Fields(ctx, modeMap)
	if err != nil || a.untold.Load() != nil {
		return
	}
	switch mode := proxy.Enforcement(fields[modeField]); mode {
	case proxy.Enforce, proxy.Shadow, proxy.Off:
		a.enforce(mode, "the store")
	}
}

// enforce turns the switch and says so if that changes it.
func (a *App) enforce(mode proxy.Enforcement, by string) {
	if before := a.gateway.Enforcement(); before != mode {
		a.gateway.SetEnforcement(mode)
		a.log.Warn("the main switch of all limits was turned", "from", string(before), "to", string(mode), "by", by)
	}
}
