package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"llmgw/internal/dialect"
	"llmgw/internal/fault"
)

// An answer may come before the request was read to its end; the caller may use
// the request's buffer for something else as soon as Close returned.
func TestNothingOfTheRequestIsReadAfterItsEnd(t *testing.T) {
	p, c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(400)
		fmt.Fprint(w, "no\n")
	}, nil)
	for range 20 {
		j := job("r", Target{Provider: p})
		j.Call.Body = make([]byte, 8<<20)
		r, err := c.Do(t.Context(), j)
		if err == nil {
			r.Close()
		}
		clear(j.Call.Body) // under -race a late reader is found out
	}
}

func TestAPayloadReadsAsItsSegmentsAndStopsWhenAbandoned(t *testing.T) {
	long := strings.Repeat("cdef", small)
	p := newPayload([][]byte{[]byte("ab"), nil, []byte(long), []byte("g")})
	req := &http.Request{}
	p.attach(req)
	for range 2 { // GetBody begins anew
		body, err := req.GetBody()
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(iotestOneByte{body})
		if string(got) != "ab"+long+"g" || err != nil {
			t.Errorf("read %d bytes, %v", len(got), err)
		}
	}
	if req.ContentLength != int64(len(long)+3) {
		t.Errorf("the length is %d", req.ContentLength)
	}
	p.abandon()
	if _, err := req.Body.Read(make([]byte, 3)); !errors.Is(err, errEnded) {
		t.Errorf("reading what was abandoned: %v", err)
	}
	empty := &http.Request{}
	newPayload(nil).attach(empty)
	if empty.Body != http.NoBody || empty.ContentLength != 0 {
		t.Errorf("an empty body is %v of length %d", empty.Body, empty.ContentLength)
	}
}

func TestASmallPayloadIsACopyAndOneWrite(t *testing.T) {
	from := []byte("hello")
	p := newPayload([][]byte{from, []byte(" there")})
	req := &http.Request{}
	p.attach(req)
	from[0] = 'J' // its buffer is another request's by now
	p.abandon()
	if got, err := io.ReadAll(req.Body); string(got) != "hello there" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}

	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, _ := io.ReadAll(r.Body) // the test sees what is missing
		_, _ = w.Write(got)
	}))
	defer server.Close()
	var writes atomic.Int64
	tr := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return &countedWrites{c, &writes}, err
	}}
	defer tr.CloseIdleConnections()
	out := dialect.Outbound{Method: http.MethodPost, URL: server.URL, Body: [][]byte{[]byte("one"), []byte(strings.Repeat("x", 1000))}}
	resp, failed, err := send(t.Context(), newConnections(tr), provider("a", nil), out, nil)
	if failed != nil || err != nil {
		t.Fatalf("send: %v, %v", failed, err)
	}
	defer resp.Body.Close()
	if got, err := io.ReadAll(resp.Body); len(got) != 1003 || err != nil {
		t.Errorf("echoed %d bytes, %v, want all 1003", len(got), err)
	}
	if writes.Load() != 1 {
		t.Errorf("header and body took %d writes, want one", writes.Load())
	}
}

type countedWrites struct {
	net.Conn
	n *atomic.Int64
}

func (c *countedWrites) Write(b []byte) (int, error) {
	c.n.Add(1)
	return c.Conn.Write(b)
}

// iotestOneByte reads a byte at a time.
type iotestOneByte struct{ io.Reader }

func (r iotestOneByte) Read(p []byte) (int, error) { return r.Reader.Read(p[:1]) }

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A transport may go on with a request's body after it has failed.
func TestAFailedTryReadsNothingMore(t *testing.T) {
	var bodies []io.ReadCloser
	p := provider("a", func(p *Provider) { p.Retries = 0 })
	c := New(Config{Providers: []*Provider{p}, Transport: func(*Provider) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			bodies = append(bodies, r.Body)
			return nil, errors.New("reset")
		})
	}})
	j := job("r", Target{Provider: p})
	j.Call = &dialect.Call{Request: dialect.Request{Body: make([]byte, small+1)}, Model: "asked"}
	if _, err := c.Do(t.Context(), j); fault.From(err).Code != fault.UpstreamError {
		t.Errorf("got %v", err)
	}
	if n, err := bodies[0].Read(make([]byte, 9)); n != 0 || !errors.Is(err, errEnded) {
		t.Errorf("afterwards %d bytes were read, %v", n, err)
	}
}
