package upstream

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"time"

	"llmgw/internal/dialect"
)

// The bounds of looking at a stream before it is let go.
const (
	// patience is how long the first event may take: a provider that is busy
	// says so at once, and a client should have its header soon.
	patience = 500 * time.Millisecond
	// maxPeek is more than any error needs.
	maxPeek = 16 << 10
	// peekSize is the size of one read.
	peekSize = 2 << 10
)

var peekBuffers = sync.Pool{New: func() any { return new([peekSize]byte) }}

// peek reads a stream until its first event is there, so that a stream that
// begins with an error can still be tried elsewhere. It stops early at
// comments (the provider says that it needs time), after patience and at
// maxPeek. It returns what the meter released, what is left to read, and the
// read's error; a stream that ends without a byte is io.ErrUnexpectedEOF.
func peek(body io.ReadCloser, meter dialect.Meter) (prefix []byte, rest io.ReadCloser, err error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	buffer := peekBuffers.Get().(*[peekSize]byte)
	ahead := &readAhead{from: body, buffer: buffer[:]}
	defer func() {
		if ahead.done == nil { // nobody writes into it any more
			peekBuffers.Put(buffer)
		}
	}()
	var first []byte // as it came
	for seen := 0; seen < maxPeek; {
		read := ahead.begin()
		select {
		case <-read:
		case <-timer.C:
			return prefix, ahead, nil
		}
		p, err := ahead.take()
		seen += len(p)
		prefix = append(prefix, meter.Feed(p)...)
		if errors.Is(err, io.EOF) && seen == 0 {
			return nil, body, io.ErrUnexpectedEOF
		}
		if err != nil {
			return prefix, body, err
		}
		if r := meter.Report(); r.Events > 0 || r.Failure != nil {
			return prefix, body, nil
		}
		first = append(first, p[:min(len(p), 64)]...)
		if quiet(first) {
			return prefix, body, nil
		}
	}
	return prefix, body, nil
}

// quiet tells whether a stream has begun with a whole comment or a blank line.
func quiet(start []byte) bool {
	start = bytes.TrimPrefix(start, []byte("\xef\xbb\xbf"))
	if len(start) == 0 {
		return false
	}
	return start[0] == '\n' || start[0] == '\r' || start[0] == ':' && bytes.ContainsAny(start, "\r\n")
}

// readAhead is a body of which one read may be under way in a goroutine of its
// own. The goroutine ends with the read, at the latest when the body is closed.
type readAhead struct {
	from   io.ReadCloser
	buffer []byte
	done   chan struct{} // closed when the read has ended; nil: none under way
	data   []byte        // what it read and nobody took yet
	err    error
}

// begin begins a read and returns the channel that is closed at its end.
func (r *readAhead) begin() <-chan struct{} {
	done := make(chan struct{})
	r.done = done
	go func() {
		defer close(done)
		var n int
		n, r.err = r.from.Read(r.buffer)
		r.data = r.buffer[:n]
	}()
	return done
}

// take returns what the read that has ended brought.
func (r *readAhead) take() ([]byte, error) {
	r.done = nil
	return r.data, r.err
}

// Read returns what was read ahead, and then what follows.
func (r *readAhead) Read(p []byte) (int, error) {
	if r.done != nil {
		<-r.done
		r.done = nil
	}
	if len(r.data) > 0 {
		n := copy(p, r.data)
		r.data = r.data[n:]
		return n, nil
	}
	if err := r.err; err != nil {
		return 0, err
	}
	return r.from.Read(p)
}

// Close closes the body, which ends a read that is under way.
func (r *readAhead) Close() error { return r.from.Close() }

// ended is a body that was read to its end already.
type ended struct{ io.Closer }

// Read returns io.EOF.
func (ended) Read([]byte) (int, error) { return 0, io.EOF }
