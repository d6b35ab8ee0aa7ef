package app

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"
)

func noBound(netip.Addr) int { return 0 }

func TestOneConnectionMoreThanAnAddressMayHaveIsClosed(t *testing.T) {
	var closed atomic.Int64
	addr := planeOf(t, func(l net.Listener) *door {
		return newDoor(l, func(netip.Addr) int { return 2 }, func(netip.Addr) { closed.Add(1) })
	}, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") })
	served := func(c net.Conn) bool {
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		n, _ := c.Read(make([]byte, 1))
		return n == 1
	}
	var conns []net.Conn
	dial := func() net.Conn {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		conns = append(conns, c)
		return c
	}
	for range 2 {
		if !served(dial()) {
			t.Fatal("a connection within the bound is not served")
		}
	}
	if served(dial()) || closed.Load() != 1 {
		t.Fatalf("a third one is served, or not told: %d", closed.Load())
	}
	_ = conns[0].Close()
	for tries := 0; !served(dial()); tries++ { // the server sees the end a moment later
		if tries == 1000 {
			t.Fatal("the place of a closed connection does not come back")
		}
	}
}
