package database

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations
var migrations embed.FS

// The table that says which migrations the database has, and the advisory lock
// of PostgreSQL that one of several gateways holds while it migrates.
const (
	versionTable  = "llmgw_schema"
	migrationLock = 7_305_808_869_229_538
	lockPeriod    = 1   // seconds between two tries for the lock
	lockTries     = 120 // until another gateway's migration is taken for stuck
)

// Migrate brings the schema up to date. Of several processes that start together
// one does, and the others wait for it. A schema of a newer version stays as it
// is. It may be called again after an error.
func (d *Database) Migrate(ctx context.Context) error {
	if d.migrated.Load() {
		return nil
	}
	err := d.up(ctx)
	for tries := 0; err != nil && d.kind == SQLite && tries < 20; tries++ {
		select { // another process may have been in the middle of it
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
		err = d.up(ctx)
	}
	if err != nil {
		return fmt.Errorf("bring the database's schema up to date: %w", err)
	}
	d.migrated.Store(true)
	return nil
}

func (d *Database) up(ctx context.Context) error {
	dialect, dir := goose.DialectSQLite3, "migrations/sqlite"
	options := []goose.ProviderOption{
		goose.WithTableName(versionTable), goose.WithSlog(slog.New(slog.DiscardHandler)), goose.WithDisableGlobalRegistry(true),
		goose.WithAllowOutofOrder(true), // of two versions that were released side by side
	}
	if d.kind == Postgres {
		dialect, dir = goose.DialectPostgres, "migrations/postgres"
		locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(migrationLock), lock.WithLockTimeout(lockPeriod, lockTries))
		if err != nil {
			return err
		}
		options = append(options, goose.WithSessionLocker(locker))
	}
	files, err := fs.Sub(migrations, dir)
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(dialect, d.DB, files, options...)
	if err != nil {
		return err
	}
	_, err = provider.Up(ctx)
	return err
}
