package upstream

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"llmgw/internal/fault"
)

// says answers every request on one connection with the same bytes.
func says(t *testing.T, answer string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				buf := make([]byte, 64<<10)
				if _, err := conn.Read(buf); err != nil {
					return
				}
				_, _ = io.WriteString(conn, answer)
				_, _ = conn.Read(buf) // until the gateway leaves
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

func TestOnlyAnAnswersStatusIsAnAnswer(t *testing.T) {
	const rest = " X\r\nLocation: http://127.0.0.1:1/elsewhere\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: 0\r\n\r\n"
	for _, s := range []struct {
		what   string
		status string
		passed int // 0: it is a failure of the provider
	}{
		{"a switch of protocols that nobody asked for", "101", 0},
		{"a status below all", "099", 0},
		{"a redirect", "307", 0},
		{"another redirect", "302", 0},
		{"no content", "204", 204},
		{"nothing new", "304", 304},
		{"a client's error", "422", 422},
		{"a number that means nothing yet", "799", 799},
	} {
		t.Run(s.what, func(t *testing.T) {
			p := provider("odd", func(p *Provider) {
				p.BaseURL = says(t, "HTTP/1.1 "+s.status+rest)
				p.Timeouts = Timeouts{Connect: 5 * time.Second, FirstByte: 5 * time.Second, Idle: 5 * time.Second}
				p.Retries = 0
			})
			c := New(Config{Providers: []*Provider{p}})
			defer c.Close()
			r, err := c.Do(t.Context(), job("r", Target{Provider: p}))
			if s.passed != 0 {
				if err != nil || r.Status != s.passed {
					t.Fatalf("got %v, %v, want the status %d", r, err, s.passed)
				}
				if err := r.Close(); err != nil {
					t.Error(err)
				}
				return
			}
			var f *fault.Error
			if !errors.As(err, &f) || f.Code != fault.UpstreamError {
				t.Fatalf("got %v, %v, want upstream_error", r, err)
			}
			if strings.Contains(f.Message, "elsewhere") {
				t.Errorf("the client would be told where to go: %s", f.Message)
			}
		})
	}
}

func TestAnEndlessHeaderIsNoAnswer(t *testing.T) {
	for _, s := range []struct {
		what   string
		header string
		fine   bool
	}{
		{"a long header", "X-A: " + strings.Repeat("a", maxAnswerHeader/2) + "\r\n", true},
		{"a header that is too long", "X-A: " + strings.Repeat("a", 2*maxAnswerHeader) + "\r\n", false},
		{"too many headers", strings.Repeat("X-A: "+strings.Repeat("a", 1000)+"\r\n", 2*maxAnswerHeader/1000), false},
	} {
		t.Run(s.what, func(t *testing.T) {
			p := provider("odd", func(p *Provider) {
				p.BaseURL = says(t, "HTTP/1.1 200 OK\r\n"+s.header+"Content-Length: 0\r\n\r\n")
				p.Timeouts = Timeouts{Connect: 5 * time.Second, FirstByte: 5 * time.Second, Idle: 5 * time.Second}
				p.Retries = 0
			})
			c := New(Config{Providers: []*Provider{p}})
			defer c.Close()
			r, err := c.Do(t.Context(), job("r", Target{Provider: p}))
			if err == nil {
				defer r.Close()
			}
			if f := fault.From(err); s.fine != (err == nil) || err != nil && f.Code != fault.UpstreamError {
				t.Errorf("got %v, fine should be %v", err, s.fine)
			}
		})
	}
}
