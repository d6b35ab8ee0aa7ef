// Package ledger keeps the record of what was spent: one log line for each
// request, and totals by team and model that are right over all gateways. It
// decides nothing and holds nothing up: what a request may spend is budget's
// business, and Record never blocks.
//
// entry.go is what happened to one request and its log line, ledger.go how
// entries are taken and totals kept on their way to the store, totals.go the
// arithmetic of totals, refusals.go how many lines refused requests have,
// bucket.go where they lie in the store, usage.go and
// series.go how they are read back.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"llmgw/internal/parting"
)

// Store is where the totals of all gateways come together: named maps of whole
// numbers. shared.Memory and shared.Redis are such stores.
type Store interface {
	// AddOnce adds deltas to the map called name, all or none, unless it has
	// taken this batch, or a later one, from this writer before.
	AddOnce(ctx context.Context, name, writer string, batch int64, deltas map[string]int64, ttl time.Duration) error
	// FieldsOf returns the maps called names, in their order.
	FieldsOf(ctx context.Context, names []string) ([]map[string]string, error)
}

// Config sets a Ledger up.
type Config struct {
	Store Store
	// Writer names this life of this gateway; no other may have the same.
	Writer string
	// Now tells the time of entries and totals. nil: time.Now.
	Now func() time.Time
	// Logger gets a line for each request. nil: none are written.
	Logger *slog.Logger
	// FlushEvery is how often totals go to the store. 0: a second.
	FlushEvery time.Duration
	// FlushTimeout bounds one flush. 0: five seconds.
	FlushTimeout time.Duration
	// MaxLines bounds the log lines that wait to be written. 0: 16,384.
	MaxLines int
	// MaxSeries bounds the pairs of team and model, and the limits, that are
	// told apart; the rest is "other": the team's other models, and other limits.
	// Teams are the configuration's, and so are always told apart. 0: 10,000.
	MaxSeries int
}

// Ledger takes entries. It is safe for concurrent use. Close it.
type Ledger struct {
	config  Config
	wake    chan struct{} // holds one: there are lines to write
	stop    chan struct{}
	stopped sync.Once
	done    sync.WaitGroup

	mu      sync.Mutex
	pending pending
	lines   []Entry // to be written
	dropped int     // lines, since last told
	refused refusals

	batches []batch // cut from pending, in order, not yet known to be stored
	batchNo int64

	// flushing is held by the one flush under way.
	flushing sync.Mutex
	away     bool // the last flush failed

	closed recent // of Series
}

// New returns a Ledger that flushes and logs until it is closed.
func New(c Config) *Ledger {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.FlushEvery = positive(c.FlushEvery, time.Second)
	c.FlushTimeout = positive(c.FlushTimeout, 5*time.Second)
	c.MaxLines = positive(c.MaxLines, 16_384)
	c.MaxSeries = positive(c.MaxSeries, 10_000)
	l := &Ledger{
		config:  c,
		wake:    make(chan struct{}, 1),
		stop:    make(chan struct{}),
		pending: newPending(c.MaxSeries),
		refused: newRefusals(),
	}
	l.done.Add(2)
	go l.write()
	go l.flushAlways()
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
// says so later); its totals are not.
func (l *Ledger) Record(e Entry) {
	if e.Time.IsZero() {
		e.Time = l.config.Now()
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
	l.pending.add(e)
	if !l.refused.logs(&e) {
		return
	}
	if len(l.lines) >= l.config.MaxLines {
		l.dropped++
		return
	}
	l.lines = append(l.lines, e)
}

// Close writes the lines that wait and stores the totals, trying again until
// ctx ends; then it returns an error that says what is lost. Nothing may be
// recorded after it.
func (l *Ledger) Close(ctx context.Context) error {
	l.stopped.Do(func() { close(l.stop) })
	stored := make(chan error, 1)
	go func() { stored <- l.flushAll(ctx) }()
	var err error
	select {
	case err = <-stored:
	case <-ctx.Done():
		select {
		case err = <-stored: // with the store's error
		case <-time.After(parting.Time):
			err = ctx.Err()
		}
	}
	if err != nil {
		return fmt.Errorf("close the ledger: totals not stored: %w", errors.Join(err, l.leave(ctx)))
	}
	return nil
}

// flushAll waits for what is under way, then flushes until all is stored or ctx ends.
func (l *Ledger) flushAll(ctx context.Context) error {
	l.done.Wait()
	for {
		err := l.Flush(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(min(l.config.FlushEvery, time.Second)):
		}
	}
}

// Flush stores what is still in memory. After an error nothing is lost: it is
// tried again at the next flush, and counted once.
func (l *Ledger) Flush(ctx context.Context) error {
	l.flushing.Lock()
	defer l.flushing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, l.config.FlushTimeout)
	defer cancel()
	err := l.send(ctx)
	if err == nil {
		l.cut()
		err = l.send(ctx)
	}
	l.tell(err)
	return err
}

// cut turns what is pending into batches, behind those that there are.
func (l *Ledger) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.pending
	l.pending = taken.successor()
	more := taken.batches(l.batchNo)
	l.batches = append(l.batches, more...)
	l.batchNo += int64(len(more))
}

// send stores the batches in order, up to the first that fails: whether that
// one was stored is not known, so it goes again as it was.
func (l *Ledger) send(ctx context.Context) error {
	for {
		b := l.oldest()
		if b == nil {
			return nil
		}
		if err := l.config.Store.AddOnce(ctx, b.name, l.config.Writer, b.number, b.deltas, b.ttl); err != nil {
			return fmt.Errorf("store totals: %w", err)
		}
		l.forget()
	}
}

// oldest is the first batch that is not known to be stored, nil if there is none.
func (l *Ledger) oldest() *batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.batches) == 0 {
		l.batches = nil
		return nil
	}
	return &l.batches[0]
}

// forget removes the oldest batch.
func (l *Ledger) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.batches = l.batches[1:]
}

// tell logs that the store went away or came back, once each.
func (l *Ledger) tell(err error) {
	switch {
	case err != nil && !l.away:
		l.config.Logger.Warn("usage totals cannot be stored and are kept in memory", "error", err)
	case err == nil && l.away:
		l.config.Logger.Info("usage totals are stored again")
	}
	l.away = err != nil
}

func (l *Ledger) flushAlways() {
	defer l.done.Done()
	ticker := time.NewTicker(l.config.FlushEvery)
	defer ticker.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-ticker.C:
			// An error was logged, and the next tick tries again.
			_ = l.Flush(context.Background())
		}
	}
}

// write is the goroutine of the log lines.
func (l *Ledger) write() {
	defer l.done.Done()
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
