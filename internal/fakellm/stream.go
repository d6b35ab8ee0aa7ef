package fakellm

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// shape is how one operation puts an answer into words.
type shape interface {
	// document appends the whole answer.
	document(b []byte, a *answer) []byte
}

// streamed is a shape that can be said piece by piece. Each method appends
// whole events to f.
type streamed interface {
	shape
	head(f *framing, a *answer)
	delta(f *framing, a *answer, i int)
	tail(f *framing, a *answer)
	broken(f *framing, a *answer) // an error event
}

// arrival is how long what was sent has to arrive before the connection is
// reset: a reset overtakes what the other side has not read yet.
const arrival = 50 * time.Millisecond

// send does what a's script asks for, and returns how it ended.
func (p *Provider) send(w http.ResponseWriter, r *http.Request, a *answer, seen *Seen) Outcome {
	s := a.script
	if !wait(r.Context(), s.Wait) {
		return PeerGone
	}
	switch {
	case s.Hang == hangAtOnce:
		<-r.Context().Done()
		return PeerGone
	case s.Drop:
		return drop(w)
	case s.Fail != 0 && (s.FailTimes == 0 || a.attempt <= s.FailTimes):
		f := s.scripted()
		f.model = a.model
		return a.refuse(w, f)
	case s.NoOptions && a.options:
		return a.refuse(w, fault{status: http.StatusBadRequest, param: "stream_options", code: "unknown_parameter", message: "Unknown parameter: 'stream_options'."})
	}
	say := p.shape(a)
	if chunked, ok := say.(streamed); ok && a.stream {
		return p.stream(w, r, a, seen, chunked)
	}
	return document(w, a, say)
}

// document sends the whole answer at once.
func document(w http.ResponseWriter, a *answer, say shape) Outcome {
	s := a.script
	body := say.document(make([]byte, 0, len(a.text)+1024), a)
	status := http.StatusOK
	if refused, ok := say.(interface{ status() int }); ok {
		status = refused.status()
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if other, ok := say.(interface{ contentType() string }); ok {
		h.Set("Content-Type", other.contentType())
	}
	switch {
	case s.HTML:
		h.Set("Content-Type", "text/html; charset=utf-8")
		body = []byte("<!doctype html><title>Checking your browser</title><p>One moment, please.</p>")
	case s.BadJSON:
		body = body[:len(body)/2]
	}
	if s.Gzip && a.gzip {
		h.Set("Content-Encoding", "gzip")
		body = compress(body)
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if s.Cut >= 0 {
		body = body[:len(body)/2]
	}
	if _, err := w.Write(body); err != nil {
		return PeerGone
	}
	if s.Cut >= 0 {
		return reset(w)
	}
	if status != http.StatusOK {
		return Failed
	}
	return Done
}

// stream sends the answer in chunks, each when it is due.
func (p *Provider) stream(w http.ResponseWriter, r *http.Request, a *answer, seen *Seen, say streamed) Outcome {
	out := newOutlet(w, a)
	defer out.close()
	if !out.flush() || !wait(r.Context(), a.script.Hold) {
		return PeerGone
	}
	started := time.Now()
	if a.script.Err != 0 {
		say.head(&out.framing, a)
	}
	for i := range a.chunks {
		if outcome, breaks := out.breaks(r.Context(), w, a, i, say); breaks {
			return outcome
		}
		if !wait(r.Context(), time.Until(started.Add(time.Duration(i)*a.script.Every))) {
			return PeerGone
		}
		say.delta(&out.framing, a, i)
		if !out.send(r.Context()) {
			return PeerGone
		}
		p.stats.chunk(seen)
	}
	if outcome, breaks := out.breaks(r.Context(), w, a, a.chunks, say); breaks {
		return outcome
	}
	say.tail(&out.framing, a)
	out.finish()
	if !out.send(r.Context()) || !wait(r.Context(), a.script.Tail) {
		return PeerGone
	}
	return Done
}

// breaks does what the script has in mind after i chunks. It tells whether
// that ended the stream.
func (o *outlet) breaks(ctx context.Context, w http.ResponseWriter, a *answer, i int, say streamed) (Outcome, bool) {
	due := func(at int64) bool { return at == int64(i) || at > int64(i) && i == a.chunks }
	s := a.script
	switch {
	case due(s.Hang):
		o.send(ctx)
		<-ctx.Done()
		return PeerGone, true
	case due(s.Err):
		say.broken(&o.framing, a)
		o.finish()
		o.send(ctx)
		return Failed, true
	case due(s.End):
		o.send(ctx)
		return Cut, true
	case due(s.Cut):
		o.send(ctx)
		return reset(w), true
	}
	return "", false
}

// outlet is where a stream goes.
type outlet struct {
	framing
	w     io.Writer
	under http.Flusher
	zip   *gzip.Writer // nil: not compressed
}

func newOutlet(w http.ResponseWriter, a *answer) *outlet {
	o := &outlet{framing: framing{script: a.script, wire: a.wire, buf: make([]byte, 0, 1024)}, w: w}
	h := w.Header()
	h.Set("Content-Type", [...]string{
		"text/event-stream; charset=utf-8", "application/json; charset=UTF-8", "application/x-ndjson", "application/vnd.amazon.eventstream",
	}[a.wire])
	h.Set("Cache-Control", "no-cache")
	o.under, _ = w.(http.Flusher) // a recorder in a test may have none
	if a.script.Gzip && a.gzip {
		h.Set("Content-Encoding", "gzip")
		o.zip = gzip.NewWriter(w)
		o.w = o.zip
	}
	w.WriteHeader(http.StatusOK)
	return o
}

// send writes what the framing holds. It tells whether the client is there.
func (o *outlet) send(ctx context.Context) bool {
	defer func() { o.buf = o.buf[:0] }()
	if !o.script.Bytes {
		if _, err := o.w.Write(o.buf); err != nil {
			return false
		}
		return o.flush() && ctx.Err() == nil
	}
	for i := range o.buf {
		if _, err := o.w.Write(o.buf[i : i+1]); err != nil {
			return false
		}
		if !o.flush() || !wait(ctx, o.script.BytesEvery) {
			return false
		}
	}
	return ctx.Err() == nil
}

func (o *outlet) flush() bool {
	if o.zip != nil && o.zip.Flush() != nil {
		return false
	}
	if o.under != nil {
		o.under.Flush()
	}
	return true
}

func (o *outlet) close() {
	if o.zip != nil {
		_ = o.zip.Close() // the client may be gone
	}
}

// reset breaks an answer off after what was written of it.
func reset(w http.ResponseWriter) Outcome {
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
	time.Sleep(arrival)
	return drop(w)
}

// drop breaks the connection off, with a TCP reset where there is one.
func drop(w http.ResponseWriter) Outcome {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // HTTP/2: ends the stream
	}
	under := conn
	if t, ok := conn.(*tls.Conn); ok {
		under = t.NetConn()
	}
	if tcp, ok := under.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // closed already: nothing to reset
	}
	_ = under.Close() // likewise
	return Cut
}

// wait returns after d, or false as soon as ctx is done.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func compress(b []byte) []byte {
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	_, _ = z.Write(b) // a buffer takes everything
	_ = z.Close()
	return buf.Bytes()
}

// acceptsGzip tells whether a client takes compressed answers.
func acceptsGzip(h http.Header) bool {
	return strings.Contains(strings.Join(h.Values("Accept-Encoding"), ","), "gzip")
}
