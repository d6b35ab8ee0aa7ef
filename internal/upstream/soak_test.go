package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/fault"
	"llmgw/internal/tokens"
)

// moody is a transport that answers by chance, in every way there is.
type moody struct{ script }

func (m *moody) RoundTrip(r *http.Request) (*http.Response, error) {
	n := rand.IntN(100)
	a := answer{status: 200, body: "one\ntwo\n", after: time.Duration(rand.IntN(900)) * time.Millisecond}
	switch {
	case n < 6:
		a.err = io.ErrUnexpectedEOF
	case n < 12:
		a.status = 500
	case n < 18:
		a.status, a.header = 429, map[string]string{"Retry-After-Ms": "300"}
	case n == 18 && rand.IntN(10) == 0: // seldom: it bars a key for a minute
		a.status, a.body = 429, spentBody
	case n < 26:
		a.status = 400
	case n < 30:
		a.body = "error busy\n"
	case n < 34:
		a.body, a.cut = "one\n", io.ErrUnexpectedEOF
	case n < 38:
		a.body, a.cut = "", io.ErrUnexpectedEOF
	case n < 40:
		a.after = time.Hour
	}
	one := script{answers: map[string][]answer{r.URL.Host: {a}}}
	resp, err := one.RoundTrip(r)
	if resp != nil {
		m.mu.Lock()
		m.bodies++
		m.mu.Unlock()
		resp.Body = &counted{Reader: resp.Body, script: &m.script}
	}
	return resp, err
}

// D12, D6, D20: whatever happens, and in whatever order, nothing stays reserved,
// no slot taken, no answer open, and nobody in a queue.
func TestNothingIsLeftOpenWhateverHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, tr := newMemory(), &moody{}
		limited := func(p *Provider) {
			p.Limits = Limits{RequestsPerMinute: 3000, TokensPerMinute: 900_000, Concurrency: 12}
			p.Timeouts = Timeouts{FirstByte: 2 * time.Second, Idle: time.Second}
			p.MaxWait = 3 * time.Second
		}
		perKey := func(p *Provider) {
			limited(p)
			p.APIKeys, p.Limits.Keys = []string{"one", "two", "three"}, PerKey
		}
		a, b, free := provider("a", limited), provider("b", perKey), provider("free", nil)
		all := []*Provider{a, b, free}
		c := New(Config{Providers: all, Limiter: m, Transport: func(*Provider) http.RoundTripper { return tr }})
		targets := []Target{{Provider: a, Weight: 2}, {Provider: b, Weight: 1}, {Provider: free}}
		ends := map[string]int{}
		var mu sync.Mutex
		var group sync.WaitGroup
		for i := range 2000 {
			group.Go(func() {
				time.Sleep(time.Duration(rand.IntN(60_000)) * time.Millisecond)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if rand.IntN(8) == 0 {
					time.AfterFunc(time.Duration(rand.IntN(2000))*time.Millisecond, cancel)
				}
				j := job(fmt.Sprint(i), targets[rand.IntN(2):]...)
				j.Team, j.Weight = fmt.Sprint("team", i%5), i%3
				j.Input, j.Output = tokens.Count(rand.IntN(3000)), tokens.Count(rand.IntN(6000))
				if rand.IntN(2) == 0 {
					j = streaming(j)
				}
				end := soakCall(ctx, c, j)
				mu.Lock()
				ends[end]++
				mu.Unlock()
			})
		}
		for range 10 {
			time.Sleep(5 * time.Second)
			c.Reload(all)
		}
		group.Wait()
		m.idle(t)
		tr.closed(t)
		for _, s := range c.states {
			for _, k := range s.keys {
				if k.pacer.queue.n != 0 {
					t.Errorf("%d still wait for %s", k.pacer.queue.n, s.provider.Name)
				}
				if k.pacer.paced == nil {
					continue
				}
				slots := k.pacer.paced.lines[k.pacer.paced.index(budget.Concurrency)]
				states, _, err := m.store.Read(t.Context(), []budget.Line{{Limit: slots}})
				if err != nil || states[0].Remaining != slots.Amount {
					t.Errorf("%d of %d slots are free: %v", states[0].Remaining, slots.Amount, err)
				}
			}
		}
		for _, end := range []string{"200", "400", "gone", "broke off", string(fault.UpstreamError)} {
			if ends[end] == 0 {
				t.Errorf("no call ended as %q: %v", end, ends)
			}
		}
	})
}

