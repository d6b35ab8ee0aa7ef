package fakellm

import (
	"net/http"
	"testing"
	"time"
)

// clock is a time that moves when it is told to.
type clock struct{ at time.Time }

func newClock() *clock { return &clock{at: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time          { return c.at }
func (c *clock) advance(d time.Duration) { c.at = c.at.Add(d) }

func TestTheSlidingLogIsStrictInEveryMinute(t *testing.T) {
	c := newClock()
	l := newLimits(Options{RPM: 3, TPM: 1000})
	for _, s := range []struct {
		what   string
		after  time.Duration
		tokens int64
		unit   string        // that refuses; empty: let in
		wait   time.Duration // that is told
	}{
		{"the first is let in", 0, 100, "", 0},
		{"so is the second", 20 * time.Second, 100, "", 0},
		{"tokens may be short", 0, 801, "tokens", 40 * time.Second},
		{"and a refusal counts for nothing", 0, 800, "", 0},
		{"now requests are short, tokens too, and the longer wait is told", 10 * time.Second, 900, "tokens", 50 * time.Second},
		{"a request without tokens waits for the first to leave", 0, 0, "requests", 30 * time.Second},
		{"a millisecond before it leaves", 30*time.Second - time.Millisecond, 0, "requests", time.Millisecond},
		{"and when it leaves", time.Millisecond, 100, "", 0},
		{"where both are short for as long, requests are told", 0, 1, "requests", 20 * time.Second},
		{"what can never fit is said to be too large", time.Hour, 1001, "tokens", 0},
		{"all of the limit at once fits", 0, 1000, "", 0},
	} {
		c.advance(s.after)
		turn, f := l.take("k", s.tokens, c.now())
		if f.unit != s.unit || f.wait != s.wait {
			t.Errorf("%s: refused by %q for %v, want %q for %v", s.what, f.unit, f.wait, s.unit, s.wait)
		}
		if (f.status == 0) != (s.unit == "") {
			t.Errorf("%s: status %d", s.what, f.status)
		}
		turn.release()
	}
}

func TestAWindowIsJudgedByItsShare(t *testing.T) {
	c := newClock()
	l := newLimits(Options{RPM: 120, TPM: 60_000, Window: time.Second}) // 2 requests and 1,000 tokens a second
	for _, s := range []struct {
		what   string
		after  time.Duration
		tokens int64
		wait   time.Duration
	}{
		{"one", 0, 400, 0},
		{"two", 100 * time.Millisecond, 400, 0},
		{"a third within the second", 100 * time.Millisecond, 1, 800 * time.Millisecond},
		{"is in time when the first has left", 800 * time.Millisecond, 500, 0},
		{"a large one needs as many empty seconds as it is long", 10 * time.Second, 2500, 0},
		{"and after it nothing for a second", 999 * time.Millisecond, 1, time.Millisecond},
		{"then small ones again", time.Millisecond, 1, 0},
		{"but no large one before its seconds are empty", 0, 2500, 2 * time.Second},
	} {
		c.advance(s.after)
		turn, f := l.take("k", s.tokens, c.now())
		if f.wait != s.wait {
			t.Errorf("%s: wait %v, want %v", s.what, f.wait, s.wait)
		}
		turn.release()
	}
}

func TestConcurrencyCountsWhatIsInFlight(t *testing.T) {
	c := newClock()
	l := newLimits(Options{Concurrency: 2})
	first, _ := l.take("a", 0, c.now())
	if _, f := l.take("b", 0, c.now()); f.status != 0 {
		t.Fatalf("the second was refused: %+v", f)
	}
	if _, f := l.take("c", 0, c.now()); f.status != http.StatusTooManyRequests {
		t.Errorf("the third: %+v, want 429", f)
	}
	first.release()
	if _, f := l.take("c", 0, c.now()); f.status != 0 {
		t.Errorf("after one has ended: %+v", f)
	}
}

func TestKeysMayHaveLimitsOfTheirOwn(t *testing.T) {
	for _, s := range []struct {
		perKey bool
		status int // of the second key's request
	}{{false, http.StatusTooManyRequests}, {true, 0}} {
		c := newClock()
		l := newLimits(Options{RPM: 1, PerKey: s.perKey})
		l.take("a", 0, c.now())
		if _, f := l.take("b", 0, c.now()); f.status != s.status {
			t.Errorf("per key %v: status %d, want %d", s.perKey, f.status, s.status)
		}
	}
}

func TestWhatARequestCountsAsDependsOnTheProvider(t *testing.T) {
	for _, s := range []struct {
		cost          TokenCost
		arrived, left int64 // what remains of 1,000 at the answer, and after it
	}{
		{CostReserved, 850, 850},
		{CostInput, 950, 940},
		{CostSettled, 850, 940},
	} {
		t.Run(string(s.cost), func(t *testing.T) {
			w := newWorld(t, Options{TPM: 1000, TokenCost: s.cost})
			resp := w.post("/v1/chat/completions", `{"model":"sim-in50-out10","messages":[],"max_tokens":100}`)
			if got := resp.Header.Get("x-ratelimit-remaining-tokens"); got != itoa(s.arrived) {
				t.Errorf("remaining at the answer = %s, want %d", got, s.arrived)
			}
			w.idle()
			next := w.post("/v1/embeddings", `{"model":"sim-in0","input":""}`)
			if got := next.Header.Get("x-ratelimit-remaining-tokens"); got != itoa(s.left) {
				t.Errorf("remaining after it = %s, want %d", got, s.left)
			}
		})
	}
}

func TestARefusalSaysWhenToComeBack(t *testing.T) {
	c := newClock()
	w := newWorld(t, Options{RPM: 1, Now: c.now})
	for _, s := range []struct {
		path, body string
		headers    map[string]string
	}{
		{"/v1/chat/completions", `{"model":"sim","messages":[]}`, map[string]string{
			"Retry-After": "59", "Retry-After-Ms": "58500", "X-Ratelimit-Limit-Requests": "1", "X-Ratelimit-Remaining-Requests": "0", "X-Ratelimit-Reset-Requests": "58.5s"}},
		{"/v1/messages", `{"model":"sim","max_tokens":5,"messages":[]}`, map[string]string{
			"Retry-After": "59", "Retry-After-Ms": "", "Anthropic-Ratelimit-Requests-Limit": "1", "Anthropic-Ratelimit-Requests-Remaining": "0",
			"Anthropic-Ratelimit-Requests-Reset": "2026-11-29T12:01:00Z"}},
		{"/v1beta/models/sim:generateContent", `{"contents":[]}`, map[string]string{"Retry-After": "", "X-Ratelimit-Limit-Requests": ""}},
	} {
		t.Run(s.path, func(t *testing.T) {
			w.Reset()
			c.at = newClock().at
			if got := w.post(s.path, s.body).StatusCode; got != http.StatusOK {
				t.Fatalf("the first: status %d", got)
			}
			c.advance(1500 * time.Millisecond)
			resp := w.post(s.path, s.body)
			if resp.StatusCode != http.StatusTooManyRequests {
				t.Fatalf("the second: status %d", resp.StatusCode)
			}
			for name, want := range s.headers {
				if got := resp.Header.Get(name); got != want {
					t.Errorf("%s = %q, want %q", name, got, want)
				}
			}
		})
	}
}

func TestARefusalIsInTheAPIsWords(t *testing.T) {
	w := newWorld(t, Options{TPM: 100})
	for _, s := range []struct{ path, body, at, want string }{
		{"/v1/chat/completions", `{"model":"sim-in200","messages":[]}`, "error.message", "Request too large for sim-in200 in organization org-sim on tokens per min (TPM): Limit 100, Requested 4296. The input or output tokens must be reduced in order to run successfully."},
		{"/v1/chat/completions", `{"model":"sim-in200","messages":[]}`, "error.type", "tokens"},
		{"/v1/chat/completions", `{"model":"sim-in200","messages":[]}`, "error.code", "rate_limit_exceeded"},
		{"/v1/messages", `{"model":"sim-in200","max_tokens":5,"messages":[]}`, "error.type", "rate_limit_error"},
		{"/v1beta/models/sim-in200:generateContent", `{}`, "error.status", "RESOURCE_EXHAUSTED"},
	} {
		if got := dig(t, w.object(s.path, s.body), s.at); got != s.want {
			t.Errorf("%s: %s = %v, want %s", s.path, s.at, got, s.want)
		}
	}
}
