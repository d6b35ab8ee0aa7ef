package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"llmgw/internal/dialect"
	"llmgw/internal/fault"
	"llmgw/internal/tokens"
)

const spentBody = `{"error":{"message":"You exceeded your current quota.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`

// What may follow an answer, by its status and body: one target, two retries.
func TestOnlyWhatCanBeCuredIsTriedAgain(t *testing.T) {
	ok := answer{status: 200, body: "fine\n"}
	refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	for _, s := range []struct {
		what   string
		first  answer
		tries  int // until the answer
		status int // of the answer
	}{
		{"no connection", answer{err: refused}, 2, 200},
		{"a connection that broke before the answer", answer{err: io.ErrUnexpectedEOF}, 2, 200},
		{"408", answer{status: 408}, 2, 200},
		{"429", answer{status: 429}, 2, 200},
		{"500", answer{status: 500}, 2, 200},
		{"502", answer{status: 502}, 2, 200},
		{"503", answer{status: 503}, 2, 200},
		{"504", answer{status: 504}, 2, 200},
		{"529", answer{status: 529}, 2, 200},
		{"400", answer{status: 400}, 1, 400},
		{"401", answer{status: 401}, 1, 401},
		{"402", answer{status: 402}, 1, 402},
		{"403", answer{status: 403}, 1, 403},
		{"404", answer{status: 404}, 1, 404},
		{"409", answer{status: 409}, 1, 409},
		{"413", answer{status: 413}, 1, 413},
		{"422", answer{status: 422}, 1, 422},
		{"501", answer{status: 501}, 1, 501},
		{"a spent quota of OpenAI", answer{status: 429, body: spentBody}, 1, 429},
		{"a spent limit of Anthropic", answer{status: 429, body: `{"type":"error","error":{"type":"rate_limit_error","message":"You have reached your API usage limits","details":{"error_code":"enforced_spend_limit_reached"}}}`}, 1, 429},
		{"a spent day of Gemini", answer{status: 429, body: `[{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"@type":"q","violations":[{"quotaId":"GenerateRequestsPerDayPerProject"}]},{"@type":"r","retryDelay":"1s"}]}}]`}, 1, 429},
		{"a request larger than the limit", answer{status: 429, body: `{"error":{"message":"Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 34307.","type":"tokens","code":"rate_limit_exceeded"}}`}, 1, 429},
		{"what the provider asks not to repeat", answer{status: 503, header: map[string]string{"X-Should-Retry": "false"}}, 1, 503},
		{"a wait that fits", answer{status: 429, header: map[string]string{"Retry-After": "9"}}, 2, 200},
		{"a wait that does not fit", answer{status: 429, header: map[string]string{"Retry-After": "11"}}, 1, 429},
		{"a wait for a broken provider that does not fit", answer{status: 503, header: map[string]string{"Retry-After": "30"}}, 1, 503},
	} {
		synctest.Test(t, func(t *testing.T) {
			tr := &script{answers: map[string][]answer{"a": {s.first, ok}}}
			w := &watcher{}
			p := provider("a", nil)
			r, err := client(t, nil, tr, w, p).Do(t.Context(), job("r", Target{Provider: p, Weight: 1}))
			if err != nil {
				t.Errorf("%s: %v", s.what, err)
				return
			}
			if r.Status != s.status || len(tr.sent) != s.tries || r.Attempts != s.tries {
				t.Errorf("%s: status %d after %d tries, want %d after %d", s.what, r.Status, len(tr.sent), s.status, s.tries)
			}
			body := whole(t, r)
			if s.tries == 1 && body != s.first.body {
				t.Errorf("%s: the body is %q, want the provider's own", s.what, body)
			}
			tr.closed(t)
			if len(w.statuses) != s.tries {
				t.Errorf("%s: the observer was told of %v", s.what, w.statuses)
			}
		})
	}
}

