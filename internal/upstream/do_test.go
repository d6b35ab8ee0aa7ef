package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"llmgw/internal/dialect"
	"llmgw/internal/fault"
	"llmgw/internal/tokens"
)

const spentBody = `{"error":{"message":"You exceeded your current quota.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`

// The wait for a turn counts as well, over all tries.
func TestMaxWaitBoundsTheTurnsOfAllTriesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		tr := &script{answers: map[string][]answer{"a": {{status: 500, body: "broken"}}}}
		p := provider("a", func(p *Provider) { p.Limits.RequestsPerMinute, p.Retries, p.MaxWait = 60, 10, 3*time.Second })
		start := time.Now()
		r, err := client(t, m, tr, nil, p).Do(t.Context(), job("r", Target{Provider: p, Weight: 1}))
		if err != nil {
			t.Fatal(err)
		}
		if got := whole(t, r); r.Status != 500 || got != "broken" {
			t.Errorf("got %d %q, want the provider's last answer and not a refusal for capacity", r.Status, got)
		}
		if d := time.Since(start); d > 3*time.Second || len(tr.sent) != 3 {
			t.Errorf("%d tries in %s, want 3 within 3 s", len(tr.sent), d)
		}
		m.idle(t)
		tr.closed(t)
	})
}

// A dialect that panics must not keep a slot or a connection's turn.
func TestAPanicOfTheDialectReleasesTheTurn(t *testing.T) {
	m := newMemory()
	tr := &script{}
	p := provider("a", func(p *Provider) { p.Limits.Concurrency = 1 })
	j := job("r", Target{Provider: p})
	j.Dialect = panicking{}
	func() {
		defer func() {
			if recover() == nil {
				t.Errorf("the panic was swallowed")
			}
		}()
		client(t, m, tr, nil, p).Do(t.Context(), j)
	}()
	m.idle(t)
}

// panicking is a dialect whose meter cannot be made.
type panicking struct{ plainDialect }

func (panicking) Meter(*dialect.Call, dialect.Answer, dialect.MeterOptions) dialect.Meter {
	panic("no meter")
}

func TestACallThatCannotBeMadeIsNotSent(t *testing.T) {
	m := newMemory()
	tr := &script{}
	p := provider("a", func(p *Provider) { p.Limits.Concurrency = 1 })
	_, err := client(t, m, tr, nil, p).Do(t.Context(), job("r", Target{Provider: p, Model: "unspeakable"}))
	if f := fault.From(err); f.Code != fault.InvalidRequest || len(tr.sent) != 0 {
		t.Errorf("got %v, sent %d", err, len(tr.sent))
	}
	m.idle(t)
}

func TestAProviderWithoutLimitsIsAskedWithoutALimiter(t *testing.T) {
	m := newMemory()
	w := &watcher{}
	p := provider("a", nil)
	r, err := client(t, m, &script{}, w, p).Do(t.Context(), job("r", Target{Provider: p}))
	if err != nil {
		t.Fatal(err)
	}
	whole(t, r)
	if m.reserves != 0 || len(w.waits) != 0 {
		t.Errorf("%d reservations, %d waits", m.reserves, len(w.waits))
	}
}

// S40: each try has a reservation of its own, and the one before is released.
func TestEveryTryReservesAnewAndReleasesTheLast(t *testing.T) {
	for policy, want := range map[FailurePolicy]int64{CountFailures: 1000, "": 1000, FreeFailures: 0} {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory()
			tr := &script{answers: map[string][]answer{"a": {{status: 500}, {status: 200}}}}
			p := provider("a", func(p *Provider) {
				p.Limits = Limits{RequestsPerMinute: 60_000, TokensPerMinute: 600_000, Concurrency: 1}
				p.Failures = policy
			})
			j := job("r", Target{Provider: p, Weight: 1})
			j.Input, j.Output = 10, 20
			r, err := client(t, m, tr, nil, p).Do(t.Context(), j)
			if err != nil {
				t.Fatal(err)
			}
			r.Settle(tokens.Usage{Input: 11, Output: 5})
			r.Close()
			m.idle(t)
			if got := m.settled["r/1"]; !reflect.DeepEqual(got, []int64{want, 0, 0}) {
				t.Errorf("failures %q: the failed try is settled as %v", policy, got)
			}
			if got := m.settled["r/2"]; !reflect.DeepEqual(got, []int64{1000, 16, 0}) {
				t.Errorf("failures %q: the good try is settled as %v", policy, got)
			}
		})
	}
}

func TestACallThatNeverReachedTheProviderCostsNothing(t *testing.T) {
	m := newMemory()
	refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	for name, s := range map[string]struct {
		err  error
		want int64
	}{"no connection": {refused, 0}, "a break after sending": {io.ErrUnexpectedEOF, 1000}} {
		tr := &script{answers: map[string][]answer{"a": {{err: s.err}}}}
		p := provider("a", func(p *Provider) { p.Limits.RequestsPerMinute, p.Retries = 60_000, 0 })
		if _, err := client(t, m, tr, nil, p).Do(t.Context(), job(name, Target{Provider: p})); err == nil {
			t.Errorf("%s: no error", name)
		}
		if got := m.settled[name+"/1"]; !reflect.DeepEqual(got, []int64{s.want}) {
			t.Errorf("%s: settled as %v, want %d", name, got, s.want)
		}
	}
	m.idle(t)
}

func TestAResponseThatNobodySettledIsChargedInFull(t *testing.T) {
	m := newMemory()
	p := provider("a", func(p *Provider) { p.Limits = Limits{TokensPerMinute: 600_000} })
	j := job("r", Target{Provider: p})
	j.Input, j.Output = 10, 20
	r, err := client(t, m, &script{}, nil, p).Do(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	if got := m.settled["r/1"]; !reflect.DeepEqual(got, []int64{30}) {
		t.Errorf("settled as %v", got)
	}
}

func TestACallerThatLeavesEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		tr := &script{answers: map[string][]answer{"a": {{after: time.Hour}}}}
		p := provider("a", func(p *Provider) { p.Limits = Limits{RequestsPerMinute: 60, Concurrency: 3} })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 3)
		c := client(t, m, tr, nil, p)
		for _, id := range []string{"sent", "waits", "waits too"} {
			go func() {
				_, err := c.Do(ctx, job(id, Target{Provider: p, Weight: 1}))
				done <- err
			}()
			synctest.Wait()
		}
		cancel()
		for range 3 {
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("a caller that left got %v", err)
			}
		}
		m.idle(t)
	})
}

func TestAnAnswerThatComesAsTheCallerLeavesIsClosed(t *testing.T) {
	m, tr := newMemory(), &script{}
	ctx, cancel := context.WithCancel(t.Context())
	p := provider("a", func(p *Provider) { p.Limits.Concurrency = 1 })
	c := New(Config{Providers: []*Provider{p}, Limiter: m, Transport: func(*Provider) httpTransport {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			cancel()
			return tr.RoundTrip(r)
		})
	}})
	if r, err := c.Do(ctx, job("r", Target{Provider: p})); r != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v", r, err)
	}
	m.idle(t)
	tr.closed(t)
}
