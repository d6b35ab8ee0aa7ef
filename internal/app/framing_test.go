package app

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// messages are requests of one connection, each framed in another way, whose
// bodies spell heads that would be ambiguous.
const messages = "GET /1 HTTP/1.1\r\nHost: x\r\n\r\n" +
	"POST /2 HTTP/1.1\r\nHost: x\r\nContent-Length: 52\r\n\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n\r\n\r\n" +
	"POST /3 HTTP/1.1\nHost: x\ntransfer-encoding: Chunked\n\n3\r\n\r\n\r\r\n0036;ext=1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n12345\r\n0\r\nTrailer-Content-Length: 5\r\n\r\n" +
	"POST /4 HTTP/1.1\r\nHost: x\r\nX-Long: Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n" +
	"GET /5 HTTP/1.1\r\nHost: x\r\nX: " + "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n\r\n"

// ambiguous are heads that two servers could read differently.
var ambiguous = map[string]string{
	"a length beside chunks":        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
	"chunks beside a length":        "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
	"in other letters":              "POST / HTTP/1.1\r\nHost: x\r\nTRANSFER-ENCODING: Chunked\r\ncontent-length:3\r\n\r\n",
	"no length beside chunks":       "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: abc\r\nTransfer-Encoding: chunked\r\n\r\n",
	"an empty one":                  "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length:\r\n\r\n",
	"a list of lengths":             "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3, 3\r\nTransfer-Encoding: chunked\r\n\r\n",
	"a folded length":               "POST / HTTP/1.1\r\nHost: x\r\nContent-Length:\r\n 3\r\nTransfer-Encoding: chunked\r\n\r\n",
	"a length too long to be read":  "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: " + strings.Repeat("0", 300) + "4\r\n\r\nPRI ",
	"a length of nothing":           "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n",
	"bare line feeds":               "POST / HTTP/1.1\nHost: x\nContent-Length: 3\nTransfer-Encoding: chunked\n\n",
	"chunks in HTTP/1.0":            "POST / HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
	"chunks in HTTP/1.0, no length": "POST / HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n",
	"a folded field":                "POST / HTTP/1.1\r\nHost: x\r\nX: a\r\n Content-Length: 3\r\n\r\n",
}

func TestTheFramingOfAConnectionIsFollowed(t *testing.T) {
	for _, size := range []int{1, 2, 7, 64, 1 << 20} {
		feed := func(text string) bool {
			var f framing
			for len(text) > 0 {
				n := min(size, len(text))
				f.feed([]byte(text[:n]))
				text = text[n:]
			}
			return f.broken
		}
		if feed(messages + messages) {
			t.Errorf("%d bytes at a time: messages that are framed in one way are taken for ambiguous", size)
		}
		for what, head := range ambiguous {
			if !feed(messages + head) {
				t.Errorf("%d bytes at a time: %s was not seen", size, what)
			}
		}
	}
}

// planeOf serves h on a real listener, framed as the planes are.
func planeOf(t *testing.T, d func(net.Listener) *door, h http.HandlerFunc) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{ConnContext: follow, Handler: framed(h, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "ambiguous", http.StatusBadRequest) })}
	go func() { _ = s.Serve(d(l)) }() // ends with Close
	t.Cleanup(func() { _ = s.Close() })
	return l.Addr().String()
}

func TestAnAmbiguousRequestIsRefusedAndItsConnectionClosed(t *testing.T) {
	var mu sync.Mutex
	var served []string
	addr := planeOf(t, func(l net.Listener) *door { return newDoor(l, noBound, nil) }, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		mu.Lock()
		defer mu.Unlock()
		served = append(served, r.URL.Path)
		_, _ = io.WriteString(w, "served")
	})
	cases := map[string]string{
		"two lengths that differ": "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n",
	}
	for what, head := range ambiguous {
		cases[what] = head
	}
	for what, head := range cases {
		mu.Lock()
		served = nil
		mu.Unlock()
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		answers := bufio.NewReader(conn)
		for i := range 5 { // the connection serves what is not ambiguous
			if i == 0 {
				_, _ = io.WriteString(conn, messages)
			}
			if resp := answer(t, answers); resp.StatusCode != 200 || resp.Close {
				t.Fatalf("%s: message %d: got %d, close %v", what, i, resp.StatusCode, resp.Close)
			}
		}
		_, _ = fmt.Fprintf(conn, "%s0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n", head)
		resp := answer(t, answers)
		if resp.StatusCode != 400 || !resp.Close {
			t.Errorf("%s: got %d, close %v, want 400 and a closed connection", what, resp.StatusCode, resp.Close)
		}
		if rest, _ := io.ReadAll(answers); len(rest) > 0 {
			t.Errorf("%s: got more after the refusal: %q", what, rest)
		}
		mu.Lock()
		if len(served) != 5 || strings.Contains(strings.Join(served, " "), "smuggled") {
			t.Errorf("%s: served %v", what, served)
		}
		mu.Unlock()
		_ = conn.Close()
	}
}

// answer reads one answer with its body.
func answer(t *testing.T, r *bufio.Reader) *http.Response {
	t.Helper()
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp
}
