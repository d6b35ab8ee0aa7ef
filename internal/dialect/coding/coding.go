// Package coding reads bodies that are compressed by one of HTTP's content
// codings: gzip, deflate, br and zstd. It writes none, and knows nothing of
// what the bodies hold.
package coding

import (
	"bufio"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"
)

// ErrUnknown says that a Content-Encoding is none of those that can be read.
var ErrUnknown = errors.New("coding: unknown content coding")

// maxWindow bounds the memory of a zstd decoder. RFC 9659 allows no more over
// HTTP.
const maxWindow = 8 << 20

// Plain tells whether a Content-Encoding stands for a body as it is.
func Plain(name string) bool {
	name = canonical(name)
	return name == "" || name == "identity"
}

// Known tells whether Open can read a Content-Encoding.
func Known(name string) bool {
	switch canonical(name) {
	case "", "identity", "gzip", "x-gzip", "deflate", "br", "zstd":
		return true
	}
	return false
}

func canonical(name string) string { return strings.ToLower(strings.TrimSpace(name)) }

// Open returns a reader of what r holds in a Content-Encoding. It may read from
// r, and fails where r is not what the name says, or with ErrUnknown. Close
// gives up what the reader holds; r is not closed.
func Open(name string, r io.Reader) (io.ReadCloser, error) {
	switch canonical(name) {
	case "", "identity":
		return io.NopCloser(r), nil
	case "gzip", "x-gzip":
		return openGzip(r)
	case "deflate":
		return openDeflate(r)
	case "br":
		return io.NopCloser(brotli.NewReader(r)), nil
	case "zstd":
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	}
	return nil, ErrUnknown
}

// members reads the members of a gzip body. The package's own reader looks for
// another member before it hands out the end of one, which may be long in
// coming.
type members struct {
	*gzip.Reader
	from  *bufio.Reader
	ended bool // the member has, and was handed out
}

func openGzip(r io.Reader) (io.ReadCloser, error) {
	from := bufio.NewReaderSize(r, 512)
	z, err := gzip.NewReader(from)
	if err != nil {
		return nil, err
	}
	z.Multistream(false)
	return &members{Reader: z, from: from}, nil
}

// Read reads up to the end of a member.
func (m *members) Read(p []byte) (int, error) {
	for {
		if m.ended {
			if err := m.Reset(m.from); err != nil {
				return 0, err // io.EOF: there is no other
			}
			m.Multistream(false)
			m.ended = false
		}
		n, err := m.Reader.Read(p)
		if m.ended = errors.Is(err, io.EOF); m.ended {
			err = nil
		}
		if n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
	}
}

// openDeflate reads zlib, which the name means, or the bare deflate that some
// servers and clients send.
func openDeflate(r io.Reader) (io.ReadCloser, error) {
	b := bufio.NewReaderSize(r, 512)
	head, err := b.Peek(2)
	if err != nil {
		return nil, err
	}
	if head[0]&0x0F == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
		return zlib.NewReader(b)
	}
	return flate.NewReader(b), nil
}
