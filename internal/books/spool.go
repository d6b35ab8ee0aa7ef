package books

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// item is one line of the spool: a record, or totals of records that had no room.
type item struct {
	Seq    int64   `json:"seq"` // of the record; of totals: of their last record
	Record *Record `json:"record,omitempty"`
	Totals []total `json:"totals,omitempty"`
	Event  *Event  `json:"event,omitempty"`

	end place // behind it
}

// total is a row of totals on disk.
type total struct {
	Key  key  `json:"key"`
	Sums sums `json:"sums"`
}

// place is where a line begins or ends.
type place struct {
	Segment int
	Offset  int64
}

const (
	segmentBytes = 8 << 20
	// mostInMemory bounds the items that wait in memory for the database. Further
	// ones are read from the disk again.
	mostInMemory = 8192
)

// errFull says that there is no room for records.
var errFull = errors.New("the spool is full")

// spool is a queue of items on disk, written at its end and read from its front.
// Its newest items are in memory too, as long as the reader keeps up. Its files
// are its process's own, by a lock on one of them; when the process is dead,
// another posts what they hold. Without a directory it is in memory alone.
//
//	INSTANCE.lock  INSTANCE.1  INSTANCE.2 …
type spool struct {
	dir, instance string
	most          int64 // bytes, seven eighths of them for records

	mu    sync.Mutex
	lock  *os.File
	file  *os.File
	write place
	read  place
	sizes map[int]int64 // of segments that are left
	tail  []item        // the items from read on, if it is not empty
	dirty bool          // something is written that is not synchronized
}

// openSpool makes instance's files in dir. An error names the directory.
func openSpool(dir, instance string, most int64) (*spool, error) {
	s := &spool{dir: dir, instance: instance, most: most, sizes: map[int]int64{}, write: place{Segment: 1}, read: place{Segment: 1}}
	if dir == "" {
		return s, nil
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("records.spool.path: %w", err)
	}
	var err error
	if s.lock, err = lockFile(s.path("lock")); err == nil {
		err = s.open()
	}
	if err != nil {
		return nil, fmt.Errorf("records.spool.path cannot be written: %w", err)
	}
	return s, nil
}

// errHeld says that another process holds a lock.
var errHeld = errors.New("the spool is another process's")

func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close() // nothing was written
		return nil, errHeld
	}
	return f, nil
}

func (s *spool) path(end string) string { return filepath.Join(s.dir, s.instance+"."+end) }

func (s *spool) segment(n int) string { return s.path(strconv.Itoa(n)) }

// open opens the segment that is written.
func (s *spool) open() error {
	f, err := os.OpenFile(s.segment(s.write.Segment), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	s.file = f
	return err
}

// append writes items at the end. What has no room is refused whole with errFull;
// whatever the error, nothing of it is in the spool. totals may fill the last eighth.
func (s *spool) append(items []item, records bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir == "" {
		if len(s.tail) >= mostInMemory && records {
			return errFull
		}
		for i := range items {
			s.write.Offset++
			items[i].end = s.write
		}
		s.tail = append(s.tail, items...)
		return nil
	}
	before := s.write
	var lines bytes.Buffer
	for i := range items {
		line, err := json.Marshal(&items[i])
		if err != nil {
			return fmt.Errorf("record %d: %w", items[i].Seq, err)
		}
		lines.Write(line)
		lines.WriteByte('\n')
		items[i].end = place{before.Segment, before.Offset + int64(lines.Len())}
	}
	room := s.most
	if records {
		room -= s.most / 8
	}
	if s.bytes()+int64(lines.Len()) > room {
		return errFull
	}
	if _, err := s.file.Write(lines.Bytes()); err != nil {
		_ = s.file.Truncate(before.Offset) // a line that is torn is skipped by its reader
		return err
	}
	s.write.Offset += int64(lines.Len())
	s.sizes[s.write.Segment], s.dirty = s.write.Offset, true
	behind := s.read // what is read is known up to here
	if len(s.tail) > 0 {
		behind = s.tail[len(s.tail)-1].end
	}
	if s.normal(behind) == before && len(s.tail) < mostInMemory {
		s.tail = append(s.tail, items...)
	}
	if s.write.Offset >= segmentBytes {
		return s.rotate()
	}
	return nil
}

// rotate goes on in a new segment. If that fails the old one grows.
func (s *spool) rotate() error {
	old := s.file
	s.write = place{Segment: s.write.Segment + 1}
	if err := s.open(); err != nil {
		s.write = place{s.write.Segment - 1, s.sizes[s.write.Segment-1]}
		s.file = old
		return nil //nolint:nilerr // the items are written
	}
	s.read = s.normal(s.read)
	_ = old.Sync()  // the next second's would not see it
	_ = old.Close() // it is written
	return nil
}

// normal is p, or the beginning of the next segment if p is the end of one that is
// not written any more.
func (s *spool) normal(p place) place {
	for p.Segment < s.write.Segment && s.dir != "" && p.Offset >= s.sizes[p.Segment] {
		p = place{Segment: p.Segment + 1}
	}
	return p
}

// bytes is how much the spool holds.
func (s *spool) bytes() int64 {
	var sum int64
	for _, n := range s.sizes {
		sum += n
	}
	return sum
}

// waits reports whether there are items.
func (s *spool) waits() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read != s.write
}

