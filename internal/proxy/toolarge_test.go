package proxy

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"llmgw/internal/fault"
)

// chunk is what has come of a chunk whose rest is still awaited: as with the
// standard library's reader, who asks for more than that waits.
type chunk struct{ left int }

var errWaits = errors.New("the rest is waited for")

func (c *chunk) Read(p []byte) (int, error) {
	if len(p) > c.left {
		return 0, errWaits
	}
	c.left -= len(p)
	return len(p), nil
}

func (*chunk) Close() error { return nil }

func TestABodyThatTurnsOutTooLargeIsRefusedAtItsFirstByteTooMany(t *testing.T) {
	for _, s := range []struct {
		what  string
		limit int64
		left  int
		want  fault.Code
	}{
		{"a byte too many", 10_000, 10_001, fault.RequestTooLarge},
		{"as much as may be, and no end", 10_000, 10_000, fault.InvalidRequest},
		{"the smallest limit", 1, 2, fault.RequestTooLarge},
	} {
		r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", &chunk{left: s.left})
		r.ContentLength = -1
		_, err := aBody(s.limit).read(httptest.NewRecorder(), r)
		if got := fault.From(err); got == nil || got.Code != s.want {
			t.Errorf("%s: got %v, want %s", s.what, err, s.want)
		}
	}
}
