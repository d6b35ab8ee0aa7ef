package upstream

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"llmgw/internal/tokens"
)

func TestAResponseTellsHowItCameAbout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &script{answers: map[string][]answer{"a": {
			{status: 429, header: map[string]string{"Retry-After": "2"}, after: time.Second},
			{status: 200, body: "one\ntwo\n", after: 3 * time.Second},
		}}}
		p := provider("a", nil)
		start := time.Now()
		r, err := client(t, nil, tr, nil, p).Do(t.Context(), streaming(job("r", Target{Provider: p, Model: "m", Weight: 1})))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if r.Attempts != 2 || r.Target.Model != "m" || r.Status != 200 {
			t.Errorf("%d tries of %s, status %d", r.Attempts, r.Target.Model, r.Status)
		}
		if r.QueueWait < 2*time.Second || r.QueueWait > 2200*time.Millisecond {
			t.Errorf("it waited %s between the tries, want 2 s", r.QueueWait)
		}
		if got, want := r.Sent.Sub(start), time.Second+r.QueueWait; got != want {
			t.Errorf("the last try was sent after %s, want %s", got, want)
		}
		if got := r.HeaderAt.Sub(r.Sent); got != 3*time.Second {
			t.Errorf("its header came after %s, want 3 s", got)
		}
		if got := r.Meter.Report().Events; got == 0 {
			t.Errorf("the meter has not seen what was read")
		}
	})
}

func TestClosingTwiceAndSettlingLateHaveNoEffect(t *testing.T) {
	m := newMemory()
	p := provider("a", func(p *Provider) { p.Limits = Limits{TokensPerMinute: 600_000, Concurrency: 1} })
	c := client(t, m, &script{}, nil, p)
	for range 3 { // with one slot: each must free it
		j := job("r"+time.Now().String(), Target{Provider: p})
		j.Input = 100
		r, err := c.Do(t.Context(), j)
		if err != nil {
			t.Fatal(err)
		}
		r.Settle(tokens.Usage{Input: 90})
		r.Settle(tokens.Usage{Input: 5})
		r.Close()
		r.Close()
		r.Settle(tokens.Usage{Input: 7})
		if got := m.settled[j.RequestID+"/1"][0]; got != 90 {
			t.Errorf("settled as %d, want the first, 90", got)
		}
	}
	m.idle(t)
}

func TestAnAnswerThatEndedWhileItWasLookedAtEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a busy machine would end the look before the answer
		p := provider("a", nil)
		tr := &script{answers: map[string][]answer{"a": {{status: 200, body: "odd\n"}}}}
		r, err := client(t, nil, tr, nil, p).Do(t.Context(), streaming(job("r", Target{Provider: p})))
		if err != nil {
			t.Fatal(err)
		}
		if n, err := r.Body.Read(make([]byte, 9)); n != 0 || err != io.EOF {
			t.Errorf("read %d, %v", n, err)
		}
		if string(r.Prefix) != "odd\n" {
			t.Errorf("the client gets %q", r.Prefix)
		}
		r.Close()
		tr.closed(t)
	})
}

// A document is not waited for: its header is handed on as soon as it is there.
func TestADocumentIsNotReadBeforeItIsAskedFor(t *testing.T) {
	from, to := io.Pipe()
	p := provider("a", nil)
	c := New(Config{Providers: []*Provider{p}, Transport: func(*Provider) http.RoundTripper { return piped{from} }})
	r, err := c.Do(t.Context(), job("r", Target{Provider: p}))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Prefix) != 0 || r.Meter.Report().Events != 0 {
		t.Errorf("%q was read already", r.Prefix)
	}
	go func() {
		to.Write([]byte("late\n"))
		to.Close()
	}()
	if got := whole(t, r); got != "late\n" {
		t.Errorf("got %q", got)
	}
}
