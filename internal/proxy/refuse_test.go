package proxy

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/charge"
	"llmgw/internal/dialect/openai"
	"llmgw/internal/dialect/registry"
	"llmgw/internal/fault"
)

func teamTPM() *budget.Limit {
	return &budget.Limit{
		Place: "team/search", Scope: budget.Team, Owner: "search", Name: "tpm", Unit: budget.Tokens, Amount: 100_000, Period: budget.Minute,
		Burst: 100_000, Algorithm: budget.TokenBucket, Mode: budget.Enforce,
	}
}

// refusalOf is what one line's verdict makes of a request.
func refusalOf(l *budget.Limit, needs int64, out budget.Outcome, left int64, wait time.Duration) *fault.Error {
	g := &Gateway{herd: newHerd(), spent: newSpent()}
	p := &plan{Plan: charge.Plan{Lines: []budget.Line{{Limit: l, Amount: needs}}}}
	return g.refusal(p, budget.Verdict{Outcome: out, Binding: 0, Wait: wait, Lines: []budget.LineState{{Outcome: out, Remaining: left, Wait: wait}}})
}

func TestARefusalSaysWhichLimitHowMuchAndWhen(t *testing.T) {
	slots := &budget.Limit{Place: "team/search", Scope: budget.Team, Owner: "search", Name: "slots", Unit: budget.Concurrency, Amount: 20, Algorithm: budget.Slots}
	slot := &budget.Limit{Place: "team/search", Scope: budget.Team, Owner: "search", Name: "slot", Unit: budget.Concurrency, Amount: 1, Algorithm: budget.Slots}
	once := &budget.Limit{Place: "team/search", Scope: budget.Team, Owner: "search", Name: "once", Unit: budget.Requests, Amount: 1, Period: budget.Month, Algorithm: budget.CalendarUsage}
	monthly := &budget.Limit{Place: "team/search", Scope: budget.Team, Owner: "search", Name: "monthly", Unit: budget.USD, Amount: 500_000_000, Period: budget.Month, Algorithm: budget.CalendarUsage}
	for _, s := range []struct {
		what    string
		e       *fault.Error
		code    fault.Code
		message string
		retry   bool
	}{
		{
			"over a rate", refusalOf(teamTPM(), 3120, budget.Exceeded, 512, 1565*time.Millisecond), fault.RateLimitExceeded,
			`Team "search" is at its limit of 100,000 tokens per minute: this request needs 3,120, 512 are left. Try again in 1.6 s.`, true,
		},
		{
			"over a rate for longer than a client should sleep", refusalOf(teamTPM(), 3120, budget.Exceeded, -200_000, 2*time.Minute), fault.RateLimitExceeded,
			`Team "search" is at its limit of 100,000 tokens per minute: this request needs 3,120, and 200,000 used beyond the limit must be regained first. Try again in 2m0s.`, false,
		},
		{
			"while a larger one waits", refusalOf(teamTPM(), 300, budget.Exceeded, 512, 1200*time.Millisecond), fault.RateLimitExceeded,
			`Team "search" is at its limit of 100,000 tokens per minute, and half of what comes back is kept for a larger request that waits: this one needs 300. Try again in 1.2 s.`, true,
		},
		{
			"a spent month", refusalOf(monthly, 12_345, budget.Spent, 340_000, 48*time.Hour), fault.InsufficientQuota,
			`Team "search" is at its limit of $500.00 per month: this request needs $0.012345, $0.34 are left. Try again in 48h0m0s.`, false,
		},
		{
			"a spent month that ends soon is a wait", refusalOf(monthly, 12_345, budget.Spent, 0, 30*time.Second), fault.RateLimitExceeded,
			`Team "search" is at its limit of $500.00 per month: this request needs $0.012345, $0.00 are left. Try again in 30.0 s.`, true,
		},
		{
			"no slot", refusalOf(slots, 1, budget.NoSlot, 0, 0), fault.ConcurrencyExceeded,
			`Team "search" has all of its 20 concurrent requests in flight. Try again when one has ended.`, true,
		},
		{
			"not the only slot", refusalOf(slot, 1, budget.NoSlot, 0, 0), fault.ConcurrencyExceeded,
			`Team "search" has its one concurrent request in flight. Try again when it has ended.`, true,
		},
		{
			"one of a kind", refusalOf(once, 1, budget.Spent, 0, 48*time.Hour), fault.InsufficientQuota,
			`Team "search" is at its limit of 1 request per month: this request needs 1, 0 are left. Try again in 48h0m0s.`, false,
		},
		{
			"more than can ever fit", refusalOf(teamTPM(), 100_001, budget.NeverFits, 100_000, 0), fault.ExceedsLimit,
			`This request needs 100,001 tokens, more than team "search" can ever have: 100,000 tokens. Make it smaller (a shorter prompt, or a lower maximum of output).`, false,
		},
	} {
		if s.e.Code != s.code || s.e.Message != s.message || s.e.NoRetry == s.retry {
			t.Errorf("%s: got %q, no retry %v\n%s\nwant %q, retry %v\n%s", s.what, s.e.Code, s.e.NoRetry, s.e.Message, s.code, s.retry, s.message)
		}
		if s.retry && s.e.Wait <= 0 {
			t.Errorf("%s: got no wait", s.what)
		}
	}
}

