package app

import (
	"context"
	"errors"
	"os"
	"reflect"
	"slices"
	"time"

	"llmgw/internal/books"
	"llmgw/internal/config"
	"llmgw/internal/proxy"
)

// watchEvery is how often the file is looked at for a change.
const watchEvery = 2 * time.Second

// watchConfig reloads when a signal asks for it or a file has changed, until
// ctx ends.
func (a *App) watchConfig(ctx context.Context) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.options.Reload:
			_ = a.Reload(ctx) // it was logged
		case <-tick.C:
			if a.filesChanged() {
				_ = a.Reload(ctx) // it was logged
			}
		}
	}
}

// filesChanged tells whether one of the configuration's files is no longer what
// the last load, also one that was refused, has seen.
func (a *App) filesChanged() bool {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	return !slices.Equal(a.files, statAll(a.files))
}

// statAll is the state of files now.
func statAll(files []config.File) []config.File {
	now := make([]config.File, len(files))
	for i, f := range files {
		now[i] = config.Stat(f.Path)
	}
	return now
}

// errNoFile says that there is nothing to reload.
var errNoFile = errors.New("the embedded default is running: there is no file to reload")

// Reload puts the file's configuration in force, keeping the balances of limits
// that stay. A bad file is refused whole: the old configuration stays, and the
// log and a metric say so. What needs a restart (addresses, the store) is told
// and left.
func (a *App) Reload(ctx context.Context) error {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	if a.options.ConfigFile == "" {
		return errNoFile
	}
	old := a.file.Load()
	c, files, err := config.LoadAfter(a.options.ConfigFile, os.LookupEnv, old.Version)
	a.files = files // as they were before they were read: a later change is one
	if err == nil {
		err = a.apply(ctx, old, c)
	}
	a.metrics.ConfigReloaded(err == nil)
	if err != nil {
		a.log.Error("the new configuration is refused, the old one stays", "error", err.Error())
		return err
	}
	a.books.Note(books.Event{Kind: "reload", Subject: a.options.ConfigFile})
	a.log.Info("configuration reloaded", "config", a.options.ConfigFile)
	return nil
}

func (a *App) apply(ctx context.Context, old, c *config.Config) error {
	providers, inForce := providersOf(c), a.inForce(c)
	compiled, err := a.compile(inForce, providers)
	if err != nil {
		return err
	}
	data, err := loadCertificate(c.Server.TLS)
	if err != nil {
		return err
	}
	operators, err := loadCertificate(c.Server.AdminTLS)
	if err != nil {
		return err
	}
	for _, w := range c.Warnings {
		a.log.Warn("configuration", "warning", w.String())
	}
	same := a.servers.data.renew(data)
	same = a.servers.admin.renew(operators) && same
	if old.Server.Listen != c.Server.Listen || old.Server.AdminListen != c.Server.AdminListen || old.Server.Socket != c.Server.Socket || !same {
		a.log.Warn("addresses, and whether there is TLS, change with a restart only")
	}
	if !sameStore(old.Store, c.Store) {
		a.log.Warn("the store changes with a restart only")
	}
	if old.Records != c.Records {
		a.log.Warn("records change with a restart only")
	}
	if old.Telemetry != c.Telemetry {
		a.log.Warn("telemetry changes with a restart only")
	}
	if !reflect.DeepEqual(accountsOf(old), accountsOf(c)) || !slices.Equal(old.Server.AdminHosts, c.Server.AdminHosts) {
		a.guardAdmin(c)
	}
	a.client.Reload(compiled.providers)
	a.gateway.Replace(compiled.rules)
	a.beginAtZero(c)
	if old.Enforcement != c.Enforcement {
		a.turnSwitch(ctx, proxy.Enforcement(c.Enforcement), "the configuration")
	}
	a.providers = providers
	a.file.Store(c)
	a.config.Store(inForce)
	return nil
}
