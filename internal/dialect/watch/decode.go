package watch

import (
	"errors"
	"io"
	"iter"
	"unicode/utf8"

	"llmgw/internal/dialect/coding"
)

// unpacker reads a copy of a compressed answer as it comes. The decoders want
// to pull and the answer is pushed, so a decoder runs as a coroutine that gives
// way whenever it has read all there is: nothing runs beside the caller.
//
//	write ─► next ─► run … Read finds nothing ─► yield ─► write returns
type unpacker struct {
	encoding string
	in       []byte
	closed   bool
	start    []byte // what came before anything was decoded
	started  bool   // something was, or start is longer than maxStart
	plain    bool   // the answer is not compressed, whatever it says
	failed   bool   // the answer is not what its encoding says, nor plain
	out      func([]byte)
	yield    func(struct{}) bool
	next     func() (struct{}, bool) // nil until there is something to decode
	stop     func()
}

// maxStart is more than a decoder needs to see that an answer is not compressed.
const maxStart = 4 << 10

// unpackSize is how much is decoded at a time.
const unpackSize = 4 << 10

var errCut = errors.New("the answer was cut")

// newUnpacker returns an unpacker for a Content-Encoding, which hands on what
// it decodes; nil if it does not know it.
func newUnpacker(encoding string, out func([]byte)) *unpacker {
	if !coding.Known(encoding) {
		return nil
	}
	return &unpacker{encoding: encoding, out: out}
}

// run decodes until the end or an error, then ends: what follows is not read.
func (u *unpacker) run(yield func(struct{}) bool) {
	u.yield = yield
	r, err := coding.Open(u.encoding, u)
	if err != nil {
		u.fail()
		return
	}
	defer func() { _ = r.Close() }() // it was read as far as it goes
	buf := make([]byte, unpackSize)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			u.started, u.start = true, nil
			u.out(buf[:n])
		}
		if err != nil && !errors.Is(err, io.EOF) {
			u.fail()
		}
		if err != nil {
			return
		}
	}
}

// fail notes that the answer cannot be decoded. If nothing was, it is read as it
// is: a server may say that it compresses, and not do so.
func (u *unpacker) fail() {
	switch {
	case u.closed: // it was cut
	case u.started || !utf8.Valid(u.start[:runeEnd(u.start)]):
		u.failed = true
	default:
		u.plain = true
		u.out(u.start)
	}
	u.start = nil
}

// Read gives the decoder what has come, and gives way while there is nothing.
func (u *unpacker) Read(p []byte) (int, error) {
	for len(u.in) == 0 {
		if u.closed {
			return 0, errCut
		}
		if !u.yield(struct{}{}) {
			return 0, errCut
		}
	}
	n := copy(p, u.in)
	u.in = u.in[n:]
	return n, nil
}

// write decodes the next bytes.
func (u *unpacker) write(p []byte) {
	if u.plain {
		u.out(p)
		return
	}
	if u.next == nil {
		u.next, u.stop = iter.Pull(u.run)
	}
	if !u.started && len(u.start) < maxStart {
		u.start = append(u.start, p...)
	} else {
		u.started, u.start = true, nil
	}
	u.in = p
	u.next()
	u.in = nil
}

// close ends the decoder.
func (u *unpacker) close() {
	if u.next == nil {
		return
	}
	u.closed = true
	u.next() // let it hand on what it still holds
	u.stop()
}