func TestTriesEndWhereTheConfigurationSaysSo(t *testing.T) {
	for _, retries := range []int{0, 1, 4} {
		synctest.Test(t, func(t *testing.T) {
			tr := &script{answers: map[string][]answer{"a": {{status: 500, body: "broken"}}}}
			p := provider("a", func(p *Provider) { p.Retries = retries })
			r, err := client(t, nil, tr, nil, p).Do(t.Context(), job("r", Target{Provider: p, Weight: 1}))
			if err != nil {
				t.Fatal(err)
			}
			if got := whole(t, r); r.Status != 500 || got != "broken" {
				t.Errorf("got %d %q, want the provider's last answer", r.Status, got)
			}
			if len(tr.sent) != retries+1 {
				t.Errorf("%d tries with %d retries", len(tr.sent), retries)
			}
		})
	}
}

// H3: a provider's retry-after is waited for, with jitter, within the deadline.
func TestRetryAfterIsKeptToTheFullAndWithJitter(t *testing.T) {
	for header, want := range map[string]time.Duration{"2": 2 * time.Second, "Retry-After-Ms": 700 * time.Millisecond} {
		waits := map[time.Duration]bool{}
		for range 5 {
			synctest.Test(t, func(t *testing.T) {
				h := map[string]string{"Retry-After": header}
				if header == "Retry-After-Ms" {
					h = map[string]string{"Retry-After": "3", "Retry-After-Ms": "700"}
				}
				tr := &script{answers: map[string][]answer{"a": {{status: 429, header: h}, {status: 200}}}}
				p := provider("a", nil)
				r, err := client(t, nil, tr, nil, p).Do(t.Context(), job("r", Target{Provider: p, Weight: 1}))
				if err != nil {
					t.Fatal(err)
				}
				whole(t, r)
				d := tr.sent[1].at.Sub(tr.sent[0].at)
				if d < want || d > want+want/10+time.Nanosecond {
					t.Errorf("asked to wait %s, it waited %s", want, d)
				}
				if r.QueueWait != d {
					t.Errorf("it waited %s and says %s", d, r.QueueWait)
				}
				waits[d] = true
			})
		}
		if len(waits) < 2 {
			t.Errorf("five calls all waited the same: %v", waits)
		}
	}
}

// H4: what failed together does not come back together.
func TestBackoffIsFullyJittered(t *testing.T) {
	var least, most time.Duration = time.Hour, 0
	for range 200 {
		d := outcome{again: anywhere}.delay(2)
		least, most = min(least, d), max(most, d)
	}
	if most > 2*backoffFirst || most < backoffFirst || least > backoffFirst/2 {
		t.Errorf("200 second waits lie between %s and %s, want all of 0 to %s", least, most, 2*backoffFirst)
	}
	if d := (outcome{}).delay(1000); d > backoffMost {
		t.Errorf("the thousandth wait is %s", d)
	}
}

func TestMaxWaitOfTheRequestBoundsAllItsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &script{answers: map[string][]answer{"a": {{status: 429, header: map[string]string{"Retry-After": "2"}}}}}
		p := provider("a", func(p *Provider) { p.Retries = 10 })
		j := job("r", Target{Provider: p, Weight: 1})
		j.MaxWait = 5 * time.Second
		start := time.Now()
		r, err := client(t, nil, tr, nil, p).Do(t.Context(), j)
		if err != nil {
			t.Fatal(err)
		}
		if whole(t, r); r.Status != 429 || r.Header.Get("Retry-After") != "2" {
			t.Errorf("the last answer has status %d and header %v", r.Status, r.Header)
		}
		if d := time.Since(start); d > 5*time.Second || len(tr.sent) != 3 {
			t.Errorf("%d tries in %s, want 3 within 5 s", len(tr.sent), d)
		}
	})
}

// G2: the provider's own refusal, with its retry-after, is what is handed back.
func TestARefusalThatIsNotWaitedForComesBackAsItCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &script{answers: map[string][]answer{"a": {{status: 429, header: map[string]string{"Retry-After": "11"}, body: `{"error":{}}`}}}}
		p := provider("a", nil)
		r, err := client(t, nil, tr, nil, p).Do(t.Context(), streaming(job("r", Target{Provider: p, Weight: 1})))
		if err != nil {
			t.Fatal(err)
		}
		if got := whole(t, r); r.Status != 429 || r.Header.Get("Retry-After") != "11" || got != `{"error":{}}` {
			t.Errorf("got %d, %v, %q", r.Status, r.Header, got)
		}
	})
}

