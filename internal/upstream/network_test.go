package upstream

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"llmgw/internal/dialect"
	"llmgw/internal/fault"
)

// serve starts a real server, and returns a provider for it and a client.
func serve(t *testing.T, h http.HandlerFunc, change func(*Provider)) (*Provider, *Client) {
	t.Helper()
	server := httptest.NewServer(h)
	p := provider("real", func(p *Provider) {
		p.BaseURL = server.URL
		p.Timeouts = Timeouts{Connect: 5 * time.Second, FirstByte: time.Minute, Idle: time.Minute}
		if change != nil {
			change(p)
		}
	})
	c := New(Config{Providers: []*Provider{p}})
	t.Cleanup(func() {
		c.Close()
		server.Close()
	})
	return p, c
}

func TestTheBodyGoesOutInItsSegmentsWithItsLength(t *testing.T) {
	var got string
	var length int64
	var header http.Header
	p, c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got, length, header = string(b), r.ContentLength, r.Header
		w.Header().Set("X-Request-Id", "req_1")
		fmt.Fprint(w, "fine\n")
	}, nil)
	j := streaming(job("r", Target{Provider: p}))
	j.Call.Body = bytes.Repeat([]byte("0123456789"), 40_000)
	r, err := c.Do(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	if body := whole(t, r); body != "fine\n" || r.Header.Get("X-Request-Id") != "req_1" {
		t.Errorf("the answer is %q with %v", body, r.Header)
	}
	want := string(j.Call.Body) + " stream_options"
	if got != want || length != int64(len(want)) {
		t.Errorf("the provider got %d bytes and was told of %d, want %d", len(got), length, len(want))
	}
	for _, name := range []string{"User-Agent", "Accept-Encoding", "Transfer-Encoding"} {
		if v := header.Get(name); v != "" {
			t.Errorf("the provider got %s: %s, which nobody sent", name, v)
		}
	}
}

func TestCompressedAnswersPassAsTheyAre(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	fmt.Fprint(z, "fine\n")
	z.Close()
	p, c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Write(packed.Bytes())
	}, nil)
	r, err := c.Do(t.Context(), job("r", Target{Provider: p}))
	if err != nil {
		t.Fatal(err)
	}
	if got := whole(t, r); got != packed.String() || r.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("got %q with %v", got, r.Header)
	}
}

const tooLargeBody = `{"error":{"message":"Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 34307.","type":"tokens","code":"rate_limit_exceeded"}}`

func TestACompressedErrorIsJudgedAndPassedAsItCame(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	fmt.Fprint(z, tooLargeBody)
	z.Close()
	var calls atomic.Int32
	p, c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(429)
		w.Write(packed.Bytes())
	}, nil)
	r, err := c.Do(t.Context(), job("r", Target{Provider: p}))
	if err != nil {
		t.Fatal(err)
	}
	if got := whole(t, r); got != packed.String() || calls.Load() != 1 {
		t.Errorf("got %q after %d calls", got, calls.Load())
	}
}

func TestALongErrorIsPassedWhole(t *testing.T) {
	long := strings.Repeat("x", 3*maxErrorBody)
	p, c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(400)
		fmt.Fprint(w, long)
	}, nil)
	r, err := c.Do(t.Context(), job("r", Target{Provider: p}))
	if err != nil {
		t.Fatal(err)
	}
	if got := whole(t, r); got != long {
		t.Errorf("%d bytes came of %d", len(got), len(long))
	}
}

func TestRedirectsAreNotFollowedNorPassedOn(t *testing.T) {
	var calls atomic.Int32
	p, c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}, func(p *Provider) { p.Retries = 0 })
	_, err := c.Do(t.Context(), job("r", Target{Provider: p}))
	if f := fault.From(err); err == nil || f.Code != fault.UpstreamError || calls.Load() != 1 {
		t.Errorf("got %v after %d calls, want an error of the provider after one", err, calls.Load())
	}
}

func TestTrailersAndEarlyHintsAreNotLost(t *testing.T) {
	p, c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</x>")
		w.WriteHeader(http.StatusEarlyHints)
		fmt.Fprint(w, "fine\n")
		w.(http.Flusher).Flush()
		w.Header().Set(http.TrailerPrefix+"X-Cost", "7")
	}, nil)
	hints := 0
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
			if code == http.StatusEarlyHints {
				hints++
			}
			return nil
		},
	})
	r, err := c.Do(ctx, job("r", Target{Provider: p}))
	if err != nil {
		t.Fatal(err)
	}
	whole(t, r)
	if got := r.Trailer().Get("X-Cost"); got != "7" || hints != 1 {
		t.Errorf("trailer %q, %d hints", got, hints)
	}
}