func TestALongWaitForAPeriodNamesItsDayAndZone(t *testing.T) {
	athens, err := time.LoadLocation("Europe/Athens")
	if err != nil {
		t.Fatal(err)
	}
	monthly := &budget.Limit{
		Place: "team/search", Scope: budget.Team, Owner: "search", Name: "monthly", Unit: budget.USD, Amount: 500_000_000, Period: budget.Month,
		Algorithm: budget.CalendarUsage, Location: athens, ResetDay: 1,
	}
	at := time.Date(2026, 3, 31, 12, 0, 0, 0, time.UTC)
	g, p := &Gateway{herd: newHerd()}, &plan{Plan: charge.Plan{Lines: []budget.Line{{Limit: monthly, Amount: 10_000}}}}
	e := g.refusal(p, budget.Verdict{Outcome: budget.Spent, At: at, Wait: 9 * time.Hour, Lines: []budget.LineState{{Outcome: budget.Spent}}})
	const want = `Team "search" is at its limit of $500.00 per month: this request needs $0.01, $0.00 are left. Try again from 1 April 2026, 00:00 (Europe/Athens).`
	if e.Message != want {
		t.Errorf("got  %s\nwant %s", e.Message, want)
	}
}

func TestWhatALimitHasLeftIsNotInventedWhileItCannotBeAsked(t *testing.T) {
	g, p := &Gateway{herd: newHerd()}, &plan{Plan: charge.Plan{Lines: []budget.Line{{Limit: teamTPM(), Amount: 10}}}}
	e := g.refusal(p, budget.Verdict{Outcome: budget.Unavailable, Lines: []budget.LineState{{Outcome: budget.Unavailable}}})
	if got := string(openai.New().Refusal(e, "r").Body); !strings.Contains(got, `"remaining":null`) {
		t.Errorf("got %s, want remaining to be null", got)
	}
}