func TestAnotherTargetIsTriedAtOnce(t *testing.T) {
	for _, s := range []struct {
		what  string
		first answer
	}{
		{"429 with a long wait", answer{status: 429, header: map[string]string{"Retry-After": "3600"}}},
		{"500", answer{status: 500}},
		{"a spent quota", answer{status: 429, body: spentBody}},
		{"a key that is wrong", answer{status: 401}},
		{"a model that is not there", answer{status: 404}},
		{"a response before this one that another keeps", answer{status: 400, body: `{"error":{"message":"Previous response with id 'resp_1' not found.","type":"invalid_request_error","param":"previous_response_id","code":"previous_response_not_found"}}`}},
		{"no answer in time", answer{after: time.Hour}},
		{"a stream that begins with an error", answer{status: 200, body: "error overloaded\n"}},
		{"a stream that breaks off before its first event", answer{status: 200, body: "half", cut: io.ErrUnexpectedEOF}},
		{"a stream without a byte", answer{status: 200}},
	} {
		synctest.Test(t, func(t *testing.T) {
			tr := &script{answers: map[string][]answer{"a": {s.first}}}
			short := func(p *Provider) { p.Timeouts.FirstByte = 2 * time.Second }
			a, b := provider("a", short), provider("b", short)
			start := time.Now()
			r, err := client(t, nil, tr, nil, a, b).Do(t.Context(),
				streaming(job("r", Target{Provider: a, Weight: 1}, Target{Provider: b, Model: "other", Weight: 0})))
			if err != nil {
				t.Errorf("%s: %v", s.what, err)
				return
			}
			if got := whole(t, r); r.Status != 200 || got != "fine\n" || r.Target.Provider.Name != "b" {
				t.Errorf("%s: %s answered %d %q", s.what, r.Target.Provider.Name, r.Status, got)
			}
			if got := tr.hosts(); !reflect.DeepEqual(got, []string{"a", "b"}) {
				t.Errorf("%s: asked %v", s.what, got)
			}
			if d := time.Since(start); d > 2*time.Second {
				t.Errorf("%s: the other target was asked after %s", s.what, d)
			}
			tr.closed(t)
			if tr.sent[0].model != "asked" || tr.sent[1].model != "other" {
				t.Errorf("%s: asked for the models %q and %q", s.what, tr.sent[0].model, tr.sent[1].model)
			}
		})
	}
}

func TestABadRequestIsNotShownToAnotherTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &script{answers: map[string][]answer{"a": {{status: 400}}}}
		a, b := provider("a", nil), provider("b", nil)
		r, err := client(t, nil, tr, nil, a, b).Do(t.Context(), job("r", Target{Provider: a, Weight: 1}, Target{Provider: b}))
		if err != nil {
			t.Fatal(err)
		}
		if whole(t, r); r.Status != 400 || len(tr.sent) != 1 {
			t.Errorf("status %d after asking %v", r.Status, tr.hosts())
		}
	})
}

func TestOurOwnTimeoutIsNotRepeatedOnTheSameTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &script{answers: map[string][]answer{"a": {{after: time.Hour}}}}
		p := provider("a", func(p *Provider) { p.Timeouts.FirstByte = 3 * time.Second })
		start := time.Now()
		_, err := client(t, nil, tr, nil, p).Do(t.Context(), job("r", Target{Provider: p, Weight: 1}))
		if f := fault.From(err); f.Code != fault.UpstreamTimeout {
			t.Errorf("got %v", err)
		}
		if d := time.Since(start); d != 3*time.Second || len(tr.sent) != 1 {
			t.Errorf("%d tries in %s", len(tr.sent), d)
		}
	})
}

func TestAStreamThatBeginsWithAnErrorIsAnErrorInTheEnd(t *testing.T) {
	for first, want := range map[string]int{"overloaded\n": 502, "529\n": 529, "503\n": 503} {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory()
			tr := &script{answers: map[string][]answer{"a": {{status: 200, body: "error " + first}}}}
			p := provider("a", func(p *Provider) { p.Limits.Concurrency = 1 })
			_, err := client(t, m, tr, nil, p).Do(t.Context(), streaming(job("r", Target{Provider: p, Weight: 1})))
			f := fault.From(err)
			if f.Code != fault.UpstreamError || f.Status != want || !strings.Contains(f.Message, strings.TrimSpace(first)) {
				t.Errorf("got %v with status %d, want %d", err, f.Status, want)
			}
			if len(tr.sent) != 3 {
				t.Errorf("%d tries, want 3", len(tr.sent))
			}
			tr.closed(t)
			m.idle(t)
		})
	}
}

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

