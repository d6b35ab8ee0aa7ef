package fakellm

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
)

// nowhere is a ResponseWriter that costs nothing.
type nowhere struct{ header http.Header }

func (w *nowhere) Header() http.Header         { return w.header }
func (w *nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (w *nowhere) WriteHeader(int)             {}
func (w *nowhere) Flush()                      {}

func BenchmarkDocument(b *testing.B) {
	for _, size := range []int{1, 16, 400} {
		b.Run(strconv.Itoa(size)+"KB", func(b *testing.B) {
			benchmark(b, `{"model":"sim-in250-size1k","messages":[{"role":"user","content":"`+strings.Repeat("word ", size*200)+`"}]}`)
		})
	}
}

func BenchmarkStreamOf100Chunks(b *testing.B) {
	benchmark(b, `{"model":"sim-chunks100","stream":true,"messages":[]}`)
}

func benchmark(b *testing.B, body string) {
	p := New(Options{Record: -1})
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", http.NoBody)
	r.ContentLength = int64(len(body))
	w := &nowhere{header: http.Header{}}
	reader := bytes.NewReader(nil)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		reader.Reset([]byte(body))
		r.Body = readCloser{reader}
		p.ServeHTTP(w, r)
	}
	if done := p.Stats().Done; done < int64(b.N) {
		b.Fatalf("%d of %d were answered", done, b.N)
	}
}

type readCloser struct{ *bytes.Reader }

func (readCloser) Close() error { return nil }