func TestASmallBudgetOfDollarsIsShownInMillionths(t *testing.T) {
	l := &budget.Limit{Place: "team/t", Scope: budget.Team, Name: "day", Unit: budget.USD, Amount: 900_000, Period: budget.Day, Algorithm: budget.CalendarUsage, Location: time.UTC}
	w := httptest.NewRecorder()
	writeLimits(w.Header(), openai.New().Profile(), []budget.Line{{Limit: l}}, budget.Verdict{Binding: -1, At: time.Date(2026, 4, 10, 0, 0, 0, 0, time.UTC), Lines: []budget.LineState{{Remaining: 654_321}}})
	if got, want := w.Header().Get("Ratelimit"), `"day";r=654321;t=0`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := w.Header().Get("Ratelimit-Policy"), `"day";q=900000;w=86400;qu="llmgw-microusd"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestARefusalWithoutTheStoreTellsTheShareThatDecides(t *testing.T) {
	g, l := &Gateway{herd: newHerd(), spent: newSpent()}, teamTPM()
	for _, s := range []struct {
		what     string
		out      budget.Outcome
		capacity int64
		tells    bool
	}{
		{"a share", budget.Exceeded, 33_333, true},
		{"the only instance has all of it", budget.Exceeded, 100_000, false},
		{"a closed limit has no share", budget.Unavailable, 33_333, false},
	} {
		e := g.refusal(&plan{Plan: charge.Plan{Lines: []budget.Line{{Limit: l, Amount: 300}}}}, budget.Verdict{
			Outcome: s.out, Wait: time.Second, Degraded: true,
			Lines: []budget.LineState{{Outcome: s.out, Remaining: 12, Capacity: s.capacity, Wait: time.Second}},
		})
		const told = "is away: until it is back this instance keeps to its share, 33,333 tokens.)"
		if got := strings.Contains(e.Message, told); got != s.tells {
			t.Errorf("%s: got %q, tells the share: want %v", s.what, e.Message, s.tells)
		}
		if e.Limit.Amount != 100_000 || e.Limit.Remaining != 12 {
			t.Errorf("%s: got %+v, want the configured amount and what is left here", s.what, e.Limit)
		}
	}
}

func TestRetryHeadersRoundUpAndLongWaitsHaveNone(t *testing.T) {
	for _, s := range []struct {
		what              string
		e                 *fault.Error
		after, ms, should string
	}{
		{"a part of a second is one", &fault.Error{Wait: 200 * time.Millisecond}, "1", "200", "true"},
		{"up to the next second", &fault.Error{Wait: 1565 * time.Millisecond}, "2", "1565", "true"},
		{"parts of a millisecond count", &fault.Error{Wait: 1500*time.Millisecond + time.Nanosecond}, "2", "1501", "true"},
		{"no use in trying", &fault.Error{Wait: time.Hour, NoRetry: true}, "", "", "false"},
		{"nothing to say", &fault.Error{}, "", "", ""},
	} {
		w := httptest.NewRecorder()
		writeRetry(w.Header(), s.e)
		got := [3]string{w.Header().Get("Retry-After"), w.Header().Get("Retry-After-Ms"), w.Header().Get("X-Should-Retry")}
		if want := [3]string{s.after, s.ms, s.should}; got != want {
			t.Errorf("%s: got %q, want %q", s.what, got, want)
		}
	}
}

func TestAFewRefusedClientsGetTheirExactWaitAndAHerdIsSpread(t *testing.T) {
	h := newHerd()
	l := teamTPM()
	line := budget.Line{Limit: l, Amount: 1000} // 600 ms of the limit's rate
	exact := 1500 * time.Millisecond
	var waits []time.Duration
	told := func() time.Duration {
		return h.spread(turn{queue: queueOf(l, line), wait: exact, gain: l.Gain(line.Amount)})
	}
	for range 40 {
		waits = append(waits, told())
	}
	for i := range herdSize - 1 {
		if waits[i] != exact {
			t.Errorf("client %d of a few: got %v, want its exact %v", i, waits[i], exact)
		}
	}
	for i := herdSize + 1; i < len(waits); i++ {
		if gap := waits[i] - waits[i-1]; gap < 590*time.Millisecond || gap > 610*time.Millisecond {
			t.Fatalf("client %d comes %v after the one before, want the 600 ms that its tokens take", i, gap)
		}
	}
	for range 200 {
		waits = append(waits, told())
	}
	for _, w := range waits {
		if w < exact || w > longestHint {
			t.Fatalf("got a wait of %v, want one from %v to %v", w, exact, longestHint)
		}
	}
}

func TestTheTightestLimitOfEachUnitIsTold(t *testing.T) {
	key := teamTPM()
	key.Place, key.Scope, key.Owner, key.Name, key.Amount = "key/k", budget.Key, "k", "key-tpm", 40_000
	shadow := teamTPM()
	shadow.Name, shadow.Mode = "watched", budget.Shadow
	monthly := &budget.Limit{
		Place: "team/search", Scope: budget.Team, Owner: "search", Name: "monthly", Unit: budget.USD, Amount: 500_990_000, Period: budget.Month,
		Algorithm: budget.CalendarUsage, Location: time.UTC, ResetDay: 1,
	}
	slots := &budget.Limit{Place: "team/search", Scope: budget.Team, Owner: "search", Name: "slots", Unit: budget.Concurrency, Amount: 20, Algorithm: budget.Slots}
	lines := []budget.Line{{Limit: teamTPM()}, {Limit: key}, {Limit: shadow}, {Limit: monthly}, {Limit: slots}}
	v := budget.Verdict{Binding: -1, At: time.Date(2026, 4, 10, 0, 0, 0, 0, time.UTC), Lines: []budget.LineState{
		{Remaining: 90_000, Reset: 6 * time.Second},
		{Remaining: 512, Reset: 59*time.Second + 232*time.Millisecond},
		{Remaining: -4},
		{Remaining: 499_999_999, Reset: 20 * 24 * time.Hour},
		{Remaining: 19},
	}}
	w := httptest.NewRecorder()
	writeLimits(w.Header(), openai.New().Profile(), lines, v)
	for name, want := range map[string]string{
		"X-Ratelimit-Limit-Tokens":       "40000",
		"X-Ratelimit-Remaining-Tokens":   "512",
		"X-Ratelimit-Reset-Tokens":       "59.232s",
		"X-Ratelimit-Remaining-Requests": "",
		"Ratelimit-Policy":               `"key-tpm";q=40000;w=60;qu="llmgw-tokens", "monthly";q=500;w=2592000;qu="llmgw-usd", "slots";q=20;qu="concurrent-requests"`,
		"Ratelimit":                      `"key-tpm";r=512;t=60, "monthly";r=499;t=1728000, "slots";r=19;t=0`,
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	w = httptest.NewRecorder()
	writeLimits(w.Header(), registry.Profile("anthropic"), lines, v)
	if got, want := w.Header().Get("Anthropic-Ratelimit-Tokens-Reset"), "2026-04-10T00:01:00Z"; got != want {
		t.Errorf("Anthropic's reset: got %q, want %q", got, want)
	}
	if got := w.Header().Get("X-Ratelimit-Limit-Tokens"); got != "" {
		t.Errorf("an Anthropic client was told OpenAI's header: %q", got)
	}
}

func TestTheAccountsLimitsAndCookiesStayHere(t *testing.T) {
	from := map[string][]string{
		"Content-Type": {"application/json"}, "Set-Cookie": {"__cf_bm=x"}, "X-Ratelimit-Remaining-Tokens": {"7"}, "Anthropic-Ratelimit-Tokens-Limit": {"9"},
		"Connection": {"close, X-Hop"}, "X-Hop": {"1"}, "Transfer-Encoding": {"chunked"}, "Retry-After": {"11"}, "X-Request-Id": {"up-1"},
	}
	hidden, exposed := httptest.NewRecorder().Header(), httptest.NewRecorder().Header()
	copyAnswerHeader(hidden, from, HideLimits)
	copyAnswerHeader(exposed, from, ExposeLimits)
	for _, name := range []string{"Set-Cookie", "X-Ratelimit-Remaining-Tokens", "Connection", "X-Hop", "Transfer-Encoding", "X-Upstream-X-Ratelimit-Remaining-Tokens"} {
		if got := hidden.Get(name); got != "" {
			t.Errorf("%s got through: %q", name, got)
		}
	}
	for _, name := range []string{"Content-Type", "Retry-After", "X-Request-Id"} {
		if got := hidden.Get(name); got == "" {
			t.Errorf("%s was lost", name)
		}
	}
	if got := exposed.Get("X-Upstream-X-Ratelimit-Remaining-Tokens"); got != "7" {
		t.Errorf("exposed: got %q, want 7", got)
	}
	if strings.Contains(strings.ToLower(exposed.Get("X-Upstream-Connection")), "hop") {
		t.Error("a hop-by-hop header was exposed")
	}
}
