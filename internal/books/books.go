// Package books keeps what every request came to: a record each, and totals of
// them by minute, quarter of an hour and day. They outlive the process and stand
// in a database that all gateways may share. It decides nothing and holds nothing
// up: Record appends to a slice, and all else is done beside the requests.
//
//	Record ─► pending ─► spool (disk) ─► post: records and totals in one transaction
//	             └─ no room ─► folded: their totals alone ─► spool
//
// A gateway that is killed leaves its spool. It is posted by the next process that
// uses the directory. Each line has its writer's instance and a number that grows;
// the transaction also notes the last number posted, so that no line counts twice.
//
// record.go is what is kept of a request, totals.go the arithmetic of totals,
// spool.go the queue on disk, books.go its way into it, post.go the way from there
// into the database, orphans.go the spools of dead processes, retention.go what
// is deleted, usage.go, requests.go and events.go how all is read back.
package books

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"llmgw/internal/database"
)

// Config sets Books up.
type Config struct {
	Database *database.Database
	// Instance names this life of this gateway; no other process may ever have the
	// same. It must be a file's name.
	Instance string
	// Requests says which requests keep a record of their own.
	Requests Requests
	Keep     Keep
	// Spool is a directory; empty: what waits is in memory, up to a bound.
	Spool    string
	MaxSpool int64 // bytes. 0: 1 GiB
	// Now tells the time of records that have none. nil: time.Now.
	Now     func() time.Time
	Logger  *slog.Logger // nil: none
	Dropped func(n int)  // counts single records that were dropped; nil: nobody does
}

// Requests is which requests keep a record of their own. Totals have all.
type Requests string

// The choices.
const (
	All     Requests = "all" // "" too
	Refusal Requests = "refused"
	None    Requests = "none"
)

// Keep is how long what is kept, at least. 0: for ever.
type Keep struct{ Requests, Minutes, Hours time.Duration }

// Books takes records. It is safe for concurrent use. Close it.
type Books struct {
	config Config
	db     *database.Database
	spool  *spool

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	done   sync.WaitGroup
	ready  chan struct{} // closed when the database can take records

	preparing sync.Mutex
	prepared  bool

	wake    chan struct{} // holds one: something is pending
	waiting chan struct{} // holds one: something is in the spool

	mu      sync.Mutex
	pending []Record
	events  []Event
	folded  totals // of records that had no room
	users   names  // that folded totals know

	writing sync.Mutex // held by what moves pending into the spool
	seq     int64      // under writing: of the last line
	posting sync.Mutex // held by what moves a spool into the database
	known   names      // under posting: that totals know
	full    bool       // under writing: records are being dropped
	away    bool       // under posting: the last post failed
}

const (
	// maxPending bounds the records that wait for the disk; beyond it their totals
	// alone are kept.
	maxPending = 1 << 16
	postEvery  = 100 * time.Millisecond // at most, so that few transactions carry many records
	postAgain  = time.Second            // after a failure
	syncEvery  = time.Second
	batchItems = 4096
)

// New opens the spool and begins to work. An error says that the spool's directory
// cannot be used. The database may be away, and its schema not be there yet.
func New(c Config) (*Books, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Dropped == nil {
		c.Dropped = func(int) {}
	}
	if c.MaxSpool <= 0 {
		c.MaxSpool = 1 << 30
	}
	s, err := openSpool(c.Spool, c.Instance, c.MaxSpool)
	if err != nil {
		return nil, err
	}
	b := &Books{config: c, db: c.Database, spool: s, ready: make(chan struct{}), wake: make(chan struct{}, 1), waiting: make(chan struct{}, 1), folded: totals{}}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.done.Go(b.writeAlways)
	b.done.Go(b.syncAlways)
	b.done.Go(b.postAlways)
	b.done.Go(b.keepHouse)
	return b, nil
}

// Record takes a record. It does not block. Its maps and slices must not change
// any more.
func (b *Books) Record(r Record) {
	if r.Time.IsZero() {
		r.Time = b.config.Now()
	}
	b.mu.Lock()
	if len(b.pending) < maxPending {
		b.pending = append(b.pending, r)
	} else {
		b.fold(&r)
	}
	b.mu.Unlock()
	signal(b.wake)
}

// signal fills a channel that holds one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// mostFolded is from how many rows on folded totals are by quarters, without facets.
const mostFolded = 50_000

