package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"time"

	"llmgw/internal/dialect/coding"
	"llmgw/internal/fault"
)

// How long a body may take: nothing may come for bodyIdle, and all of it must
// come at bodyRate, after as long again to begin with. A client that sends a
// byte now and then would hold its connection, and what it sent, for ever.
const (
	bodyIdle = 30 * time.Second
	bodyRate = 8 << 10 // bytes a second
)

// maxUnseen is the most memory that a body gets by its announced length alone.
const maxUnseen = 1 << 20

// readBody reads a request's body to its end, decoded from its
// Content-Encoding. It returns RequestTooLarge without reading a body that says
// or turns out to be larger than limit bytes, sent or decoded.
//
// The buffer belongs to this request alone and is never reused: the transport
// may still read from it after the provider has answered.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	body, err := readAll(w, r, limit)
	if err != nil {
		return nil, err
	}
	encoding := r.Header.Get("Content-Encoding")
	if coding.Plain(encoding) {
		return body, nil
	}
	decoded, err := decode(encoding, body, limit)
	if err != nil {
		return nil, err
	}
	r.Header.Del("Content-Encoding")
	return decoded, nil
}

func readAll(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	conn := http.NewResponseController(w)
	size := r.ContentLength + 1 // one more byte, to see the end
	if size <= 0 {
		size = 4 << 10
	}
	body, began := make([]byte, 0, min(size, maxUnseen)), time.Now()
	for {
		if len(body) == cap(body) {
			body = slices.Grow(body, int(max(1, min(size-int64(len(body)), int64(len(body))))))
		}
		_ = conn.SetReadDeadline(bodyDeadline(began, time.Now(), len(body))) // not every writer has one
		// Not a byte more than shows that it is too large: a chunk is waited for.
		n, err := r.Body.Read(body[len(body):min(int64(cap(body)), limit+1)])
		body = body[:len(body)+n]
		if int64(len(body)) > limit {
			return nil, tooLarge(limit)
		}
		if errors.Is(err, io.EOF) {
			_ = conn.SetReadDeadline(time.Time{}) // as above
			return body, nil
		}
		if err != nil {
			return nil, broken(err)
		}
	}
}

// bodyDeadline is when the next bytes must be there of a body that began to come
// at began, and of which n bytes have come by now.
func bodyDeadline(began, now time.Time, n int) time.Time {
	idle := now.Add(bodyIdle)
	whole := began.Add(bodyIdle + time.Duration(n)*time.Second/bodyRate)
	if whole.Before(idle) {
		return whole
	}
	return idle
}

// broken refuses a body whose reading ended with err.
func broken(err error) error {
	e := &fault.Error{Code: fault.InvalidRequest, Message: "The request's body did not arrive whole.", NoRetry: true, Err: err}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		e.Message = fmt.Sprintf("The request's body came too slowly: nothing for %s, or less than %d bytes a second.", bodyIdle, bodyRate)
	}
	return e
}

func tooLarge(limit int64) error {
	return &fault.Error{
		Code: fault.RequestTooLarge, NoRetry: true,
		Message: fmt.Sprintf("The request's body is larger than the %d bytes that are allowed here.", limit),
	}
}

// decode undoes a Content-Encoding; the result is at most limit bytes.
func decode(encoding string, body []byte, limit int64) ([]byte, error) {
	r, err := coding.Open(encoding, bytes.NewReader(body))
	if errors.Is(err, coding.ErrUnknown) {
		return nil, fault.Invalid("Content-Encoding", fmt.Sprintf("The content encoding %q is not understood; use gzip, deflate, br, zstd or none.", encoding))
	}
	if err == nil {
		defer func() { _ = r.Close() }() // it was read
		body, err = io.ReadAll(io.LimitReader(r, limit+1))
	}
	if err != nil {
		e := fault.Invalid("Content-Encoding", fmt.Sprintf("The request's body is not valid %s.", encoding))
		e.Err = err
		return nil, e
	}
	if int64(len(body)) > limit {
		return nil, tooLarge(limit)
	}
	return body, nil
}
