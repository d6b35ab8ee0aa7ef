// Package changes is what operators change while gateways run: keys, overrides and
// credits of limits, and the audit of all that. It is a list of entries, to which
// gateways only ever append, and the State that the entries add up to. A gateway
// that was cut off catches up by reading on from where it was.
//
// entry.go says what an entry is, state.go what the entries add up to, limits.go
// what a limit's amount is at a time; this file reads the list and appends to it.
// Lists are in memory, in Redis (package shared) and in a database (sql.go), held
// equal by changestest.
//
// The package knows neither HTTP nor the configuration, and no secret: keys are
// hashes.
package changes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Log is a list of texts that all gateways share. Its methods are safe for
// concurrent use.
type Log interface {
	// From returns the texts from the n-th on, the first being the 0th. There are
	// none beyond the end.
	From(ctx context.Context, n int) ([]string, error)
	// Append adds text if the list has exactly n texts, and reports whether it did.
	// After an error it may or may not have.
	Append(ctx context.Context, n int, text string) (bool, error)
}

// Changes are the entries of one Log, as this gateway knows them. They are safe for
// concurrent use.
type Changes struct {
	log     Log
	now     func() time.Time
	changed func() // called after the State changed, without locks

	mu    sync.Mutex // of what follows
	texts []string   // all that were read, to restore a log that lost them
	state atomic.Pointer[State]

	notes   sync.Mutex // of pending; may be taken while mu is held, not the other way round
	pending []Entry
}

// New returns the changes of log, of which none is known yet. changed, unless it is
// nil, is called each time that State returns another one.
func New(log Log, now func() time.Time, changed func()) *Changes {
	c := &Changes{log: log, now: now, changed: changed}
	c.state.Store(newState())
	return c
}

// State returns what is known. It never changes.
func (c *Changes) State() *State { return c.state.Load() }

// Refresh reads what is new. After an error what was known stays.
func (c *Changes) Refresh(ctx context.Context) error {
	c.mu.Lock()
	before := c.state.Load()
	err := c.refresh(ctx)
	if err == nil {
		err = c.writeNotes(ctx)
	}
	changed := c.state.Load() != before
	c.mu.Unlock()
	if changed && c.changed != nil {
		c.changed()
	}
	return err
}

// refresh reads from the last known entry on: if it is not there any more, the log
// was lost or replaced. mu is held.
func (c *Changes) refresh(ctx context.Context) error {
	n := len(c.texts)
	if n == 0 {
		return c.read(ctx)
	}
	texts, err := c.log.From(ctx, n-1)
	if err != nil {
		return fmt.Errorf("read the changes: %w", err)
	}
	if len(texts) == 0 || texts[0] != c.texts[n-1] {
		return c.recover(ctx)
	}
	c.take(texts[1:])
	return nil
}

// read reads the whole log.
func (c *Changes) read(ctx context.Context) error {
	texts, err := c.log.From(ctx, len(c.texts))
	if err != nil {
		return fmt.Errorf("read the changes: %w", err)
	}
	c.take(texts)
	return nil
}

// recover restores what the log has lost: the entries that this gateway has beyond
// the log's end. Of a log that has other entries these are in force.
func (c *Changes) recover(ctx context.Context) error {
	known := c.texts
	texts, err := c.log.From(ctx, 0)
	if err != nil {
		return fmt.Errorf("read the changes: %w", err)
	}
	same := 0
	for same < len(texts) && same < len(known) && texts[same] == known[same] {
		same++
	}
	if same == len(texts) {
		for n := same; n < len(known); n++ {
			ok, err := c.log.Append(ctx, n, known[n])
			if err != nil {
				return fmt.Errorf("restore change %d: %w", n, err)
			}
			if !ok { // another gateway restores, too
				return nil
			}
		}
		return nil
	}
	c.texts = nil
	c.state.Store(newState())
	c.take(texts)
	return nil
}

// take adds entries to what is known. mu is held.
func (c *Changes) take(texts []string) {
	if len(texts) == 0 {
		return
	}
	state := c.state.Load().clone()
	for _, text := range texts {
		var e Entry
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			e = Entry{Action: "unreadable"} // of a later version: it still has its place in the list
		}
		state.apply(e)
	}
	c.texts = append(c.texts, texts...)
	c.state.Store(state)
}

// errCrowded says that others append all the time.
var errCrowded = errors.New("changes: other gateways append all the time")

// attempts bounds how often Make tries to be the next.
const attempts = 50

// Make appends the entry that f returns for the State that is newest then, and puts
// it in force here. f may be called several times; it returns nil if there is
// nothing to change, and its error ends Make. Make sets the entry's ID and Time.
// Any other error is the log's: the entry may or may not have been appended.
func (c *Changes) Make(ctx context.Context, f func(*State) (*Entry, error)) error {
	c.mu.Lock()
	before := c.state.Load()
	err := c.append(ctx, func(s *State) (*Entry, error) {
		e, err := f(s)
		if err == nil && e != nil {
			e.ID, e.Time = newID("chg"), c.now().UTC().Truncate(time.Millisecond)
		}
		return e, err
	})
	changed := c.state.Load() != before
	c.mu.Unlock()
	if changed && c.changed != nil {
		c.changed()
	}
	return err
}

// append appends what f returns for the newest State, and takes it. mu is held.
func (c *Changes) append(ctx context.Context, f func(*State) (*Entry, error)) error {
	for range attempts {
		if err := c.refresh(ctx); err != nil {
			return err
		}
		e, err := f(c.state.Load())
		if err != nil || e == nil {
			return err
		}
		text, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("write a change: %w", err)
		}
		n := len(c.texts)
		ok, err := c.log.Append(ctx, n, string(text))
		if err != nil {
			return fmt.Errorf("append change %d: %w", n, err)
		}
		if ok {
			c.take([]string{string(text)})
			return nil
		}
	}
	return errCrowded
}

// maxPending bounds the notes that wait for the log.
const maxPending = 1000

// Note appends an entry about what was done elsewhere. If the log cannot take it
// now, it does with a later Refresh; after maxPending of them the oldest is lost.
func (c *Changes) Note(ctx context.Context, e Entry) error {
	e.ID, e.Time = newID("chg"), c.now().UTC().Truncate(time.Millisecond)
	c.notes.Lock()
	c.pending = append(c.pending, e)
	if len(c.pending) > maxPending {
		c.pending = c.pending[1:]
	}
	c.notes.Unlock()
	return c.Refresh(ctx)
}

// writeNotes appends what waits. mu is held.
func (c *Changes) writeNotes(ctx context.Context) error {
	for {
		c.notes.Lock()
		if len(c.pending) == 0 {
			c.notes.Unlock()
			return nil
		}
		e := c.pending[0]
		c.notes.Unlock()
		if err := c.append(ctx, func(s *State) (*Entry, error) {
			if s.has(e.ID) { // an answer was lost
				return nil, nil
			}
			return &e, nil
		}); err != nil {
			return err
		}
		c.notes.Lock()
		if len(c.pending) > 0 && c.pending[0].ID == e.ID {
			c.pending = c.pending[1:]
		}
		c.notes.Unlock()
	}
}
