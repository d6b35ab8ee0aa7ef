package books

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"time"

	"llmgw/internal/database"
)

// postTimeout bounds one transaction.
const postTimeout = 30 * time.Second

// postAlways moves what is in the spool into the database until b is closed.
func (b *Books) postAlways() {
	select {
	case <-b.ctx.Done():
		return
	case <-b.ready:
	}
	for {
		select {
		case <-b.ctx.Done():
			return
		case <-b.waiting:
		}
		pause := postEvery
		if !b.postAll() {
			pause = postAgain
			signal(b.waiting)
		}
		select {
		case <-b.ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// postAll posts until the spool is empty, and reports whether it is.
func (b *Books) postAll() bool {
	b.posting.Lock()
	defer b.posting.Unlock()
	for b.spool.waits() {
		if b.ctx.Err() != nil || b.postNext(b.ctx) != nil {
			return false
		}
	}
	return true
}

// postNext posts the first items of the spool. b.posting is held.
func (b *Books) postNext(ctx context.Context) error {
	items, err := b.spool.next(batchItems)
	if err == nil && len(items) > 0 {
		if err = b.post(ctx, b.spool.instance, items); err == nil {
			b.spool.done(items[len(items)-1].end)
		}
	}
	switch {
	case err != nil && !b.away && b.ctx.Err() == nil:
		b.config.Logger.Warn("the database of the books is away: records wait in the spool", "error", err.Error())
	case err == nil && b.away:
		b.config.Logger.Info("the database of the books is back")
	}
	b.away = err != nil
	return err
}

// post writes items of instance into the database, each once, in one transaction.
// b.posting is held.
func (b *Books) post(ctx context.Context, instance string, items []item) error {
	if err := b.prepare(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	items, err = b.unposted(ctx, tx, instance, items)
	if err != nil || len(items) == 0 {
		return err
	}
	w := batch{books: b, ctx: ctx, tx: tx, totals: totals{}}
	if err := w.take(items); err != nil {
		return err
	}
	if err := b.insertRecords(ctx, tx, w.records); err != nil {
		return fmt.Errorf("write records: %w", err)
	}
	for _, table := range tables {
		if err := b.addTotals(ctx, tx, table.name, w.totals.coarser(table.span)); err != nil {
			return fmt.Errorf("write %s: %w", table.name, err)
		}
	}
	_, err = tx.ExecContext(ctx, "UPDATE writers SET posted = $1, at = $2 WHERE instance = $3",
		items[len(items)-1].Seq, b.config.Now().UnixMilli(), instance)
	if err != nil {
		return err
	}
	return tx.Commit()
}

// unposted returns the items that the database does not have. Until tx ends no
// other process can post items of instance.
func (b *Books) unposted(ctx context.Context, tx *sql.Tx, instance string, items []item) ([]item, error) {
	_, err := tx.ExecContext(ctx, "INSERT INTO writers (instance, posted, at) VALUES ($1, 0, $2) ON CONFLICT (instance) DO NOTHING",
		instance, b.config.Now().UnixMilli())
	if err != nil {
		return nil, err
	}
	var posted int64
	if err := tx.QueryRowContext(ctx, "SELECT posted FROM writers WHERE instance = $1"+b.db.ForUpdate(), instance).Scan(&posted); err != nil {
		return nil, err
	}
	for len(items) > 0 && items[0].Seq <= posted {
		items = items[1:]
	}
	return items, nil
}

// rowsPerStatement bounds a statement; both databases take this many parameters.
const rowsPerStatement = 100

func (b *Books) insertRecords(ctx context.Context, tx *sql.Tx, records []*Record) error {
	head := "INSERT INTO requests (" + strings.Join(columns, ", ") + ") VALUES "
	args := make([]any, 0, rowsPerStatement*len(columns))
	return inChunks(records, func(chunk []*Record) error {
		args = args[:0]
		for _, r := range chunk {
			args = r.values(args)
		}
		_, err := tx.ExecContext(ctx, head+b.placeholders(len(chunk), len(columns)), args...)
		return err
	})
}

// onConflict adds a row of totals to the one that is there.
func onConflict(table string) string {
	set := make([]string, len(sumColumns))
	for i, c := range sumColumns {
		set[i] = c + " = " + table + "." + c + " + excluded." + c
	}
	return " ON CONFLICT (facet, at, team, key_id, model, provider, outcome, value) DO UPDATE SET " + strings.Join(set, ", ")
}

func (b *Books) addTotals(ctx context.Context, tx *sql.Tx, table string, t totals) error {
	head := "INSERT INTO " + table + " (" + strings.Join(keyColumns, ", ") + ", " + strings.Join(sumColumns, ", ") + ") VALUES "
	width := len(keyColumns) + len(sumColumns)
	args := make([]any, 0, rowsPerStatement*width)
	return inChunks(t.sorted(), func(chunk []key) error {
		args = args[:0]
		for _, k := range chunk {
			s := t[k]
			args = append(args, k.At, k.Team, k.Key, k.Model, k.Provider, k.Outcome, k.Facet, k.Value)
			for _, f := range s.fields() {
				args = append(args, *f)
			}
		}
		_, err := tx.ExecContext(ctx, head+b.placeholders(len(chunk), width)+onConflict(table), args...)
		return err
	})
}

func inChunks[T any](all []T, do func([]T) error) error {
	for len(all) > 0 {
		n := min(len(all), rowsPerStatement)
		if err := do(all[:n]); err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}

// placeholders is ($1, $2), ($3, $4) … for rows of width columns. SQLite gets plain
// question marks: it looks for each name among all those before.
func (b *Books) placeholders(rows, width int) string {
	var text strings.Builder
	for n := range rows * width {
		switch {
		case n == 0:
			text.WriteByte('(')
		case n%width == 0:
			text.WriteString("), (")
		default:
			text.WriteByte(',')
		}
		if b.db.Kind() != database.Postgres {
			text.WriteByte('?')
			continue
		}
		text.WriteByte('$')
		text.WriteString(strconv.Itoa(n + 1))
	}
	text.WriteByte(')')
	return text.String()
}
