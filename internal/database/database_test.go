package database_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"llmgw/internal/database"
	"llmgw/internal/pgtest"
)

// kinds are an empty database of each kind; a function opens it again.
func kinds(t *testing.T) map[database.Kind]database.Config {
	t.Helper()
	all := map[database.Kind]database.Config{
		database.Memory: {Kind: database.Memory},
		database.SQLite: {Kind: database.SQLite, Path: filepath.Join(t.TempDir(), "a b?#%.db")},
	}
	if !testing.Short() { // a server of its own
		all[database.Postgres] = database.Config{Kind: database.Postgres, URL: pgtest.Start(t).Database(t, "books")}
	}
	return all
}

func open(t *testing.T, c database.Config) *database.Database {
	t.Helper()
	db, err := database.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestSeveralThatStartTogetherMigrateOnce(t *testing.T) {
	for kind, c := range kinds(t) {
		if kind == database.Memory {
			continue // it is one process's own
		}
		t.Run(string(kind), func(t *testing.T) {
			var together sync.WaitGroup
			for range 5 {
				db := open(t, c)
				together.Go(func() {
					if err := db.Migrate(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			together.Wait()
			if t.Failed() {
				return
			}
			var versions, different int
			row := open(t, c).QueryRow("SELECT count(*), count(DISTINCT version_id) FROM llmgw_schema")
			if err := row.Scan(&versions, &different); err != nil || versions != different || versions < 2 {
				t.Errorf("got %d rows of %d versions and %v, want each version once", versions, different, err)
			}
		})
	}
}

func TestAnOlderGatewayWorksBesideANewerSchema(t *testing.T) {
	for kind, c := range kinds(t) {
		t.Run(string(kind), func(t *testing.T) {
			db := open(t, c)
			if err := db.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, statement := range []string{
				"INSERT INTO llmgw_schema (version_id, is_applied) VALUES (99999, " + map[bool]string{true: "TRUE", false: "1"}[kind == database.Postgres] + ")",
				"ALTER TABLE requests ADD COLUMN of_a_later_version TEXT NOT NULL DEFAULT 'x'",
				"CREATE TABLE of_a_later_version (a TEXT)",
			} {
				if _, err := db.Exec(statement); err != nil {
					t.Fatal(err)
				}
			}
			older := db
			if kind != database.Memory {
				older = open(t, c)
			}
			if err := older.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := older.Exec("INSERT INTO requests (id, at) VALUES ($1, $2)", "req_1", 1); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestOneStatementServesBothDialects(t *testing.T) {
	for kind, c := range kinds(t) {
		t.Run(string(kind), func(t *testing.T) {
			db := open(t, c)
			if err := db.Ready(); err == nil {
				t.Error("an empty database is ready, want ErrNotMigrated")
			}
			if err := db.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			tx, err := db.BeginTx(context.Background(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback() }()
			for range 2 {
				if _, err := tx.Exec("INSERT INTO writers (instance, posted, at) VALUES ($1, $2, $2) "+
					"ON CONFLICT (instance) DO UPDATE SET posted = writers.posted + excluded.posted", "a", 3); err != nil {
					t.Fatal(err)
				}
			}
			var posted int
			if err := tx.QueryRow("SELECT posted FROM writers WHERE instance = $1"+db.ForUpdate(), "a").Scan(&posted); err != nil || posted != 6 {
				t.Errorf("got %d and %v, want 6", posted, err)
			}
			if err := tx.Commit(); err != nil || db.Ready() != nil {
				t.Errorf("commit: %v, ready: %v", err, db.Ready())
			}
		})
	}
}

func TestADirectoryThatCannotBeWrittenIsSaid(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := database.Open(database.Config{Kind: database.SQLite, Path: filepath.Join(file, "below.db")})
	if err == nil || !strings.Contains(err.Error(), "records.path") {
		t.Errorf("got %v, want an error that names records.path", err)
	}
}

func TestNoErrorShowsThePassword(t *testing.T) {
	_, err := database.Open(database.Config{Kind: database.Postgres, URL: "postgres://u:hush@h:port/x"})
	if err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("got %v, want an error without the password", err)
	}
}
