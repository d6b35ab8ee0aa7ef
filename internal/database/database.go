// Package database opens the database of the books and keeps its schema up to
// date: SQLite in a file, SQLite in memory, or PostgreSQL. It knows no table.
//
// A package that has tables writes them as migrations, in two files of one name:
//
//	migrations/sqlite/00007_keys.sql
//	migrations/postgres/00007_keys.sql
//
// The number is one above the last. A file that was released never changes; a
// new one adds to it. Each is one transaction of goose: "-- +goose Up" stands
// above its statements. A change must leave an older gateway working: add tables,
// and columns with a default; never rename or drop what a released version uses.
//
// Statements are written once for both: placeholders are $1, $2, …; times are
// BIGINT unix milliseconds, money is BIGINT micro-dollars, flags are INTEGER 0 or
// 1, lists and maps are TEXT in JSON. ON CONFLICT … DO UPDATE and RETURNING work
// in both. FOR UPDATE is PostgreSQL's alone: Database.ForUpdate returns it or
// nothing, since a transaction of SQLite has the only writer's lock from its
// beginning. The memory database has one connection: read a result to its end
// before the next statement, and use no other handle inside a transaction.
//
// database.go opens, migrate.go brings the schema up to date.
package database

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

// Kind is where the database lives.
type Kind string

// The kinds.
const (
	Memory   Kind = "memory" // SQLite in this process; it ends with it
	SQLite   Kind = "sqlite"
	Postgres Kind = "postgres"
)

// Config says which database to open.
type Config struct {
	Kind Kind   // "": Memory
	Path string // of the SQLite file
	URL  string // of PostgreSQL: postgres://… or key=value pairs
}

// Database is an open database. It is safe for concurrent use.
type Database struct {
	*sql.DB
	kind     Kind
	migrated atomic.Bool
}

// ErrNotMigrated says that the schema is not known to be up to date yet: the
// database did not answer since this process started.
var ErrNotMigrated = errors.New("the database has not been reached yet")

const (
	// busyTimeout is how long a statement of SQLite waits for another process.
	busyTimeout = 5 * time.Second
	connections = 8
	idleTime    = 5 * time.Minute
)

// Open returns a handle of the database that c names. It does not wait for
// PostgreSQL: a server that is away is no error here. The directory of an SQLite
// file must be writable, or the error says so. Close the Database.
func Open(c Config) (*Database, error) {
	var db *sql.DB
	var err error
	switch c.Kind {
	case Memory, "":
		c.Kind = Memory
		db, err = sql.Open("sqlite", "file:books?mode=memory&_txlock=immediate")
	case SQLite:
		if err := writable(c.Path); err != nil {
			return nil, err
		}
		db, err = sql.Open("sqlite", "file:"+(&url.URL{Path: c.Path}).EscapedPath()+"?_txlock=immediate&_pragma=busy_timeout("+
			fmt.Sprint(busyTimeout.Milliseconds())+")&_pragma=journal_mode(wal)&_pragma=synchronous(full)")
	case Postgres:
		config, wrong := pgx.ParseConfig(c.URL)
		if wrong != nil { // its text may show the password
			return nil, errors.New("open the database: records.url cannot be read: it is like postgres://user:password@host:5432/name")
		}
		db = stdlib.OpenDB(*config)
	default:
		return nil, fmt.Errorf("open the database: the kind %q is not memory, sqlite or postgres", c.Kind)
	}
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	if c.Kind == Memory { // each connection would be a database of its own
		db.SetMaxOpenConns(1)
	} else {
		db.SetConnMaxIdleTime(idleTime)
	}
	return &Database{DB: db, kind: c.Kind}, nil
}

// writable reports by its error whether a file at path can be made and written.
func writable(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return fmt.Errorf("open the database: records.path: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open the database: records.path cannot be written (name another path, or set records.kind to memory): %w", err)
	}
	return f.Close()
}

// Kind is where the database lives.
func (d *Database) Kind() Kind { return d.kind }

// ForUpdate is the end of a SELECT that locks its rows until the transaction ends.
func (d *Database) ForUpdate() string {
	if d.kind == Postgres {
		return " FOR UPDATE"
	}
	return ""
}

// Ready returns nil once the schema is up to date, ErrNotMigrated before.
func (d *Database) Ready() error {
	if !d.migrated.Load() {
		return ErrNotMigrated
	}
	return nil
}
