package upstream

import (
	"errors"
	"io"
	"sync"
	"time"

	"llmgw/internal/dialect"
)

// The bounds of holding a stream before it is let go.
const (
	// patience is how long a stream may go without content and be held. Clients
	// that wait five seconds for a byte should get one.
	patience = 3 * time.Second
	// maxPeek is how much of it is held. The first event of a response repeats
	// the request's instructions and tools.
	maxPeek = 256 << 10
	// peekSize is the size of one read.
	peekSize = 2 << 10
)

var peekBuffers = sync.Pool{New: func() any { return new([peekSize]byte) }}

// peek reads a stream until it has content, so that a stream that fails before
// can still be tried elsewhere. Comments, pings and events that only announce an
// answer are held; so is nothing else, and nothing after patience or maxPeek. It
// returns what the meter released, what is left to read, and the read's error; a
// stream that ends without content, though not as its API ends it, is
// io.ErrUnexpectedEOF.
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
		r := meter.Report()
		if errors.Is(err, io.EOF) && (seen == 0 || cutShort(r)) {
			return nil, body, io.ErrUnexpectedEOF
		}
		if err != nil || begun(r) {
			return prefix, body, err
		}
	}
	return prefix, body, nil
}

// begun reports whether an answer has content, or will have none.
func begun(r dialect.Report) bool {
	return r.Content || r.Failure != nil || r.Complete || r.Finish != "" || r.Unreadable || r.Events > 0 && !r.Stream
}

// cutShort reports whether a stream that has ended only announced an answer. One
// that is not of its API's making is left to the client.
func cutShort(r dialect.Report) bool {
	return r.Stream && !begun(r) && (r.Events == 0 || r.ID != "" || r.Model != "")
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
