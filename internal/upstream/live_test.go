package upstream

import (
	"testing"
	"time"

	"llmgw/internal/budget"
)

func TestLiveTellsWhatEachProviderIsAt(t *testing.T) {
	bounded := &Provider{Name: "limited", Limits: Limits{RequestsPerMinute: 600, Concurrency: 4}, APIKeys: []string{"a", "b"}}
	free := &Provider{Name: "free"}
	c := New(Config{Providers: []*Provider{bounded, free}, Limiter: generous{}})
	got := c.Live()
	if len(got) != 2 || got[0].Name != "free" || got[1].Name != "limited" {
		t.Fatalf("got %+v, want both by name", got)
	}
	if got[0].State != "ok" || len(got[0].Headroom) != 0 {
		t.Errorf("a provider without limits: got %+v", got[0])
	}
	if h := got[1].Headroom; len(h) != 2 || h[0] != (Headroom{"requests", 600, 600}) || h[1] != (Headroom{"concurrency", 4, 4}) {
		t.Errorf("nothing was asked yet: got %+v, want all of it", h)
	}
	s := c.states["limited"]
	s.inflight.Add(3)
	now := time.Now()
	s.rotate("m", 0)
	s.conditions.rest(scope{key: s.keys[0].id}, limited, time.Hour, now, now)
	if got := c.Live()[1]; got.State != "ok" || got.Inflight != 3 {
		t.Errorf("one of two keys waits: got %+v", got)
	}
	s.conditions.rest(scope{key: s.keys[1].id}, limited, time.Hour, now, now)
	if got := c.Live()[1]; got.State != "paused" {
		t.Errorf("both keys wait: got %+v", got)
	}
	for _, want := range []struct {
		cause cause
		state string
	}{{spent, "spent"}, {refused, "refused"}} {
		for _, k := range s.keys {
			s.conditions.rest(scope{key: k.id}, want.cause, 0, now, now)
		}
		if got := c.Live()[1]; got.State != want.state {
			t.Errorf("both keys are %s: got %+v", want.cause, got)
		}
	}
}

func TestHeadroomRefillsUntilItIsAskedAgain(t *testing.T) {
	line := &budget.Limit{Algorithm: budget.Pacing, Amount: 60, Period: budget.Minute, Unit: budget.Requests}
	now := time.Now()
	l := levels{at: now, lines: []budget.LineState{{Remaining: -2, Capacity: 10, Reset: 12 * time.Second}}}
	for _, s := range []struct {
		after time.Duration
		want  int64
	}{{0, 0}, {2 * time.Second, 0}, {7 * time.Second, 300}, {time.Hour, 600}} {
		if got := l.left(0, line, 600, now.Add(s.after)); got != s.want {
			t.Errorf("%v later: got %d left of 600, want %d", s.after, got, s.want)
		}
	}
}
