package upstream

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// hangsUp is a server that answers the first request of a connection, if it is to,
// and closes the connection after what it says to the next one.
type hangsUp struct {
	answers  int    // of each connection before it hangs up
	last     string // said before it hangs up
	mu       sync.Mutex
	requests []int // the number of the connection that each came by
	bodies   []int // their sizes
}

func (h *hangsUp) start(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for n := 0; ; n++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go h.serve(conn, n)
		}
	}()
	return "http://" + l.Addr().String()
}

func (h *hangsUp) serve(conn net.Conn, n int) {
	defer conn.Close()
	from := bufio.NewReader(conn)
	for i := 0; ; i++ {
		r, err := http.ReadRequest(from)
		if err != nil {
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		h.mu.Lock()
		h.requests, h.bodies = append(h.requests, n), append(h.bodies, len(body))
		h.mu.Unlock()
		if i == h.answers {
			_, _ = io.WriteString(conn, h.last)
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfine\n")
	}
}

func TestACallWhoseKeptConnectionBrokeIsSentOnANewOne(t *testing.T) {
	for _, s := range []struct {
		what    string
		answers int
		last    string
		body    int
		served  int    // of two calls
		by      string // the connections that the requests came by
	}{
		{"a kept connection", 1, "", 10, 2, "[0 0 1]"},
		{"a kept connection and a body that is read in pieces", 1, "", 10 * small, 2, "[0 0 1]"},
		{"a kept connection after the start of an answer", 1, "HTTP/1.1 200 O", 10, 1, "[0 0]"},
		{"new connections", 0, "", 10, 0, "[0 1]"},
	} {
		t.Run(s.what, func(t *testing.T) {
			h := &hangsUp{answers: s.answers, last: s.last}
			p := provider("real", func(p *Provider) {
				p.BaseURL, p.Retries = h.start(t), 0
				p.Timeouts = Timeouts{Connect: 5 * time.Second, FirstByte: 5 * time.Second, Idle: 5 * time.Second}
			})
			w := &watcher{}
			c := New(Config{Providers: []*Provider{p}, Observer: w})
			defer c.Close()
			served := 0
			for range 2 {
				j := job("r", Target{Provider: p})
				j.Call.Body = bytes.Repeat([]byte("x"), s.body)
				r, err := c.Do(t.Context(), j)
				if err != nil {
					continue
				}
				if whole(t, r); r.Attempts != 1 {
					t.Errorf("it counts as %d attempts", r.Attempts)
				}
				served++
			}
			if served != s.served || fmt.Sprint(h.requests) != s.by || len(w.statuses) != 2 {
				t.Errorf("%d calls were served by connections %v in %d attempts, want %d by %s in 2", served, h.requests, len(w.statuses), s.served, s.by)
			}
			for i, n := range h.bodies {
				if n != s.body {
					t.Errorf("request %d came with %d bytes of %d", i, n, s.body)
				}
			}
		})
	}
}
