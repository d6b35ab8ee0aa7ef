package books

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Event is something that happened to limits.
type Event struct {
	ID      string    `json:"id"`
	Time    time.Time `json:"time"`
	Kind    string    `json:"kind"`
	Team    string    `json:"team"`
	Subject string    `json:"subject"` // what it happened to, such as the limit team/search/tpm
	Actor   string    `json:"actor"`   // who did it; empty: nobody
	Count   int64     `json:"count"`   // how often, in the minute that begins at Time
	Detail  string    `json:"detail"`
}

// KindRefusal is the kind of refusals, which are grouped by minute and limit.
const KindRefusal = "refusal"

// Note takes an event. It does not block.
func (b *Books) Note(e Event) {
	if e.Time.IsZero() {
		e.Time = b.config.Now()
	}
	if e.ID == "" {
		var random [12]byte
		_, _ = rand.Read(random[:]) // never fails
		e.ID = "evt_" + hex.EncodeToString(random[:])
	}
	e.Count = max(e.Count, 1)
	for _, s := range []*string{&e.Kind, &e.Team, &e.Subject, &e.Actor, &e.Detail} {
		*s = cleanText(*s)
	}
	b.mu.Lock()
	if len(b.events) < maxPending {
		b.events = append(b.events, e)
	}
	b.mu.Unlock()
	signal(b.wake)
}

// writeEvents moves events into the spool. What has no room waits. b.writing is held.
func (b *Books) writeEvents() {
	b.mu.Lock()
	events := b.events
	b.events = nil
	b.mu.Unlock()
	for i := range events {
		if b.spool.append([]item{{Seq: b.seq + 1, Event: &events[i]}}, true) != nil {
			b.mu.Lock()
			b.events = append(events[i:], b.events...)
			b.mu.Unlock()
			return
		}
		b.seq++
	}
}

func insertEvent(ctx context.Context, tx *sql.Tx, e *Event) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO events (id, at, kind, team, subject, actor, count, detail) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (id) DO NOTHING",
		e.ID, e.Time.UnixMilli(), e.Kind, e.Team, e.Subject, e.Actor, e.Count, e.Detail)
	return err
}

// FindEvents asks for events. Empty fields ask for all.
type FindEvents struct {
	Teams    []string // nil: all
	Kind     string
	Subject  string
	From, To time.Time
	Limit    int // 1 to 1000
	Cursor   string
}

// Events returns what happened, newest first, and the cursor of the next page; it
// is empty on the last one. Refusals are rows of totals, one for each minute, team
// and limit.
func (b *Books) Events(ctx context.Context, f FindEvents) ([]Event, string, error) {
	if err := b.Flush(ctx); err != nil {
		return nil, "", err
	}
	const refusals = "SELECT 'refusal:' || team || ':' || value AS id, at, 'refusal' AS kind, team, value AS subject, '' AS actor, " +
		"CAST(sum(requests) AS BIGINT) AS count, '' AS detail FROM totals_minutes WHERE facet = 'limit' GROUP BY at, team, value"
	const noted = "SELECT id, at, kind, team, subject, actor, count, detail FROM events"
	var found []Event
	for _, from := range []string{refusals, noted} {
		statement, args, err := f.sql(from)
		if err != nil {
			return nil, "", err
		}
		rows, err := b.db.QueryContext(ctx, statement, args...)
		if err != nil {
			return nil, "", fmt.Errorf("read events: %w", err)
		}
		if found, err = scanEvents(rows, found); err != nil {
			return nil, "", fmt.Errorf("read events: %w", err)
		}
	}
	slices.SortFunc(found, func(x, y Event) int {
		if c := y.Time.Compare(x.Time); c != 0 {
			return c
		}
		return strings.Compare(y.ID, x.ID)
	})
	if len(found) <= f.Limit {
		return found, "", nil
	}
	last := found[f.Limit-1]
	return found[:f.Limit], cursor(last.Time.UnixMilli(), last.ID), nil
}

// sql is the statement for one event more than f's limit.
func (f *FindEvents) sql(from string) (string, []any, error) {
	c := conditions{}
	if f.Kind != "" {
		c.put("kind = ?", f.Kind)
	}
	if f.Subject != "" {
		c.put("subject = ?", f.Subject)
	}
	c.in("team", f.Teams)
	c.between(f.From, f.To)
	if err := c.after(f.Cursor); err != nil {
		return "", nil, err
	}
	return c.statement("SELECT id, at, kind, team, subject, actor, count, detail FROM ("+from+") e", f.Limit), c.args, nil
}

func scanEvents(rows *sql.Rows, found []Event) ([]Event, error) {
	defer func() { _ = rows.Close() }() // Err says all
	for rows.Next() {
		var e Event
		var at int64
		if err := rows.Scan(&e.ID, &at, &e.Kind, &e.Team, &e.Subject, &e.Actor, &e.Count, &e.Detail); err != nil {
			return nil, err
		}
		e.Time = time.UnixMilli(at).UTC()
		found = append(found, e)
	}
	return found, rows.Err()
}
