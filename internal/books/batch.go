package books

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Reclaimed is the outcome of a request whose gateway died before it could settle.
const Reclaimed = "reclaimed"

// batch is what one transaction writes.
type batch struct {
	books *Books
	ctx   context.Context
	tx    *sql.Tx

	records   []*Record // to be inserted
	totals    totals
	reclaimed map[string]bool // the requests that the database has as reclaimed
}

// take adds items to the batch.
func (w *batch) take(items []item) error {
	if err := w.readReclaimed(); err != nil {
		return fmt.Errorf("look for reclaimed requests: %w", err)
	}
	for i := range items {
		for _, t := range items[i].Totals {
			w.totals.merge(totals{t.Key: t.Sums})
		}
		if e := items[i].Event; e != nil {
			if err := insertEvent(w.ctx, w.tx, e); err != nil {
				return fmt.Errorf("write an event: %w", err)
			}
		}
		if r := items[i].Record; r != nil {
			if err := w.record(r); err != nil {
				return fmt.Errorf("request %s: %w", r.ID, err)
			}
		}
	}
	return nil
}

// mostReclaimed bounds the reclaimed requests that a batch looks for, the newest.
const mostReclaimed = 10_000

func (w *batch) readReclaimed() error {
	w.reclaimed = map[string]bool{}
	rows, err := w.tx.QueryContext(w.ctx, "SELECT id FROM requests WHERE outcome = 'reclaimed' ORDER BY at DESC LIMIT $1", mostReclaimed)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // Err says all
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return err
		}
		w.reclaimed[id] = true
	}
	return rows.Err()
}

// record adds one record: as it is, or to the record that its request has already.
//
//	a reclaimed reservation of a request that has its record: the gateway died before
//	the store had its settlement. The limit was charged what was reclaimed, and so
//	is the record, whichever of the two came first
//	whatever else is late: it is charged on top
func (w *batch) record(r *Record) error {
	if !r.Late && !w.reclaimed[r.ID] {
		w.put(r)
		return nil
	}
	of, err := w.remove(r.ID)
	switch {
	case err != nil:
		return err
	case of == nil:
		w.put(r)
		return nil
	case r.Outcome == Reclaimed && of.Outcome != Reclaimed:
		of.charge(r)
	case r.Outcome != Reclaimed && of.Outcome == Reclaimed && !r.Late:
		r.charge(of)
		of = r
	default:
		of.add(r)
	}
	of.Late = false
	w.put(of)
	return nil
}

// put adds a record and its part of the totals.
func (w *batch) put(r *Record) {
	w.totals.add(r, 1, &w.books.known)
	if r.Outcome == Reclaimed {
		w.reclaimed[r.ID] = true
	}
	if kept := w.books.config.Requests; kept != None && (kept != Refusal || r.Outcome == Refused) {
		w.records = append(w.records, r)
	}
}

// remove takes a request's record out of the batch or the database, with its part
// of the totals, and returns it; nil if there is none.
func (w *batch) remove(id string) (*Record, error) {
	delete(w.reclaimed, id)
	if i := slices.IndexFunc(w.records, func(r *Record) bool { return r.ID == id }); i >= 0 {
		r := w.records[i]
		w.records = slices.Delete(w.records, i, i+1)
		w.subtract(r)
		return r, nil
	}
	r := &Record{}
	err := r.scan(w.tx.QueryRowContext(w.ctx, "SELECT "+strings.Join(columns, ", ")+" FROM requests WHERE id = $1 LIMIT 1", id))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil //nolint:nilnil // there is none
	}
	if err != nil {
		return nil, err
	}
	if _, err := w.tx.ExecContext(w.ctx, "DELETE FROM requests WHERE id = $1 AND at = $2", id, r.Time.UnixMilli()); err != nil {
		return nil, err
	}
	w.subtract(r)
	return r, nil
}

func (w *batch) subtract(r *Record) {
	t := totals{}
	t.add(r, 1, &w.books.known)
	for k, s := range t {
		sum := w.totals[k]
		sum.add(s, -1)
		w.totals[k] = sum
	}
}

// charge gives r what o was charged.
func (r *Record) charge(o *Record) {
	r.Input, r.CachedInput, r.CacheWrite, r.Output, r.Reasoning = o.Input, o.CachedInput, o.CacheWrite, o.Output, o.Reasoning
	r.Charged, r.USD, r.Estimated = o.Charged, o.USD, o.Estimated
}

// add adds what o was charged.
func (r *Record) add(o *Record) {
	r.Input, r.CachedInput, r.CacheWrite = r.Input+o.Input, r.CachedInput+o.CachedInput, r.CacheWrite+o.CacheWrite
	r.Output, r.Reasoning, r.Charged, r.USD = r.Output+o.Output, r.Reasoning+o.Reasoning, r.Charged+o.Charged, r.USD+o.USD
}
