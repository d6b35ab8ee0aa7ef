package app

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"sync"
	"time"

	"llmgw/internal/books"
	"llmgw/internal/config"
	"llmgw/internal/database"
)

// migrateAgain is how long a database that was away is not asked again.
const migrateAgain = time.Second

// makeDatabase opens the database of the books and brings its schema up to date.
// A PostgreSQL that is away holds no start up: it is tried again until it answers.
func (a *App) makeDatabase(ctx context.Context, c *config.Config) error {
	db, err := database.Open(database.Config{Kind: database.Kind(c.Records.Kind), Path: c.Records.Path, URL: c.Records.URL})
	if err != nil && !c.Records.Chosen {
		a.log.Warn("the books are kept in memory and end with this process", "error", err.Error())
		db, err = database.Open(database.Config{Kind: database.Memory})
	}
	if err != nil {
		return err
	}
	a.database = db
	var migrating sync.WaitGroup
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	a.onClose(func(context.Context) error {
		stop()
		migrating.Wait()
		_ = db.Close() // what was committed is kept
		return nil
	})
	if db.Kind() != database.Postgres {
		return db.Migrate(ctx)
	}
	migrating.Go(func() { a.migrate(background) })
	return nil
}

// makeBooks starts the books. In memory they have no spool: it could hold no more
// than they do.
func (a *App) makeBooks(c *config.Config) error {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	spool := c.Records.Spool.Path
	if a.database.Kind() == database.Memory {
		spool = ""
	}
	b, err := books.New(books.Config{
		Database: a.database, Instance: hex.EncodeToString(random[:]), Requests: books.Requests(c.Records.Requests),
		Keep: books.Keep(c.Records.Keep), Spool: spool, MaxSpool: c.Records.Spool.MaxBytes,
		Logger: a.log, Dropped: a.metrics.RecordsDropped,
	})
	a.books = b
	return err
}

// partial reports whether other gateways may keep books of the same limits.
func (a *App) partial() bool { return a.config.Load().PiecesOfBooks() }

// migrate tries until the schema is up to date or ctx ends. It logs the first failure.
func (a *App) migrate(ctx context.Context) {
	for tries := 0; ; tries++ {
		err := a.database.Migrate(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		if tries == 0 {
			a.log.Error("the database of the books cannot be used yet", "error", err.Error())
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(migrateAgain):
		}
	}
}
