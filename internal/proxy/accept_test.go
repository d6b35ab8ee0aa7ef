package proxy

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"llmgw/internal/fault"
)

// sender is a client's connection: it sends so many bytes at a time, every so
// often, and honors the deadline that the gateway sets.
type sender struct {
	http.ResponseWriter
	every    time.Duration
	piece    int
	left     int
	deadline time.Time
}

func (s *sender) SetReadDeadline(t time.Time) error {
	s.deadline = t
	return nil
}

func (s *sender) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	if late := time.Until(s.deadline); late < s.every {
		time.Sleep(late)
		return 0, os.ErrDeadlineExceeded
	}
	time.Sleep(s.every)
	n := min(len(p), s.piece, s.left)
	s.left -= n
	return n, nil
}

func TestABodyMustComeWithoutARestAndAtARate(t *testing.T) {
	for _, c := range []struct {
		what   string
		sender sender
		after  time.Duration // 0: it comes whole
	}{
		{"at once", sender{piece: 1 << 20, left: 1 << 20}, 0},
		{"slowly, but faster than the rate", sender{every: time.Second, piece: 9 << 10, left: 4 << 20}, 0},
		{"a long rest at its start", sender{every: 29 * time.Second, piece: 64, left: 64}, 0},
		{"a longer one", sender{every: 31 * time.Second, piece: 64, left: 64}, 30 * time.Second},
		{"a byte every 29 s", sender{every: 29 * time.Second, piece: 1, left: 1000}, 30 * time.Second},
		{"at half the rate", sender{every: time.Second, piece: 4 << 10, left: 4 << 20}, 59500 * time.Millisecond},
		{"a burst earns no rest", sender{every: 31 * time.Second, piece: 1 << 20, left: 2 << 20}, 30 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := c.sender
			s.ResponseWriter = httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodPost, "/", &s)
			r.ContentLength = int64(c.sender.left)
			began := time.Now()
			body, err := aBody(8<<20).read(&s, r)
			if took := time.Since(began); c.after > 0 && took.Truncate(100*time.Millisecond) != c.after {
				t.Errorf("%s: given up after %s, want %s", c.what, took, c.after)
			}
			if c.after == 0 && (err != nil || len(body) != c.sender.left || !s.deadline.IsZero()) {
				t.Errorf("%s: got %d bytes, %v, and a deadline at %v", c.what, len(body), err, s.deadline)
			}
			if c.after > 0 && !strings.Contains(fault.From(err).Message, "too slowly") {
				t.Errorf("%s: the client is not told that it was too slow: %v", c.what, err)
			}
			if c.after > 0 && (fault.From(err) == nil || fault.From(err).Code != fault.InvalidRequest || !errors.Is(err, os.ErrDeadlineExceeded)) {
				t.Errorf("%s: got %v", c.what, err)
			}
		})
	}
}
