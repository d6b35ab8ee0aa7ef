package upstream

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"llmgw/internal/fault"
)

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
		{"404", answer{status: 404}, 1, 404},
		{"409", answer{status: 409}, 1, 409},
		{"413", answer{status: 413}, 1, 413},
		{"422", answer{status: 422}, 1, 422},
		{"501", answer{status: 501}, 1, 501},
		{"a request that was flagged", answer{status: 403, body: `{"error":{"code":403,"message":"Your input was flagged","metadata":{"flagged_input":"…"}}}`}, 1, 403},
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
			j, failed := job("r", Target{Provider: p, Weight: 1}), failures(0)
			j.Watcher = &failed
			r, err := client(t, nil, tr, w, p).Do(t.Context(), j)
			if err != nil {
				t.Errorf("%s: %v", s.what, err)
				return
			}
			if s.tries > 1 && int(failed) != s.tries-1 {
				t.Errorf("%s: told of %d failures, want %d", s.what, failed, s.tries-1)
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
			if d := s.at.Sub(start); d < 4*time.Second || d > 4300*time.Millisecond {
				t.Errorf("one was sent after %s, want soon after 4 s", d)
			}
		}
		m.idle(t)
	})
}

// failures counts the tries of a job that failed.
type failures int

func (*failures) Wrote(error) {}

func (n *failures) Failed(Target, *fault.Error) { *n++ }

func (*failures) Tried(Target, int, *fault.Error, time.Duration) {}
