package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"time"
)

// against is a plan for a server with that handler.
func against(t *testing.T, h http.HandlerFunc) *plan {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	target, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return &plan{target: target, key: "k", body: []byte(`{}`), connections: 2, duration: 50 * time.Millisecond, rate: 200}
}

func TestABodyIsJSONOfAboutItsSize(t *testing.T) {
	for _, size := range []int{0, 1000, 16_000, 400_000} {
		b := body("m", size, true)
		if !json.Valid(b) {
			t.Errorf("%d: not JSON: %.200s", size, b)
		}
		if size > 0 && (len(b) < size || len(b) > size+30) {
			t.Errorf("%d: %d bytes", size, len(b))
		}
		if string(b) != string(body("m", size, true)) {
			t.Errorf("%d: two bodies differ", size)
		}
	}
}

func TestAConnectionReadsEveryKindOfAnswer(t *testing.T) {
	for _, s := range []struct {
		what   string
		answer http.HandlerFunc
		want   answer // without the time
	}{
		{"with a length", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }, answer{status: 200}},
		{"without a body", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, answer{status: 204}},
		{"an error", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusTooManyRequests) }, answer{status: 429}},
		{"in pieces", func(w http.ResponseWriter, _ *http.Request) {
			for range 3 {
				fmt.Fprint(w, "data: x\n\n")
				w.(http.Flusher).Flush()
			}
		}, answer{status: 200, pieces: 3}},
	} {
		t.Run(s.what, func(t *testing.T) {
			p := against(t, s.answer)
			c, err := p.dial(0)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			for range 2 { // what is left over would spoil the second
				got, err := c.roundTrip(p)
				got.first = 0
				if err != nil || got != s.want {
					t.Fatalf("got %+v, %v, want %+v", got, err, s.want)
				}
			}
		})
	}
}

func TestLoadIsCounted(t *testing.T) {
	for _, mode := range []string{"closed", "open"} {
		t.Run(mode, func(t *testing.T) {
			var n atomic.Int64
			p := against(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "Bearer k" {
					t.Errorf("key = %q", r.Header.Get("Authorization"))
				}
				if n.Add(1) == 3 {
					w.WriteHeader(http.StatusInternalServerError)
				}
			})
			run := p.closed
			if mode == "open" {
				run = p.open
			}
			got, err := run()
			if err != nil {
				t.Fatal(err)
			}
			if got.Failed != 1 || got.Broken != 0 || got.Requests != int(n.Load())-1 || got.P50 <= 0 || got.P50 > got.Max {
				t.Errorf("got %+v of %d requests", got, n.Load())
			}
			if mode == "open" && n.Load() != 10 {
				t.Errorf("%d requests, want 200 a second for 50 ms", n.Load())
			}
		})
	}
}

func TestABrokenConnectionIsReplaced(t *testing.T) {
	var n atomic.Int64
	p := against(t, func(http.ResponseWriter, *http.Request) {
		if n.Add(1)%5 == 0 {
			panic(http.ErrAbortHandler)
		}
	})
	got, err := p.closed()
	if err != nil || got.Broken == 0 || got.Requests <= got.Broken {
		t.Errorf("got %+v, %v, want some broken and most answered", got, err)
	}
}

func TestQuantilesAreRanks(t *testing.T) {
	sorted := make([]time.Duration, 100)
	for i := range sorted {
		sorted[i] = time.Duration(i+1) * time.Microsecond
	}
	for _, s := range []struct{ q, want float64 }{{0.5, 50}, {0.9, 90}, {0.99, 99}, {1, 100}, {0, 1}} {
		if got := quantile(sorted, s.q); got != s.want {
			t.Errorf("quantile %v = %v, want %v", s.q, got, s.want)
		}
	}
	if got := quantile(nil, 0.5); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
}
