package watch

import (
	"bufio"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"iter"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"
)

// unpacker reads a copy of a compressed answer as it comes. The decoders want
// to pull and the answer is pushed, so a decoder runs as a coroutine that gives
// way whenever it has read all there is: nothing runs beside the caller.
//
//	write ─► next ─► run … Read finds nothing ─► yield ─► write returns
type unpacker struct {
	in     []byte
	closed bool
	open   decoder
	out    func([]byte)
	yield  func(struct{}) bool
	next   func() (struct{}, bool) // nil until there is something to decode
	stop   func()
}

// decoder opens a stream; release gives up what it holds.
type decoder func(io.Reader) (r io.Reader, release func(), err error)

// unpackSize is how much is decoded at a time.
const unpackSize = 4 << 10

// maxWindow bounds the memory of a zstd decoder.
const maxWindow = 8 << 20

var errCut = errors.New("the answer was cut")

// newUnpacker returns an unpacker for a Content-Encoding, which hands on what
// it decodes; nil if it does not know it.
func newUnpacker(encoding string, out func([]byte)) *unpacker {
	open := opener(strings.ToLower(strings.TrimSpace(encoding)))
	if open == nil {
		return nil
	}
	return &unpacker{open: open, out: out}
}

func opener(encoding string) decoder {
	switch encoding {
	case "gzip", "x-gzip":
		return func(r io.Reader) (io.Reader, func(), error) {
			z, err := gzip.NewReader(r)
			return z, nop, err
		}
	case "deflate":
		return openDeflate
	case "br":
		return func(r io.Reader) (io.Reader, func(), error) { return brotli.NewReader(r), nop, nil }
	case "zstd":
		return func(r io.Reader) (io.Reader, func(), error) {
			z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
			if err != nil {
				return nil, nop, err
			}
			return z, z.Close, nil
		}
	}
	return nil
}

func nop() {}

// openDeflate reads zlib, which the name means, or the bare deflate that some
// servers send.
func openDeflate(r io.Reader) (io.Reader, func(), error) {
	b := bufio.NewReaderSize(r, 512)
	head, err := b.Peek(2)
	if err != nil {
		return nil, nop, err
	}
	if head[0]&0x0F == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
		z, err := zlib.NewReader(b)
		return z, nop, err
	}
	return flate.NewReader(b), nop, nil
}

// run decodes until the end or an error, then ends: what follows is not read.
func (u *unpacker) run(yield func(struct{}) bool) {
	u.yield = yield
	r, release, err := u.open(u)
	defer release()
	if err != nil {
		return
	}
	buf := make([]byte, unpackSize)
	for {
		n, err := r.Read(buf)
		u.out(buf[:n])
		if err != nil {
			return
		}
	}
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
	if u.next == nil {
		u.next, u.stop = iter.Pull(u.run)
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