// next returns the first items, most of them at most, and leaves them there.
func (s *spool) next(most int) ([]item, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.tail) > 0 || s.dir == "" {
		return s.tail[:min(most, len(s.tail)):min(most, len(s.tail))], nil
	}
	for s.read != s.write {
		items, err := readSegment(s.segment(s.read.Segment), s.read, most)
		if err != nil || len(items) > 0 {
			return items, err
		}
		if s.read.Segment == s.write.Segment {
			s.read = s.write // only a torn line was left
			break
		}
		s.remove(s.read.Segment)
		s.read = place{Segment: s.read.Segment + 1}
	}
	return nil, nil
}

// done removes the items up to the place.
func (s *spool) done(to place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.tail) > 0 && !to.before(s.tail[0].end) {
		s.tail[0] = item{}
		s.tail = s.tail[1:]
	}
	if len(s.tail) == 0 {
		s.tail = nil
	}
	to = s.normal(to)
	for n := s.read.Segment; n < to.Segment; n++ {
		s.remove(n)
	}
	s.read = to
	if s.read == s.write && s.dir != "" && s.write.Offset > 0 && s.file.Truncate(0) == nil {
		s.read.Offset, s.write.Offset, s.sizes[s.write.Segment], s.dirty = 0, 0, 0, false
	}
}

func (p place) before(o place) bool {
	return p.Segment < o.Segment || p.Segment == o.Segment && p.Offset < o.Offset
}

func (s *spool) remove(n int) {
	if s.dir != "" && n != s.write.Segment {
		_ = os.Remove(s.segment(n)) // posted twice it counts once
	}
	delete(s.sizes, n)
}

// sync makes what is written outlive a power cut.
func (s *spool) sync() error {
	s.mu.Lock()
	f, dirty := s.file, s.dirty
	s.dirty = false
	s.mu.Unlock()
	if !dirty {
		return nil
	}
	if err := f.Sync(); err != nil && !errors.Is(err, os.ErrClosed) { // closed: rotate did it
		return err
	}
	return nil
}

// close ends the spool; an empty one leaves no file.
func (s *spool) close() error {
	if s.dir == "" {
		return nil
	}
	empty, err := !s.waits(), s.sync()
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.file.Close() // it is synchronized
	if empty {
		_ = os.Remove(s.segment(s.write.Segment))
		_ = os.Remove(s.path("lock"))
	}
	return errors.Join(err, s.lock.Close())
}

// readSegment reads whole lines from a place on. A line that is no item is skipped.
func readSegment(path string, from place, most int) ([]item, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	if _, err := f.Seek(from.Offset, io.SeekStart); err != nil {
		return nil, err
	}
	var items []item
	lines := bufio.NewReaderSize(f, 1<<16)
	for len(items) < most {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return items, nil // what has no end is torn
		}
		if err != nil {
			return items, err
		}
		from.Offset += int64(len(line))
		i := item{end: from}
		if json.Unmarshal(line, &i) == nil && i.Seq > 0 {
			items = append(items, i)
		} else if len(items) > 0 {
			items[len(items)-1].end = from
		}
	}
	return items, nil
}
