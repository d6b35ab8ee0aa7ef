package upstream

import (
	"errors"
	"io"
	"net"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"llmgw/internal/fault"
)

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
		{"a key that Google does not know", answer{status: 400, body: `{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}]}}`}},
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

func TestAJobWithoutTargetsIsAnError(t *testing.T) {
	if r, err := client(t, nil, &script{}, nil).Do(t.Context(), job("r")); r != nil || fault.From(err).Code != fault.Internal {
		t.Errorf("got %v, %v", r, err)
	}
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
