package upstream

import (
	"bytes"
	"io"
	"sync"

	"llmgw/internal/dialect"
)

// maxPeek bounds what is read of a stream before it is let go: an error is
// shorter.
const maxPeek = 16 << 10

var peekBuffers = sync.Pool{New: func() any { return new([4 << 10]byte) }}

// peek reads a stream until its first event is there, so that a stream that
// begins with an error can still be tried elsewhere. It stops early at
// comments (the provider says that it needs time) and at maxPeek. It returns
// what the meter released and the read's error; a stream that ends without a
// byte is io.ErrUnexpectedEOF.
func peek(body io.Reader, meter dialect.Meter) (prefix []byte, err error) {
	buffer := peekBuffers.Get().(*[4 << 10]byte)
	defer peekBuffers.Put(buffer)
	var first []byte // as it came
	for seen := 0; seen < maxPeek; {
		n, err := body.Read(buffer[:])
		seen += n
		prefix = append(prefix, meter.Feed(buffer[:n])...)
		if err == io.EOF && seen == 0 {
			return nil, io.ErrUnexpectedEOF
		}
		if err != nil {
			return prefix, err
		}
		if r := meter.Report(); r.Events > 0 || r.Failure != nil {
			return prefix, nil
		}
		first = append(first, buffer[:min(n, 64)]...)
		if quiet(first) {
			return prefix, nil
		}
	}
	return prefix, nil
}

// quiet tells whether a stream has begun with a whole comment or a blank line.
func quiet(start []byte) bool {
	start = bytes.TrimPrefix(start, []byte("\xef\xbb\xbf"))
	if len(start) == 0 {
		return false
	}
	return start[0] == '\n' || start[0] == '\r' || start[0] == ':' && bytes.ContainsAny(start, "\r\n")
}

// ended is a body that was read to its end already.
type ended struct{ io.Closer }

// Read returns io.EOF.
func (ended) Read([]byte) (int, error) { return 0, io.EOF }
