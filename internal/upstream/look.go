package upstream

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/coding"
)

// maxLook is the most of a document that is read to see whether it is an error.
// Errors are small.
const maxLook = 32 << 10

// look is a document whose start was read before its caller reads all of it.
// The start lies in a buffer that goes back to its pool when it was read again.
type look struct {
	from   io.ReadCloser
	buffer *[peekSize]byte
	start  []byte // what is to be read again
	err    error  // what ended the reading of start; nil: from goes on
}

// looked reads the start of a document that should be an answer. If the
// document is an error, as some providers send with status 200, it returns that;
// otherwise Body begins with what was read.
func (r *Response) looked(job *Job, out dialect.Outbound) *dialect.Failure {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		return nil
	}
	l := &r.look
	l.from, l.buffer = r.Body, peekBuffers.Get().(*[peekSize]byte)
	r.Body = l
	l.more(l.buffer[:0:peekSize])
	if !mayFail(l.start, r.Header) {
		return nil
	}
	for l.err == nil && len(l.start) < maxLook {
		l.more(l.start)
	}
	if !errors.Is(l.err, io.EOF) {
		return nil // too large for an error, or it broke: its reader sees
	}
	meter := r.meter(job, out)
	meter.Feed(bytes.Clone(l.start))
	meter.End()
	report := meter.Report()
	if !report.FailedFirst || report.InputKnown || report.OutputKnown { // what has usage is billed
		return nil
	}
	return report.Failure
}

// more appends what one read brings to start, which is held in b.
func (l *look) more(b []byte) {
	if len(b) == cap(b) {
		b = append(b, make([]byte, len(b))...)[:len(b)]
	}
	n, err := l.from.Read(b[len(b):cap(b)])
	l.start, l.err = b[:len(b)+n], err
}

// mayFail reports whether a document that begins so may be an error.
func mayFail(start []byte, h http.Header) bool {
	return bytes.Contains(start, []byte(`"error"`)) || !coding.Plain(h.Get("Content-Encoding"))
}

// Read implements io.Reader.
func (l *look) Read(p []byte) (int, error) {
	if len(l.start) > 0 {
		n := copy(p, l.start)
		l.start = l.start[n:]
		return n, nil
	}
	if l.buffer != nil {
		peekBuffers.Put(l.buffer)
		l.buffer = nil
	}
	if l.err != nil {
		return 0, l.err
	}
	return l.from.Read(p)
}

// Close implements io.Closer.
func (l *look) Close() error { return l.from.Close() }
