package books

import (
	"context"
	"fmt"
	"time"

	"llmgw/internal/database"
)

const (
	houseEvery = 5 * time.Second // how often orphans are looked for
	hourly     = 720             // of these: how often old rows are deleted
	minutely   = 12              // of these: how often a memory database is bounded
	// mostInProcess bounds the single records of a database in memory.
	mostInProcess = 100_000
	// deletedAtOnce bounds a statement that deletes, so that it holds nobody up for long.
	deletedAtOnce = 5000
	monthsAhead   = 2
	partitionLock = 7_305_808_869_229_539
)

// keepHouse makes partitions ahead, deletes what is old, and posts what dead
// processes left, until b is closed.
func (b *Books) keepHouse() {
	tick := time.NewTicker(postAgain)
	for b.prepare(b.ctx) != nil {
		select {
		case <-b.ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
		}
	}
	tick.Reset(houseEvery)
	defer tick.Stop()
	for n := 0; ; n++ {
		b.adopt()
		if n%hourly == 0 || b.db.Kind() == database.Memory && n%minutely == 0 {
			if err := b.Retain(b.ctx); err != nil && b.ctx.Err() == nil {
				b.config.Logger.Warn("old records cannot be deleted", "error", err.Error())
			}
		}
		select {
		case <-b.ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// prepare returns nil once the database can take records: it has its schema, and
// PostgreSQL the partitions of this time.
func (b *Books) prepare(ctx context.Context) error {
	b.preparing.Lock()
	defer b.preparing.Unlock()
	if b.prepared {
		return nil
	}
	if err := b.db.Ready(); err != nil {
		return err
	}
	if b.db.Kind() == database.Postgres {
		if err := b.partitions(ctx, b.config.Now()); err != nil {
			return err
		}
	}
	b.prepared = true
	close(b.ready)
	return nil
}

// Retain deletes what is older than it is kept for, and makes the partitions of
// the months to come.
func (b *Books) Retain(ctx context.Context) error {
	now := b.config.Now()
	if b.db.Kind() == database.Postgres {
		if err := b.partitions(ctx, now); err != nil {
			return err
		}
	}
	for _, t := range []struct {
		table string
		keep  time.Duration
	}{
		{"requests", b.config.Keep.Requests}, {"events", b.config.Keep.Requests},
		{"totals_minutes", b.config.Keep.Minutes}, {"totals_quarters", b.config.Keep.Hours},
		{"writers", max(b.config.Keep.Hours, b.config.Keep.Requests)},
	} {
		if t.keep > 0 {
			if err := b.deleteBefore(ctx, t.table, now.Add(-t.keep).UnixMilli()); err != nil {
				return fmt.Errorf("delete from %s: %w", t.table, err)
			}
		}
	}
	if b.db.Kind() != database.Memory {
		return nil
	}
	_, err := b.db.ExecContext(ctx, "DELETE FROM requests WHERE rowid <= (SELECT max(rowid) FROM requests) - $1", mostInProcess)
	return err
}

// deleteBefore deletes the rows of a table before a time, some at a time.
func (b *Books) deleteBefore(ctx context.Context, table string, before int64) error {
	var where string
	switch {
	case b.db.Kind() == database.Postgres && (table == "requests"):
		table = "requests_default" // whole partitions are dropped
		where = "ctid = ANY (ARRAY(SELECT ctid FROM requests_default WHERE at < $1 LIMIT $2))"
	case b.db.Kind() == database.Postgres:
		where = "ctid = ANY (ARRAY(SELECT ctid FROM " + table + " WHERE at < $1 LIMIT $2))"
	case table == "requests" || table == "events" || table == "writers":
		where = "rowid IN (SELECT rowid FROM " + table + " WHERE at < $1 LIMIT $2)"
	default: // without row ids, the oldest times first
		where = "at < $1 AND at <= (SELECT min(at) FROM " + table + ") + $2 * 60000"
	}
	for {
		result, err := b.db.ExecContext(ctx, "DELETE FROM "+table+" WHERE "+where, before, deletedAtOnce)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return err
		}
	}
}

// monthOf is the partition of the month that many months after now's, in UTC.
func monthOf(now time.Time, after int) (name string, from, to time.Time) {
	now = now.UTC()
	from = time.Date(now.Year(), now.Month()+time.Month(after), 1, 0, 0, 0, 0, time.UTC)
	return from.Format("requests_2006_01"), from, from.AddDate(0, 1, 0)
}

// partitions makes those of this month and the next, and drops the old ones.
func (b *Books) partitions(ctx context.Context, now time.Time) error {
	if err := b.db.PingContext(ctx); err != nil {
		return err
	}
	for after := -1; after <= monthsAhead; after++ {
		name, from, to := monthOf(now, after)
		statement := fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s PARTITION OF requests FOR VALUES FROM (%d) TO (%d)", name, from.UnixMilli(), to.UnixMilli())
		if err := b.alone(ctx, statement); err != nil {
			// Its rows are in the default partition: its clock was wrong once.
			b.config.Logger.Debug("a partition cannot be made", "partition", name, "error", err.Error())
		}
	}
	if b.config.Keep.Requests == 0 {
		return nil
	}
	rows, err := b.db.QueryContext(ctx, "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'requests'::regclass")
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // read to its end
	var old []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		month, err := time.Parse("requests_2006_01", name)
		if err == nil && !month.AddDate(0, 1, 0).After(now.Add(-b.config.Keep.Requests)) {
			old = append(old, name)
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, name := range old {
		if err := b.alone(ctx, "DROP TABLE IF EXISTS "+name); err != nil {
			return err
		}
	}
	return nil
}

// alone executes a statement while no other gateway executes one.
func (b *Books) alone(ctx context.Context, statement string) error {
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock($1)", partitionLock); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, statement); err != nil {
		return err
	}
	return tx.Commit()
}
