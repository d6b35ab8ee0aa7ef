package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// Records says where the books are kept: a record of each request, and totals.
type Records struct {
	Kind string // memory, sqlite or postgres
	// Chosen reports whether the file says where: what is only the default may be
	// memory instead, in a directory that cannot be written to.
	Chosen bool
	// Path is the SQLite file, URL where PostgreSQL is.
	Path, URL string
	Requests  string // which requests keep a record of their own: all, refused or none
	Keep      Keep
	Spool     Spool
}

// Keep is how long the books keep single requests and totals. Days are kept for ever.
type Keep struct {
	Requests, Minutes, Hours time.Duration
}

// Spool is what waits on disk for the database.
type Spool struct {
	Path     string // a directory
	MaxBytes int64
}

const day = 24 * time.Hour

// defaultRecords is where the books are if nothing is said.
func defaultRecords() Records {
	return Records{
		Kind: "sqlite", Path: "llmgw.db", Requests: "all",
		Keep:  Keep{Requests: 30 * day, Minutes: 14 * day, Hours: 400 * day},
		Spool: Spool{Path: "llmgw-spool", MaxBytes: 1 << 30},
	}
}

func (d *decoder) records(r *Records) func(*node) {
	return func(n *node) {
		keep := func(k *Keep) func(*node) {
			return func(n *node) {
				d.object(n, fields{
					"requests": set(d, &k.Requests, keepTime),
					"minutes":  set(d, &k.Minutes, keepTime),
					"hours":    set(d, &k.Hours, keepTime),
				})
			}
		}
		spool := func(s *Spool) func(*node) {
			return func(n *node) {
				d.object(n, fields{
					"path":      set(d, &s.Path, pathName),
					"max_bytes": set(d, &s.MaxBytes, size(1<<20, 1<<40)),
				})
			}
		}
		before := len(d.problems)
		d.object(n, fields{
			"kind":     set(d, &r.Kind, oneOf("memory", "sqlite", "postgres")),
			"path":     set(d, &r.Path, pathName),
			"url":      setSecret(d, &r.URL, databaseURL),
			"requests": set(d, &r.Requests, oneOf("all", "refused", "none")),
			"keep":     keep(&r.Keep),
			"spool":    spool(&r.Spool),
		})
		if len(d.problems) > before {
			return
		}
		r.Chosen = n.value("kind") != nil || n.value("path") != nil
		if r.Kind == "postgres" && r.URL == "" {
			d.fail(n.at("url"), "records of kind postgres need a url, such as postgres://llmgw@db.internal/llmgw")
		}
		if r.Kind != "postgres" && r.URL != "" {
			d.warn(n.at("url"), "the url is not used: the kind of the records is %s", r.Kind)
		}
	}
}

// beside makes r's paths absolute or relative to the working directory: in the
// file they are relative to its directory.
func (r *Records) beside(dir string) {
	for _, p := range []*string{&r.Path, &r.Spool.Path} {
		if !filepath.IsAbs(*p) {
			*p = filepath.Join(dir, *p)
		}
	}
}

// keepTime reads how long something is kept: days, or a duration of at least an hour.
func keepTime(s string) (time.Duration, error) {
	const most = 100 * 365 * day
	wrong := errors.New("is not a time such as 30d or 36h, from 1h to 36500d")
	if number, ok := strings.CutSuffix(s, "d"); ok {
		n, err := digits(number)
		if err != nil || n < 1 || n > int64(most/day) {
			return 0, wrong
		}
		return time.Duration(n) * day, nil
	}
	t, err := time.ParseDuration(s)
	if err != nil || t < time.Hour || t > most {
		return 0, wrong
	}
	return t, nil
}

// pathName reads the name of a file or a directory.
func pathName(s string) (string, error) {
	if s == "" || strings.ContainsRune(s, 0) {
		return "", errors.New("is not the path of a file")
	}
	return s, nil
}

// databaseURL reads where PostgreSQL is; empty is allowed, for a variable that is not set.
func databaseURL(s string) (string, error) {
	if s != "" && !strings.HasPrefix(s, "postgres://") && !strings.HasPrefix(s, "postgresql://") {
		return "", fmt.Errorf("does not begin with postgres:// or postgresql://")
	}
	return s, nil
}