// soakCall makes a call and says how it ended.
func soakCall(ctx context.Context, c *Client, j Job) string {
	r, err := c.Do(ctx, j)
	if errors.Is(err, context.Canceled) {
		return "gone"
	}
	if err != nil {
		return string(fault.From(err).Code)
	}
	defer r.Close()
	if rand.IntN(10) == 0 {
		return "closed" // without settling or reading
	}
	_, err = io.ReadAll(r.Body)
	r.Settle(tokens.Usage{Input: j.Input, Output: j.Output / 2})
	if err != nil {
		return "broke off"
	}
	return fmt.Sprint(r.Status)
}

func TestUsageIsHiddenFromStreamsThatDidNotAskForIt(t *testing.T) {
	for _, s := range []struct {
		what         string
		stream, asks bool
		hidden       bool
	}{
		{"a stream that did not ask", true, false, true},
		{"a stream that asked", true, true, false},
		{"no stream", false, false, false},
	} {
		for _, usage := range []UsagePolicy{Auto, Always, Never} {
			p := provider("a", func(p *Provider) { p.Usage = usage })
			j := job("r", Target{Provider: p})
			call := *j.Call
			call.Stream, call.WantsUsage = s.stream, s.asks
			j.Call = &call
			r, err := client(t, nil, &script{}, nil, p).Do(t.Context(), j)
			if err != nil {
				t.Fatal(err)
			}
			if got := r.Meter.(*lineMeter).hide; got != (s.hidden && usage != Never) { // where we do not ask, what comes is the provider's to show

				t.Errorf("%s, inject_usage %s: hidden %v", s.what, usage, got)
			}
			whole(t, r)
		}
	}
}

func TestARefusalForCapacityNamesTheLimitThatBinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, s := range []struct {
			by     string
			limits Limits
			amount int64
			per    string
			says   string
		}{
			{"provider/p/requests", Limits{RequestsPerMinute: 1, TokensPerMinute: 9_000_000, Concurrency: 9}, 1, "minute", "1 requests per minute"},
			{"provider/p/tokens", Limits{RequestsPerMinute: 9_000_000, TokensPerMinute: 600, Concurrency: 9}, 600, "minute", "600 tokens per minute"},
			{"provider/p/concurrency", Limits{RequestsPerMinute: 9_000_000, TokensPerMinute: 9_000_000, Concurrency: 1}, 1, "", "1 calls at a time"},
		} {
			p := gateway(newMemory(), s.limits)
			if _, err := p.take(t.Context(), request{id: "a", team: "t", tokens: 300}); err != nil {
				t.Fatal(err)
			}
			for id, wait := range map[string]time.Duration{"at once": 0, "after waiting": 100 * time.Millisecond} {
				_, err := p.take(t.Context(), request{id: id, team: "t", tokens: 300, maxWait: wait})
				f := capacity(t, err)
				if f.Limit.By != s.by || f.Limit.Amount != s.amount || f.Limit.Per != s.per || f.Wait <= 0 {
					t.Errorf("%s: refused by %+v with a wait of %s, want %s", id, f.Limit, f.Wait, s.by)
				}
				if !strings.Contains(f.Message, s.says) || !strings.Contains(f.Message, `"p"`) {
					t.Errorf("%s: told %q", id, f.Message)
				}
			}
		}
	})
}
