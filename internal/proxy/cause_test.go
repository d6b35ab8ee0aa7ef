package proxy

import (
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"llmgw/internal/fault"
)

func TestTheLogTellsWhyAProviderGaveNoAnswerAndNothingThatCameOverTheWire(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 443}, Err: syscall.ECONNREFUSED}
	for _, s := range []struct {
		what string
		err  *fault.Error
		want string
	}{
		{"a port that is closed", &fault.Error{Code: fault.UpstreamError, Err: refused}, "dial tcp 192.0.2.1:443: connection refused"},
		{"within what HTTP says", &fault.Error{Code: fault.UpstreamError, Err: &url.Error{Op: "Post", URL: "https://x/?key=sk-1", Err: refused}}, "dial tcp 192.0.2.1:443: connection refused"},
		{"an answer that is none", &fault.Error{Code: fault.UpstreamError, Err: errors.New(`malformed HTTP response "the answer"`)}, "malformed HTTP response"},
		{"a connection that broke", &fault.Error{Code: fault.UpstreamTimeout, Err: io.ErrUnexpectedEOF}, "unexpected EOF"},
		{"a long story", &fault.Error{Code: fault.UpstreamError, Err: errors.New(strings.Repeat("é", longestCause))}, strings.Repeat("é", longestCause/2)},
		{"a cause that nobody knows", &fault.Error{Code: fault.UpstreamError}, ""},
		{"a body that is no JSON", &fault.Error{Code: fault.InvalidRequest, Err: errors.New("the prompt")}, ""},
		{"nothing", nil, ""},
	} {
		if got := causeOf(s.err); got != s.want {
			t.Errorf("%s: got %q, want %q", s.what, got, s.want)
		}
	}
}
