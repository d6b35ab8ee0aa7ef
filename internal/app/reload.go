package app

import (
	"context"
	"errors"
	"os"
	"time"

	"llmgw/internal/config"
	"llmgw/internal/proxy"
)

// watchEvery is how often the file is looked at for a change.
const watchEvery = 2 * time.Second

// watchConfig reloads when a signal asks for it or the file has changed, until
// ctx ends.
func (a *App) watchConfig(ctx context.Context) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	seen := a.fileState()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.options.Reload:
			seen = a.fileState()
			_ = a.Reload(ctx) // it was logged
		case <-tick.C:
			if now := a.fileState(); now != seen {
				seen = now
				_ = a.Reload(ctx) // it was logged
			}
		}
	}
}

// fileState tells one version of the file from another.
type fileState struct {
	modified time.Time
	size     int64
}

func (a *App) fileState() fileState {
	if a.options.ConfigFile == "" {
		return fileState{}
	}
	info, err := os.Stat(a.options.ConfigFile)
	if err != nil {
		return fileState{} // gone for a moment: a change when it is back
	}
	return fileState{info.ModTime(), info.Size()}
}

// errNoFile says that there is nothing to reload.
var errNoFile = errors.New("the embedded default is running: there is no file to reload")

// Reload puts the file's configuration in force, keeping the balances of limits
// that stay. A bad file is refused whole: the old configuration stays, and the
// log and a metric say so. What needs a restart (addresses, the store) is told
// and left.
func (a *App) Reload(context.Context) error {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	if a.options.ConfigFile == "" {
		return errNoFile
	}
	old := a.config.Load()
	c, err := config.Load(a.options.ConfigFile, os.LookupEnv)
	if err == nil {
		err = a.apply(old, c)
	}
	a.metrics.ConfigReloaded(err == nil)
	if err != nil {
		a.log.Error("the new configuration is refused, the old one stays", "error", err.Error())
		return err
	}
	a.log.Info("configuration reloaded", "config", a.options.ConfigFile)
	return nil
}

func (a *App) apply(old, c *config.Config) error {
	compiled, err := compile(c)
	if err != nil {
		return err
	}
	for _, w := range c.Warnings {
		a.log.Warn("configuration", "warning", w.String())
	}
	if old.Server.Listen != c.Server.Listen || old.Server.AdminListen != c.Server.AdminListen || old.Server.TLS != c.Server.TLS {
		a.log.Warn("addresses and certificates change with a restart only")
	}
	if !sameStore(old.Store, c.Store) {
		a.log.Warn("the store changes with a restart only")
	}
	if old.Telemetry != c.Telemetry {
		a.log.Warn("telemetry changes with a restart only")
	}
	if old.Server.AdminToken != c.Server.AdminToken {
		a.guardAdmin(c)
	}
	a.client.Reload(compiled.providers)
	a.gateway.Replace(compiled.rules)
	if old.Enforcement != c.Enforcement {
		a.gateway.SetEnforcement(proxy.Enforcement(c.Enforcement))
	}
	a.config.Store(c)
	return nil
}