// fold keeps the totals of a record that has no room. b.mu is held.
func (b *Books) fold(r *Record) {
	r.clean()
	requests := int64(1)
	if r.Late {
		requests = 0
	}
	if len(b.folded) >= mostFolded {
		r.User, r.Tags, r.LimitedBy = "", nil, ""
		r.Time = time.UnixMilli(floor(r.Time.UnixMilli(), quarter))
	}
	b.folded.add(r, requests, &b.users)
	b.config.Dropped(1)
}

// writeAlways moves pending records into the spool until b is closed.
func (b *Books) writeAlways() {
	tick := time.NewTicker(syncEvery)
	defer tick.Stop()
	for {
		select {
		case <-b.ctx.Done():
			return
		case <-b.wake:
		case <-tick.C: // what was folded
		}
		b.writePending()
	}
}

// writePending moves what is pending into the spool. It never fails: what has no
// room is folded.
func (b *Books) writePending() {
	b.writing.Lock()
	defer b.writing.Unlock()
	b.mu.Lock()
	records := b.pending
	b.pending = nil
	b.mu.Unlock()
	for len(records) > 0 {
		n := min(len(records), batchItems)
		b.write(records[:n])
		records = records[n:]
	}
	b.writeFolded()
	b.writeEvents()
	signal(b.waiting)
}

// write writes records into the spool, or folds them. b.writing is held.
func (b *Books) write(records []Record) {
	items := make([]item, len(records))
	for i := range records {
		records[i].clean()
		items[i] = item{Seq: b.seq + int64(i) + 1, Record: &records[i]}
	}
	err := b.spool.append(items, true)
	if err == nil {
		b.seq += int64(len(items))
		b.tellFull(nil)
		return
	}
	b.tellFull(err)
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range records {
		b.fold(&records[i])
	}
}

// rowsPerLine bounds a line of totals.
const rowsPerLine = 1000

// writeFolded writes folded totals into the spool, if there is room. b.writing is held.
func (b *Books) writeFolded() {
	b.mu.Lock()
	folded := b.folded
	b.folded = totals{}
	b.mu.Unlock()
	for keys := folded.sorted(); len(keys) > 0; {
		n := min(len(keys), rowsPerLine)
		line := item{Seq: b.seq + 1}
		for _, k := range keys[:n] {
			line.Totals = append(line.Totals, total{k, folded[k]})
		}
		if err := b.spool.append([]item{line}, false); err != nil {
			b.mu.Lock() // they are tried again with the next
			b.folded.merge(folded)
			b.mu.Unlock()
			return
		}
		b.seq++
		for _, k := range keys[:n] {
			delete(folded, k)
		}
		keys = keys[n:]
	}
}

// tellFull logs when records begin and cease to be dropped. b.writing is held.
func (b *Books) tellFull(err error) {
	switch {
	case err != nil && !b.full:
		b.config.Logger.Error("records are dropped, their totals are kept: the spool takes no more", "error", err.Error())
	case err == nil && b.full:
		b.config.Logger.Info("the spool takes records again")
	}
	b.full = err != nil
}

// syncAlways makes what is in the spool outlive a power cut, each second.
func (b *Books) syncAlways() {
	tick := time.NewTicker(syncEvery)
	defer tick.Stop()
	for {
		select {
		case <-b.ctx.Done():
			return
		case <-tick.C:
			if err := b.spool.sync(); err != nil {
				b.config.Logger.Debug("the spool cannot be synchronized", "error", err.Error())
			}
		}
	}
}

// Flush moves all that was recorded before into the database, or returns why not.
func (b *Books) Flush(ctx context.Context) error {
	b.writePending()
	b.posting.Lock()
	defer b.posting.Unlock()
	for b.spool.waits() {
		if err := b.postNext(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Close moves what there is into the database until ctx ends; the rest stays in
// the spool for the next process. It returns an error if records are lost.
func (b *Books) Close(ctx context.Context) error {
	b.cancel()
	b.done.Wait()
	flushed := b.Flush(ctx)
	b.mu.Lock()
	lost := len(b.folded)
	b.mu.Unlock()
	err := b.spool.close()
	if flushed != nil && b.config.Spool == "" || lost > 0 {
		err = errors.Join(fmt.Errorf("close the books: totals are lost: %d rows", lost), flushed, err)
	} else if flushed != nil {
		b.config.Logger.Warn("records wait in the spool for the database", "error", flushed.Error())
	}
	return err
}
