package proxy

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

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

// readAll reads the body as it is sent.
func (b *body) readAll(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	conn := http.NewResponseController(w)
	first, most := r.ContentLength+1, r.ContentLength+1 // one more byte, to see the end
	if most <= 0 {
		first, most = 4<<10, b.limit+1
	}
	var data []byte
	began := time.Now()
	for {
		var err error
		if data, err = b.grow(data, first, most); err != nil {
			return nil, err
		}
		_ = conn.SetReadDeadline(bodyDeadline(began, time.Now(), len(data))) // not every writer has one
		// Not a byte more than shows that it is too large: a chunk is waited for.
		n, err := r.Body.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if int64(len(data)) > b.limit {
			return nil, tooLarge(b.limit)
		}
		if errors.Is(err, io.EOF) {
			_ = conn.SetReadDeadline(time.Time{}) // as above
			return data, nil
		}
		if err != nil {
			return nil, broken(err)
		}
	}
}

// discard reads the body of a call that is refused, and keeps none of it: many
// clients read no answer before all is sent. It gives up on a body that is larger
// than limit, or too slow.
func discard(w http.ResponseWriter, r *http.Request, limit int64) {
	if r.Body == nil || r.ContentLength > limit {
		return
	}
	conn := http.NewResponseController(w)
	piece := make([]byte, 32<<10)
	began := time.Now()
	for read := 0; int64(read) <= limit; {
		_ = conn.SetReadDeadline(bodyDeadline(began, time.Now(), read)) // not every writer has one
		n, err := r.Body.Read(piece)
		read += n
		if err != nil {
			break
		}
	}
	_ = conn.SetReadDeadline(time.Time{}) // as above
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
