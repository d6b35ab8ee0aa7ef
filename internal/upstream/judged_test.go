package upstream

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/openai"
	"llmgw/internal/fakellm"
	"llmgw/internal/tokens"
)

// judged is a transport to a simulated provider in this process, and counts
// what it answers.
type judged struct {
	provider *fakellm.Provider
	mu       sync.Mutex
	statuses map[int]int
}

func (g *judged) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	inner := r.Clone(r.Context())
	inner.Body = io.NopCloser(bytes.NewReader(body))
	w := httptest.NewRecorder()
	g.provider.ServeHTTP(w, inner)
	g.mu.Lock()
	g.statuses[w.Code]++
	g.mu.Unlock()
	return w.Result(), nil
}

// H6, E9: gateways that share a store keep a provider busy that judges every
// second and every minute, and it never has to refuse.
func TestAStrictProviderIsUsedToTheFullAndNeverRefuses(t *testing.T) {
	for _, s := range []struct {
		what     string
		options  fakellm.Options
		limits   Limits
		gateways int
		out      func() int // the bound on output of the next call
		least    int        // calls in two minutes
	}{
		{"by calls, two gateways", fakellm.Options{RPM: 600, Window: time.Second}, Limits{RequestsPerMinute: 600}, 2,
			func() int { return 5 }, 1080},
		{"by calls in ten seconds", fakellm.Options{RPM: 3000, Window: 10 * time.Second}, Limits{RequestsPerMinute: 3000, Window: 10 * time.Second}, 2,
			func() int { return 5 }, 5400},
		{"by tokens, calls of one size", fakellm.Options{TPM: 60_000, Window: time.Second}, Limits{TokensPerMinute: 60_000}, 2,
			func() int { return 240 }, 430},
		{"by tokens, calls of any size", fakellm.Options{RPM: 6000, TPM: 60_000, Window: time.Second}, Limits{RequestsPerMinute: 6000, TokensPerMinute: 60_000}, 1,
			func() int { return []int{1, 30, 400, 700, 1800}[rand.IntN(5)] }, 80},
		{"by calls in flight", fakellm.Options{Concurrency: 4, Latency: 500 * time.Millisecond}, Limits{Concurrency: 4}, 2,
			func() int { return 5 }, 880},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := &judged{provider: fakellm.New(s.options), statuses: map[int]int{}}
			m := newMemory()
			start := time.Now()
			var group sync.WaitGroup
			for n := range s.gateways {
				p := provider("sim", func(p *Provider) { p.Limits, p.Retries, p.MaxWait, p.BaseURL = s.limits, 0, time.Hour, "http://sim/v1" })
				c := New(Config{Providers: []*Provider{p}, Limiter: m, Transport: func(*Provider) http.RoundTripper { return g }})
				for i := range 12 {
					group.Go(func() {
						for k := 0; time.Since(start) < 2*time.Minute; k++ {
							call(t, c, p, fmt.Sprint(n, "-", i, "-", k), s.out())
						}
					})
				}
			}
			group.Wait()
			for status, n := range g.statuses {
				if status != 200 {
					t.Errorf("%s: %d of %v", s.what, n, g.statuses)
				}
			}
			t.Logf("%s: %d calls in two minutes", s.what, g.statuses[200])
			if got := g.statuses[200]; got < s.least {
				t.Errorf("%s: %d calls in two minutes, want %d", s.what, got, s.least)
			}
			m.idle(t)
		})
	}
}

// call makes one chat with a bound on output, of a short prompt.
func call(t *testing.T, c *Client, p *Provider, id string, out int) {
	d := openai.Dialect{}
	body := fmt.Sprintf(`{"model":"sim-in10","max_tokens":%d,"messages":[{"role":"user","content":"hi"}]}`, out)
	var chat dialect.Endpoint
	for _, e := range d.Endpoints() {
		if e.Operation == dialect.Chat {
			chat = e
			break
		}
	}
	parsed, err := d.Parse(dialect.Request{Endpoint: chat, Path: chat.Pattern, Body: []byte(body)})
	if err != nil {
		t.Error(err)
		return
	}
	r, err := c.Do(t.Context(), Job{
		RequestID: id, Call: parsed, Dialect: d, Targets: []Target{{Provider: p, Weight: 1}},
		Input: 10, Output: tokens.Count(out), Team: id[:3], MaxWait: NoMaxWait,
		Counter: func(Target) dialect.Counter {
			return func(b []byte) tokens.Count { return tokens.Count(len(b) / 4) }
		},
	})
	if err != nil {
		t.Error(err)
		return
	}
	rest, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	r.Meter.Feed(rest)
	r.Meter.End()
	r.Settle(r.Meter.Report().Usage)
	r.Close()
}
