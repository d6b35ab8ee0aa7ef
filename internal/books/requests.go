package books

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Find asks for single records. Empty fields ask for all.
type Find struct {
	Teams                                        []string // nil: all
	ID, Key, User, Session, Model, Outcome, Code string
	From, To                                     time.Time // To does not count
	Limit                                        int       // 1 to 1000
	Cursor                                       string    // of the page before
}

// errCursor says that a cursor is not one of ours.
const errCursor = BadQuery("the cursor is not one that was returned with a page")

// Requests returns records, newest first, and the cursor of the next page; it is
// empty on the last one.
func (b *Books) Requests(ctx context.Context, f Find) ([]Record, string, error) {
	if err := b.Flush(ctx); err != nil {
		return nil, "", err
	}
	statement, args, err := f.sql()
	if err != nil {
		return nil, "", err
	}
	rows, err := b.db.QueryContext(ctx, statement, args...)
	if err != nil {
		return nil, "", fmt.Errorf("read records: %w", err)
	}
	defer func() { _ = rows.Close() }() // Err says all
	found := []Record{}
	for rows.Next() {
		var r Record
		if err := r.scan(rows); err != nil {
			return nil, "", fmt.Errorf("read records: %w", err)
		}
		found = append(found, r)
	}
	if err := rows.Err(); err != nil {
		return nil, "", fmt.Errorf("read records: %w", err)
	}
	if len(found) <= f.Limit {
		return found, "", nil
	}
	last := found[f.Limit-1]
	return found[:f.Limit], cursor(last.Time.UnixMilli(), last.ID), nil
}

func cursor(at int64, id string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(at, 10) + ":" + id))
}

func parseCursor(text string) (at int64, id string, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return 0, "", errCursor
	}
	number, id, found := strings.Cut(string(raw), ":")
	if at, err = strconv.ParseInt(number, 10, 64); err != nil || !found {
		return 0, "", errCursor
	}
	return at, id, nil
}

// sql is the statement for one record more than f's limit.
func (f *Find) sql() (string, []any, error) {
	c := conditions{}
	for _, w := range []struct{ column, value string }{
		{"id", f.ID}, {"key_id", f.Key}, {"user_id", f.User}, {"session", f.Session}, {"model", f.Model}, {"outcome", f.Outcome}, {"code", f.Code},
	} {
		if w.value != "" {
			c.put(w.column+" = ?", w.value)
		}
	}
	c.in("team", f.Teams)
	c.between(f.From, f.To)
	if err := c.after(f.Cursor); err != nil {
		return "", nil, err
	}
	return c.statement("SELECT "+strings.Join(columns, ", ")+" FROM requests", f.Limit), c.args, nil
}

// ErrNoRecord says that there is no record of that id.
var ErrNoRecord = errors.New("there is no record of this request")

// Request returns the record of one request. Of several under one id, which two
// gateways may have written at the same time, it is their sum.
func (b *Books) Request(ctx context.Context, id string, teams []string) (Record, error) {
	found, _, err := b.Requests(ctx, Find{ID: id, Teams: teams, Limit: 100})
	if err != nil {
		return Record{}, err
	}
	if len(found) == 0 || id == "" {
		return Record{}, ErrNoRecord
	}
	r := found[0]
	for _, o := range found[1:] { // of a gateway that did not know of the first
		r.add(&o)
	}
	return r, nil
}
