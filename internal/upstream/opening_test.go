package upstream

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"llmgw/internal/fault"
)

func TestAStreamThatBeginsWithAnErrorIsAnErrorInTheEnd(t *testing.T) {
	for first, want := range map[string]int{"overloaded\n": 502, "529\n": 529, "503\n": 503, "503\n[DONE]\n": 503} {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory()
			tr := &script{answers: map[string][]answer{"a": {{status: 200, body: "error " + first}}}}
			p := provider("a", func(p *Provider) { p.Limits.Concurrency = 1 })
			_, err := client(t, m, tr, nil, p).Do(t.Context(), streaming(job("r", Target{Provider: p, Weight: 1})))
			f := fault.From(err)
			if f.Code != fault.UpstreamError || f.Status != want || !strings.Contains(f.Message, strings.Fields(first)[0]) {
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

func TestAnErrorBeforeAnyContentIsTriedElsewhere(t *testing.T) {
	for _, before := range []string{"", ": queued\n", "\n", "ready\n", ": queued\nready\nready\n"} {
		for _, end := range []answer{{body: "error overloaded\n"}, {body: "error 503\n"}, {cut: errors.New("reset")}, {}} {
			synctest.Test(t, func(t *testing.T) {
				end.status, end.body = 200, before+end.body
				tr := &script{answers: map[string][]answer{"a": {end}, "b": {{status: 200, body: "ready\nfine\n"}}}}
				a, b := provider("a", nil), provider("b", nil)
				r, err := client(t, nil, tr, nil, a, b).Do(t.Context(), streaming(job("r", Target{Provider: a, Weight: 1}, Target{Provider: b})))
				if err != nil {
					t.Fatalf("after %q and %+v: %v", before, end, err)
				}
				if got := whole(t, r); got != "ready\nfine\n" || r.Attempts != 2 {
					t.Errorf("after %q and %+v the client gets %q at attempt %d", before, end, got, r.Attempts)
				}
				tr.closed(t)
			})
		}
	}
}

func TestGoingWithoutStreamOptionsCostsNoRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &script{answers: map[string][]answer{"a": {
			{status: 400, body: rejected}, {status: 500}, {status: 200, body: "fine\n"}}}}
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
