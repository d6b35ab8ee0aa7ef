package books

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// conditions are those of a statement that lists what happened, newest first.
type conditions struct {
	where []string
	args  []any
}

// put adds a condition; each ? in it stands for the next of values.
func (c *conditions) put(condition string, values ...any) {
	for _, v := range values {
		c.args = append(c.args, v)
		condition = strings.Replace(condition, "?", "$"+strconv.Itoa(len(c.args)), 1)
	}
	c.where = append(c.where, condition)
}

// in wants one of values; nil wants nothing, and no value is none.
func (c *conditions) in(column string, values []string) {
	switch {
	case values == nil:
	case len(values) == 0:
		c.put("1 = 0")
	default:
		list := make([]any, len(values))
		for i, v := range values {
			list[i] = v
		}
		c.put(column+" IN ("+strings.Join(slices.Repeat([]string{"?"}, len(list)), ", ")+")", list...)
	}
}

// between wants a time in [from, to); a zero time bounds nothing.
func (c *conditions) between(from, to time.Time) {
	if !from.IsZero() {
		c.put("at >= ?", from.UnixMilli())
	}
	if !to.IsZero() {
		c.put("at < ?", to.UnixMilli())
	}
}

// after wants what comes behind a page; an empty cursor is before the first.
func (c *conditions) after(text string) error {
	if text == "" {
		return nil
	}
	at, id, err := parseCursor(text)
	if err != nil {
		return err
	}
	c.put("(at, id) < (?, ?)", at, id)
	return nil
}

// statement selects one row more than a page has, newest first.
func (c *conditions) statement(from string, limit int) string {
	if len(c.where) > 0 {
		from += " WHERE " + strings.Join(c.where, " AND ")
	}
	return from + " ORDER BY at DESC, id DESC LIMIT " + strconv.Itoa(limit+1)
}