func TestAJobWithoutTargetsIsAnError(t *testing.T) {
	if r, err := client(t, nil, &script{}, nil).Do(t.Context(), job("r")); r != nil || fault.From(err).Code != fault.Internal {
		t.Errorf("got %v, %v", r, err)
	}
}

// The provider's refusal holds back every call after it, not the refused alone.
func TestAfterARefusalNobodyIsSentBeforeItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		tr := &script{answers: map[string][]answer{"a": {{status: 429, header: map[string]string{"Retry-After": "4"}}, {status: 200, body: "fine\n"}}}}
		p := provider("a", func(p *Provider) { p.Limits.RequestsPerMinute = 6000 })
		c := client(t, m, tr, nil, p)
		start := time.Now()
		var group sync.WaitGroup
		for i := range 5 {
			group.Go(func() {
				time.Sleep(time.Duration(i) * 100 * time.Millisecond)
				r, err := c.Do(t.Context(), job(fmt.Sprint(i), Target{Provider: p, Weight: 1}))
				if err != nil {
					t.Error(err)
					return
				}
				if whole(t, r); r.Status != 200 {
					t.Errorf("call %d: status %d", i, r.Status)
				}
			})
		}
		group.Wait()
		if len(tr.sent) != 6 {
			t.Errorf("%d tries of 5 calls, want one more", len(tr.sent))
		}
		for _, s := range tr.sent[1:] {
			if d := s.at.Sub(start); d < 4*time.Second || d > 4200*time.Millisecond {
				t.Errorf("one was sent after %s, want soon after 4 s", d)
			}
		}
		if len(m.paused) != 1 || m.paused[0] != 4*time.Second {
			t.Errorf("the store was told to pause for %v", m.paused)
		}
		m.idle(t)
	})
}

func TestAFailureTellsWhereItWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
		tr := &script{answers: map[string][]answer{"a": {{err: refused}}}}
		p := provider("a", func(p *Provider) { p.Limits = Limits{Concurrency: 1} })
		_, err := client(t, newMemory(), tr, nil, p).Do(t.Context(), job("r", Target{Provider: p, Model: "m", Weight: 1}))
		var failed *TargetError
		if !errors.As(err, &failed) || failed.Target.Provider != p || failed.Target.Model != "m" || fault.From(err).Code != fault.UpstreamError {
			t.Errorf("got %v, want the failure of a's m", err)
		}
		held := newMemory()
		busy := client(t, held, &script{answers: map[string][]answer{"a": {{status: 200}}}}, nil, p)
		first, err := busy.Do(t.Context(), job("r1", Target{Provider: p, Weight: 1}))
		if err != nil {
			t.Fatal(err)
		}
		impatient := job("r2", Target{Provider: p, Weight: 1})
		impatient.MaxWait = 0
		_, err = busy.Do(t.Context(), impatient)
		if f := capacity(t, err); errors.As(err, &failed) && failed.Err == f {
			t.Errorf("what was never sent has a target: %v", failed)
		} else if f.Limit == nil || f.Limit.Requested != 1 {
			t.Errorf("got %+v, want one slot asked for", f.Limit)
		}
		first.Close()
	})
}

// D16: once the client may have bytes, nothing is tried again.
func TestAStreamThatBreaksLaterIsNotTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &script{answers: map[string][]answer{"a": {{status: 200, body: "one\ntwo\nthr", cut: errors.New("reset")}}}}
		p := provider("a", nil)
		r, err := client(t, nil, tr, nil, p).Do(t.Context(), streaming(job("r", Target{Provider: p, Weight: 1})))
		if err != nil {
			t.Fatal(err)
		}
		rest, err := io.ReadAll(r.Body)
		if f := fault.From(err); f.Code != fault.UpstreamError {
			t.Errorf("the break is told as %v", err)
		}
		if got := string(r.Prefix) + string(rest); got != "one\ntwo\nthr" || len(tr.sent) != 1 {
			t.Errorf("got %q after %d tries", got, len(tr.sent))
		}
		r.Close()
	})
}

