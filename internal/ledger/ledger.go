// Package ledger takes what happened to each request: it writes one log line, and
// passes the rest to the books. It decides nothing and holds nothing up: Record
// never blocks.
//
// entry.go is what happened to one request and its log line, record.go what the
// books have of it, ledger.go how entries are taken and lines written, refusals.go
// how many lines refused requests have.
package ledger

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"llmgw/internal/books"
)

// Config sets a Ledger up.
type Config struct {
	// Books gets a record of each request whose key is known. It must not block.
	// nil: nobody does.
	Books func(books.Record)
	// Now tells the time of entries. nil: time.Now.
	Now func() time.Time
	// Logger gets a line for each request. nil: none are written.
	Logger *slog.Logger
	// FlushEvery is how often refused requests without a line are counted in one. 0:
	// a second.
	FlushEvery time.Duration
	// MaxLines bounds the log lines that wait to be written. 0: 16,384.
	MaxLines int
}

// Ledger takes entries. It is safe for concurrent use. Close it.
type Ledger struct {
	config  Config
	wake    chan struct{} // holds one: there are lines to write
	stop    chan struct{}
	stopped sync.Once
	done    sync.WaitGroup

	mu      sync.Mutex
	lines   []Entry // to be written
	dropped int     // lines, since last told
	refused refusals
}

// New returns a Ledger that logs until it is closed.
func New(c Config) *Ledger {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Books == nil {
		c.Books = func(books.Record) {}
	}
	c.FlushEvery = positive(c.FlushEvery, time.Second)
	c.MaxLines = positive(c.MaxLines, 16_384)
	l := &Ledger{config: c, wake: make(chan struct{}, 1), stop: make(chan struct{}), refused: newRefusals()}
	l.done.Go(l.write)
	return l
}

func positive[N ~int | ~int64](n, otherwise N) N {
	if n > 0 {
		return n
	}
	return otherwise
}

// Record takes one entry. It never blocks: if log lines wait to be written and
// their number is at its bound, the line is dropped (and counted, and the log
// says so later); the books have it all the same.
func (l *Ledger) Record(e Entry) {
	if e.Time.IsZero() {
		e.Time = l.config.Now()
	}
	if e.KeyID != "" || e.Team != "" { // or anybody could fill the disk
		l.config.Books(e.record())
	}
	l.take(e)
	select {
	case l.wake <- struct{}{}:
	default: // it is awake already
	}
}

func (l *Ledger) take(e Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.refused.logs(&e) {
		return
	}
	if len(l.lines) >= l.config.MaxLines {
		l.dropped++
		return
	}
	l.lines = append(l.lines, e)
}

// Close writes the lines that wait, until ctx ends. Nothing may be recorded after it.
func (l *Ledger) Close(ctx context.Context) error {
	l.stopped.Do(func() { close(l.stop) })
	written := make(chan struct{})
	go func() {
		l.done.Wait()
		close(written)
	}()
	select {
	case <-written:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// write is the goroutine of the log lines.
func (l *Ledger) write() {
	interval := time.NewTicker(l.config.FlushEvery)
	defer interval.Stop()
	var room []Entry // the slice of the last turn, for the next
	for {
		select {
		case <-l.wake:
			room = l.writeLines(room)
		case <-interval.C:
			l.writeRefused()
		case <-l.stop:
			l.writeLines(room)
			l.writeRefused()
			return
		}
	}
}

// writeRefused ends an interval of refused requests.
func (l *Ledger) writeRefused() {
	l.mu.Lock()
	taken := l.refused
	if len(taken.lines) > 0 {
		l.refused = newRefusals()
	}
	l.mu.Unlock()
	taken.log(l.config.Logger)
}

// writeLines writes what waits, while the empty room takes what comes. It
// returns the room that became free.
func (l *Ledger) writeLines(room []Entry) []Entry {
	l.mu.Lock()
	lines, dropped := l.lines, l.dropped
	l.lines, l.dropped = room, 0
	l.mu.Unlock()
	for i := range lines {
		lines[i].log(l.config.Logger)
	}
	if dropped > 0 {
		l.config.Logger.Warn("usage lines were dropped because the log is slow", "dropped", dropped)
	}
	clear(lines) // so that no request's strings are kept
	return lines[:0]
}