// D4: the provider sees at once that nobody listens any more.
func TestEndingTheCallClosesTheProvidersConnection(t *testing.T) {
	for _, s := range []struct {
		what string
		end  func(cancel func(), r *Response)
	}{
		{"by the context", func(cancel func(), r *Response) { cancel() }},
		{"by Close", func(cancel func(), r *Response) { r.Close() }},
	} {
		closed := make(chan struct{})
		p, c := serve(t, func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, "one\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			close(closed)
		}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		r, err := c.Do(ctx, streaming(job("r", Target{Provider: p})))
		if err != nil {
			t.Fatal(err)
		}
		s.end(cancel, r)
		select {
		case <-closed:
		case <-time.After(5 * time.Second):
			t.Errorf("ended %s, the provider did not notice", s.what)
		}
		if _, err := r.Body.Read(make([]byte, 9)); err == nil {
			t.Errorf("ended %s, the answer can be read on", s.what)
		}
		r.Close()
		cancel()
	}
}

func TestAQuietStreamEndsWithATimeoutAndACutConnection(t *testing.T) {
	closed := make(chan struct{})
	p, c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, "one\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(closed)
	}, func(p *Provider) { p.Timeouts.Idle = 30 * time.Millisecond })
	r, err := c.Do(t.Context(), streaming(job("r", Target{Provider: p})))
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.ReadAll(r.Body)
	if f := fault.From(err); f.Code != fault.UpstreamTimeout {
		t.Errorf("a stream that stalls ends with %v", err)
	}
	r.Close()
	<-closed
}

func TestAProviderThatIsNotThereIsToldApartFromOneThatIsSlow(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	gone := provider("gone", func(p *Provider) { p.BaseURL, p.Retries = "http://"+l.Addr().String(), 0 })
	c := New(Config{Providers: []*Provider{gone}})
	_, err = c.Do(t.Context(), job("r", Target{Provider: gone}))
	if f := fault.From(err); f.Code != fault.UpstreamError || !strings.Contains(f.Message, "gone") {
		t.Errorf("a refused connection is told as %v", err)
	}
	slow, c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}, func(p *Provider) { p.Timeouts.FirstByte = 30 * time.Millisecond })
	_, err = c.Do(t.Context(), job("r", Target{Provider: slow}))
	if f := fault.From(err); f.Code != fault.UpstreamTimeout {
		t.Errorf("a silent provider is told as %v", err)
	}
	bad := provider("bad", func(p *Provider) { p.BaseURL = "http://a b" })
	_, err = c.Do(t.Context(), job("r", Target{Provider: bad}))
	if f := fault.From(err); f.Code != fault.UpstreamError {
		t.Errorf("an address that is none is told as %v", err)
	}
}

func TestACutAnswerIsNeverACleanEnd(t *testing.T) {
	for what, write := range map[string]func(w io.Writer){
		"shorter than its length": func(w io.Writer) {
			fmt.Fprint(w, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\none\n")
		},
		"without its last chunk": func(w io.Writer) {
			fmt.Fprint(w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n")
		},
	} {
		p, c := serve(t, func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			conn, buffered, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			write(buffered)
			buffered.Flush()
			conn.Close()
		}, nil)
		r, err := c.Do(t.Context(), streaming(job("r", Target{Provider: p})))
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		if _, err := io.ReadAll(r.Body); fault.From(err) == nil || fault.From(err).Code != fault.UpstreamError {
			t.Errorf("%s: it ends with %v", what, err)
		}
		r.Close()
	}
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	var opened atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if r.URL.Query().Has("fail") {
			w.WriteHeader(500)
		}
		fmt.Fprint(w, "fine\n")
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	p := provider("real", func(p *Provider) { p.BaseURL = server.URL })
	c := New(Config{Providers: []*Provider{p}})
	defer c.Close()
	for range 20 {
		r, err := c.Do(t.Context(), streaming(job("r", Target{Provider: p})))
		if err != nil {
			t.Fatal(err)
		}
		whole(t, r)
	}
	if n := opened.Load(); n != 1 {
		t.Errorf("%d connections for 20 calls in a row", n)
	}
}

func TestHTTP2IsSpokenWhereTLSOffersIt(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, r.Proto)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	p := provider("real", func(p *Provider) { p.BaseURL = server.URL })
	c := New(Config{Providers: []*Provider{p}, Transport: func(p *Provider) http.RoundTripper {
		tr := NewTransport(p).(*http.Transport)
		tr.TLSClientConfig = server.Client().Transport.(*http.Transport).TLSClientConfig
		return tr
	}})
	defer c.Close()
	r, err := c.Do(t.Context(), job("r", Target{Provider: p}))
	if err != nil {
		t.Fatal(err)
	}
	if got := whole(t, r); got != "HTTP/2.0\n" {
		t.Errorf("the provider was spoken to in %q", got)
	}
}

func BenchmarkDo(b *testing.B) {
	for _, stream := range []bool{false, true} {
		b.Run(map[bool]string{false: "document", true: "stream"}[stream], func(b *testing.B) {
			p := provider("a", nil)
			c := New(Config{Providers: []*Provider{p}, Transport: func(*Provider) http.RoundTripper {
				return roundTrip(func(r *http.Request) (*http.Response, error) {
					return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("one\n"))}, nil
				})
			}})
			j := job("r", Target{Provider: p, Weight: 1})
			j.Call = &dialect.Call{Request: j.Call.Request, Stream: stream}
			b.ReportAllocs()
			for b.Loop() {
				r, err := c.Do(b.Context(), j)
				if err != nil {
					b.Fatal(err)
				}
				r.Close()
			}
		})
	}
}
