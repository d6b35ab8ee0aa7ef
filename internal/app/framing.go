package app

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
)

// maxFramingLine is as much of a line as is looked at: the fields that frame a
// message are shorter.
const maxFramingLine = 256

// framing follows the HTTP/1 messages that a client sends on one connection, and
// notes a head that two servers could read differently: one that has both
// Content-Length and Transfer-Encoding, a Transfer-Encoding in HTTP/1.0, or a
// folded field. net/http removes the length of such a head before any handler
// sees it (RFC 9112, 6.1 wants the connection closed). The zero framing is at the
// start of a message. What net/http refuses by itself ends the following.
//
//	head ──► length bytes of body ─────────► head
//	     └─► chunk size ──► chunk ──► … ──► trailer ──► head
type framing struct {
	phase  phase
	left   int64  // bytes of body or chunk until the next line
	line   []byte // the line so far, at most maxFramingLine bytes of it
	head   head
	broken bool // an ambiguous head came
}

type phase int

const (
	inHead phase = iota
	inChunks
	inTrailer
	unfollowed // HTTP/2, or what net/http ends
)

// head is what a message's head says of its framing.
type head struct {
	began   bool
	old     bool  // HTTP/1.0
	length  int64 // below 0: none that can be read
	sized   bool  // it has a Content-Length
	encoded bool  // it has a Transfer-Encoding
}

// feed takes the next bytes that came.
func (f *framing) feed(b []byte) {
	for len(b) > 0 && f.phase != unfollowed {
		if f.left > 0 {
			n := min(f.left, int64(len(b)))
			f.left, b = f.left-n, b[n:]
			continue
		}
		end := bytes.IndexByte(b, '\n')
		piece := b
		if end >= 0 {
			piece = b[:end]
		}
		whole := piece
		if len(f.line) > 0 || end < 0 {
			f.line = append(f.line, piece[:min(len(piece), maxFramingLine-len(f.line))]...)
			whole = f.line
		}
		if end < 0 {
			return
		}
		b = b[end+1:]
		f.read(bytes.TrimSuffix(whole[:min(len(whole), maxFramingLine)], []byte("\r")))
		f.line = f.line[:0]
	}
}

// read takes one line.
func (f *framing) read(line []byte) {
	switch {
	case f.phase == inChunks:
		f.chunk(line)
	case f.phase == inTrailer:
		if len(line) == 0 {
			f.phase, f.head = inHead, head{}
		}
	case !f.head.began:
		f.head.began = true
		f.head.old = bytes.HasSuffix(line, []byte("HTTP/1.0"))
		if bytes.HasPrefix(line, []byte("PRI ")) {
			f.phase = unfollowed
		}
	case len(line) == 0:
		f.body()
	default:
		f.field(line)
	}
}

// field takes a line of a head.
func (f *framing) field(line []byte) {
	if line[0] == ' ' || line[0] == '\t' {
		f.ambiguous()
		return
	}
	name, value, _ := strings.Cut(string(line), ":")
	switch {
	case strings.EqualFold(name, "Transfer-Encoding"):
		f.head.encoded = true
	case strings.EqualFold(name, "Content-Length") && len(line) == maxFramingLine:
		f.ambiguous() // net/http may read on
	case strings.EqualFold(name, "Content-Length"):
		n, err := strconv.ParseInt(strings.Trim(value, " \t"), 10, 64)
		if err != nil {
			n = -1
		}
		f.head.sized, f.head.length = true, n
	}
}

// body begins what follows a head.
func (f *framing) body() {
	switch h := f.head; {
	case h.encoded && (h.sized || h.old):
		f.ambiguous()
	case h.encoded:
		f.phase = inChunks
	case h.length < 0: // net/http refuses it; beside an encoding it would not look
		f.phase = unfollowed
	default:
		f.left, f.head = h.length, head{}
	}
}

// chunk takes the line before a chunk, which has its size.
func (f *framing) chunk(line []byte) {
	size, _, _ := strings.Cut(string(line), ";")
	n, err := strconv.ParseInt(strings.Trim(size, " \t"), 16, 64)
	switch {
	case err != nil || n < 0 || n > 1<<62:
		f.phase = unfollowed
	case n == 0:
		f.phase = inTrailer
	default:
		f.left = n + int64(len("\r\n"))
	}
}

func (f *framing) ambiguous() { f.broken, f.phase = true, unfollowed }

// followed is a client's connection whose framing is followed as it is read.
type followed struct {
	net.Conn
	leave     func()  // called when it is closed; any number of times
	framing   framing // of the one goroutine that reads at a time
	ambiguous atomic.Bool
}

// Read implements net.Conn.
func (c *followed) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && !c.ambiguous.Load() {
		c.framing.feed(p[:n])
		if c.framing.broken {
			c.ambiguous.Store(true)
		}
	}
	return n, err
}

// Close implements net.Conn.
func (c *followed) Close() error {
	c.leave()
	return c.Conn.Close()
}

// CloseWrite lets the server end its side first, so that the client reads an
// answer that came before its request was whole.
func (c *followed) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

type followedKey struct{}

// follow is a Server's ConnContext: handlers find the connection by it.
func follow(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, followedKey{}, c)
}

// framed serves h, but for requests on a connection that brought an ambiguous
// head: those are refused, and the connection is closed. What is read on from
// such a connection could be another client's request. Over TLS, where nothing
// can be followed, a request in chunks is the last of its connection.
func framed(h http.Handler, refuse http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, plain := r.Context().Value(followedKey{}).(*followed)
		if plain && c.ambiguous.Load() {
			w.Header().Set("Connection", "close")
			refuse(w, r)
			return
		}
		if !plain && r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}
