package changes

import (
	"context"
	"errors"
	"fmt"

	"llmgw/internal/database"
)

// SQL is a Log in the table changes of a database.
type SQL struct{ db *database.Database }

// NewSQL returns the log that db has.
func NewSQL(db *database.Database) *SQL { return &SQL{db} }

// From implements Log.
func (s *SQL) From(ctx context.Context, n int) (texts []string, err error) {
	if err := s.db.Ready(); err != nil {
		return nil, err
	}
	rows, err := s.db.QueryContext(ctx, "SELECT entry FROM changes WHERE position >= $1 ORDER BY position", n)
	if err != nil {
		return nil, fmt.Errorf("read changes from %d: %w", n, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, fmt.Errorf("read changes from %d: %w", n, err)
		}
		texts = append(texts, text)
	}
	return texts, rows.Err()
}

// Append implements Log. Of two that append at once one gets the place. A gap
// cannot come: nobody appends behind an entry that is not there.
func (s *SQL) Append(ctx context.Context, n int, text string) (bool, error) {
	if err := s.db.Ready(); err != nil {
		return false, err
	}
	const statement = `INSERT INTO changes (position, entry)
		SELECT CAST($1 AS BIGINT), CAST($2 AS TEXT) WHERE (SELECT COALESCE(MAX(position) + 1, 0) FROM changes) = CAST($1 AS BIGINT)
		ON CONFLICT (position) DO NOTHING`
	done, err := s.db.ExecContext(ctx, statement, n, text)
	if err != nil {
		return false, fmt.Errorf("append change %d: %w", n, err)
	}
	added, err := done.RowsAffected()
	return added == 1, err
}