func TestCommentsAreLetThroughBeforeTheFirstEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := io.Pipe()
		p := provider("a", nil)
		tr := piped{from}
		c := New(Config{Providers: []*Provider{p}, Transport: func(*Provider) httpTransport { return tr }})
		go to.Write([]byte(": still queued\n"))
		r, err := c.Do(t.Context(), streaming(job("r", Target{Provider: p, Weight: 1})))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(r.Prefix); got != ": still queued\n" {
			t.Errorf("the client gets %q", got)
		}
		go func() {
			to.Write([]byte("fine\n"))
			to.Close()
		}()
		if rest, err := io.ReadAll(r.Body); string(rest) != "fine\n" || err != nil {
			t.Errorf("then %q, %v", rest, err)
		}
		r.Close()
	})
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

func TestNoTurnInTimeOnOneTargetMeansAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		tr := &script{}
		slow := func(p *Provider) { p.Limits.RequestsPerMinute = 1 }
		a, b := provider("a", slow), provider("b", slow)
		c := client(t, m, tr, nil, a, b)
		targets := []Target{{Provider: a, Weight: 1}, {Provider: b}}
		for i, id := range []string{"first", "second"} {
			r, err := c.Do(t.Context(), job(id, targets...))
			if err != nil {
				t.Fatal(err)
			}
			whole(t, r)
			if got, want := r.Target.Provider.Name, []string{"a", "b"}[i]; got != want || r.Attempts != 1 {
				t.Errorf("the %s call went to %s by try %d", id, got, r.Attempts)
			}
		}
		_, err := c.Do(t.Context(), job("third", targets...))
		if f := capacity(t, err); f.Wait < 50*time.Second || f.Wait > 61*time.Second {
			t.Errorf("with both taken, the wait is %s", f.Wait)
		}
	})
}

func TestAProviderThatRejectsStreamOptionsIsRemembered(t *testing.T) {
	for _, s := range []struct {
		usage  UsagePolicy
		bodies []string
		status int
	}{
		{Auto, []string{"hello stream_options", "hello", "hello"}, 200},
		{Always, []string{"hello stream_options", "hello stream_options"}, 400},
		{Never, []string{"hello", "hello"}, 400},
	} {
		synctest.Test(t, func(t *testing.T) {
			no := answer{status: 400, body: `{"error":{"message":"Unrecognized request argument supplied: stream_options"}}`}
			tr := &script{answers: map[string][]answer{"a": {no, {status: 200, body: "fine\n"}}}}
			if s.status == 400 {
				tr.answers["a"] = []answer{no}
			}
			p := provider("a", func(p *Provider) { p.Usage, p.Retries = s.usage, 0 })
			c := client(t, nil, tr, nil, p)
			for range 2 {
				r, err := c.Do(t.Context(), streaming(job("r", Target{Provider: p, Weight: 1})))
				if err != nil {
					t.Fatal(err)
				}
				if whole(t, r); r.Status != s.status {
					t.Errorf("inject_usage %s: status %d", s.usage, r.Status)
				}
			}
			var bodies []string
			for _, r := range tr.sent {
				bodies = append(bodies, r.body)
			}
			if !reflect.DeepEqual(bodies, s.bodies) {
				t.Errorf("inject_usage %s: sent %q", s.usage, bodies)
			}
		})
	}
}

func TestGoingWithoutStreamOptionsCostsNoRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &script{answers: map[string][]answer{"a": {
			{status: 400, body: "stream_options?"}, {status: 500}, {status: 200, body: "fine\n"}}}}
		p := provider("a", func(p *Provider) { p.Retries = 1 })
		r, err := client(t, nil, tr, nil, p).Do(t.Context(), streaming(job("r", Target{Provider: p, Weight: 1})))
		if err != nil {
			t.Fatal(err)
		}
		if whole(t, r); r.Status != 200 {
			t.Errorf("status %d after %d tries", r.Status, len(tr.sent))
		}
		tr.closed(t)
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
