package changes_test

import (
	"path/filepath"
	"testing"

	"llmgw/internal/changes"
	"llmgw/internal/changes/changestest"
	"llmgw/internal/database"
	"llmgw/internal/pgtest"
)

// logOf returns logs over an empty database of its own for each test.
func logOf(config func(t *testing.T) database.Config) func(t *testing.T) changestest.Log {
	return func(t *testing.T) changestest.Log {
		db, err := database.Open(config(t))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		log := changes.NewSQL(db)
		if _, err := log.From(t.Context(), 0); err == nil {
			t.Error("a database without its tables is read")
		}
		if err := db.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		return log
	}
}

func TestTheDatabaseKeepsTheContract(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		changestest.Run(t, logOf(func(t *testing.T) database.Config {
			return database.Config{Kind: database.SQLite, Path: filepath.Join(t.TempDir(), "changes.db")}
		}))
	})
	t.Run("memory", func(t *testing.T) {
		changestest.Run(t, logOf(func(*testing.T) database.Config { return database.Config{Kind: database.Memory} }))
	})
	t.Run("postgres", func(t *testing.T) {
		server := pgtest.Start(t)
		n := 0
		changestest.Run(t, logOf(func(t *testing.T) database.Config {
			n++
			return database.Config{Kind: database.Postgres, URL: server.Database(t, string(rune('a'+n)))}
		}))
	})
}
