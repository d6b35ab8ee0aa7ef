package app

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener of connections in this process, whose deadlines follow
// the bubble's clock.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// dial is a client's end of a new connection.
func (p *pipes) dial() net.Conn {
	ours, theirs := net.Pipe()
	p.conns <- theirs
	return ours
}

// parted serves h as both planes do.
func parted(t *testing.T, h http.HandlerFunc) (*pipes, *http.Server) {
	t.Helper()
	p := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	s := &http.Server{Handler: parting(h), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout}
	go func() { _ = s.Serve(p) }() // ends with the shutdown
	return p, s
}

func refuses(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "unread", http.StatusUnauthorized)
}

func TestHalfABodyThatIsRefusedUnreadIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := parted(t, refuses)
		conn := p.dial()
		defer conn.Close()
		began := time.Now()
		if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || resp.StatusCode != http.StatusUnauthorized {
			t.Fatalf("got %v, %v, want 401", resp, err)
		}
		if took := time.Since(began); took > restTimeout {
			t.Errorf("the answer took %v, want at most %v", took, restTimeout)
		}
		if !resp.Close {
			t.Error("the connection is kept though the rest of the body may still come")
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestHalfABodyDoesNotHoldUpAShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := parted(t, refuses)
		conn := p.dial()
		defer conn.Close()
		go func() { _, _ = io.Copy(io.Discard, conn) }()
		if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("the shutdown ended with %v", err)
		}
	})
}

func TestAClientThatTakesNoAnswerIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := parted(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "short") })
		conn := p.dial()
		defer conn.Close()
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		time.Sleep(takeTimeout + time.Second) // on the bubble's clock
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > takeTimeout+5*time.Second {
			t.Errorf("the connection stood for %v", took)
		}
	})
}

func TestABodyThatIsReadAndTheNextRequestAreNotHurried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := parted(t, func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			time.Sleep(10 * takeTimeout) // the provider takes its time
			if r.Context().Err() != nil {
				t.Error("the call was ended")
			}
			_, _ = w.Write(body)
		})
		conn := p.dial()
		defer conn.Close()
		answers := bufio.NewReader(conn)
		for range 2 {
			if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nabc"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * restTimeout) // a slow client
			if _, err := io.WriteString(conn, "def"); err != nil {
				t.Fatal(err)
			}
			resp, err := http.ReadResponse(answers, nil)
			if err != nil {
				t.Fatal(err)
			}
			if b, err := io.ReadAll(resp.Body); err != nil || strings.TrimSpace(string(b)) != "abcdef" {
				t.Errorf("got %q, %v", b, err)
			}
			time.Sleep(idleTimeout / 2)
		}
		_ = conn.Close() // so that the server's end is idle no more
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
