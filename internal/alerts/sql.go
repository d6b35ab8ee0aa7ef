package alerts

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"llmgw/internal/database"
)

// SQL is a Store in the table alerts of a database. It has one map, whatever it is
// called.
type SQL struct{ db *database.Database }

// NewSQL returns the store that db has.
func NewSQL(db *database.Database) *SQL { return &SQL{db} }

// Fields implements Store.
func (s *SQL) Fields(ctx context.Context, _ string) (fields map[string]string, err error) {
	if err := s.db.Ready(); err != nil {
		return nil, err
	}
	rows, err := s.db.QueryContext(ctx, "SELECT field, value FROM alerts")
	if err != nil {
		return nil, fmt.Errorf("read alerts: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	fields = map[string]string{}
	for rows.Next() {
		var field, value string
		if err := rows.Scan(&field, &value); err != nil {
			return nil, fmt.Errorf("read alerts: %w", err)
		}
		fields[field] = value
	}
	return fields, rows.Err()
}

// Swap implements Store.
func (s *SQL) Swap(ctx context.Context, _, field, old, value string) (bool, error) {
	if err := s.db.Ready(); err != nil {
		return false, err
	}
	var done sql.Result
	var err error
	switch {
	case old == "":
		done, err = s.db.ExecContext(ctx, "INSERT INTO alerts (field, value) VALUES ($1, $2) ON CONFLICT (field) DO NOTHING", field, value)
	case value == "":
		done, err = s.db.ExecContext(ctx, "DELETE FROM alerts WHERE field = $1 AND value = $2", field, old)
	default:
		done, err = s.db.ExecContext(ctx, "UPDATE alerts SET value = $3 WHERE field = $1 AND value = $2", field, old, value)
	}
	if err != nil {
		return false, fmt.Errorf("write alert %s: %w", field, err)
	}
	changed, err := done.RowsAffected()
	return changed == 1, err
}
