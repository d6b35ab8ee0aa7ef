package blackbox

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"llmgw/internal/gatewaytest"
)

// refusal is the body of OpenAI's shape.
type refusal struct {
	Error struct {
		Message, Type, Code string
		Param               *string
		Limit               *struct {
			Scope, Name, Unit            string
			Per                          *string
			Amount, Remaining, Requested float64
			RetryAfterMS                 *int64 `json:"retry_after_ms"`
		}
	}
}

// hold makes calls that are running when hold returns, and ends with the test.
func (w *world) hold(n int, body string) {
	w.t.Helper()
	var done sync.WaitGroup
	for range n {
		done.Go(func() {
			_, _ = w.Try(secret, chat, body) // it ends with the test
		})
	}
	w.t.Cleanup(done.Wait)
	w.Eventually("held", eventually, func() bool { return w.provider.Stats().InFlight == int64(n) })
}

func TestEachRefusalIsToldAsItsKindIs(t *testing.T) {
	const (
		sleepIt  = "Retry-After, retry-after-ms and x-should-retry: true"
		tooLong  = "x-should-retry: false and no Retry-After"
		anything = "nothing of either"
	)
	for _, s := range []struct {
		what     string
		upstream string // X-LLMGW-Upstream
		setup    setup
		before   func(w *world)
		body     string
		status   int
		code     string
		kind     string // error.type
		by       string
		retry    string
		capacity float64 // error.limit.amount
	}{
		{what: "over a rate", setup: setup{limits: "{name: tpm, unit: tokens, amount: 6000, per: minute, start: empty}"},
			body: ask("sim", bound(200)), status: 429, code: "rate_limit_exceeded", kind: "tokens", by: "team/search/tpm", retry: sleepIt, capacity: 6000},
		{what: "over a rate for long", setup: setup{keys: "{name: tph, unit: tokens, amount: 6000, per: hour, start: empty}"},
			body: ask("sim", bound(3000)), status: 429, code: "rate_limit_exceeded", kind: "tokens", by: "key/search-key/tph", retry: tooLong, capacity: 6000},
		{what: "a budget is spent", setup: setup{limits: "{name: money, unit: usd, amount: 0.01, per: month}"},
			before: func(w *world) { w.Post(secret, chat, ask("sim-in10-report5000", bound(100))) },
			body:   ask("sim", bound(1000)), status: 429, code: "insufficient_quota", kind: "insufficient_quota", by: "team/search/money", retry: tooLong, capacity: 0.01},
		{what: "it can never fit", setup: setup{common: "{name: all, unit: tokens, amount: 1000, per: minute, burst: 2000}"},
			body: ask("sim", bound(2001)), status: 400, code: "exceeds_limit", kind: "invalid_request_error", by: "gateway/all", retry: tooLong, capacity: 2000},
		{what: "no slot", setup: setup{limits: "{name: slots, unit: concurrency, amount: 2}"},
			before: func(w *world) { w.hold(2, ask("sim-wait4s-out1")) },
			body:   ask("sim"), status: 429, code: "concurrency_exceeded", kind: "concurrency", by: "team/search/slots", retry: sleepIt, capacity: 2},
		{what: "held by the caller's own calls", setup: setup{limits: "{name: tpm, unit: tokens, amount: 60000, per: minute, burst: 1000, bank: 1}"},
			before: func(w *world) {
				w.hold(1, ask("sim-wait3s-out1", bound(1000)))
			},
			body: ask("sim", bound(900)), status: 429, code: "held", kind: "tokens", by: "team/search/tpm", retry: sleepIt, capacity: 60000},
		{what: "the provider has no turn", setup: setup{provider: "limits: {requests_per_minute: 6}\nmax_wait: 1s"},
			before: func(w *world) { w.Post(secret, chat, ask("sim-out1")) },
			body:   ask("sim-out1"), status: 503, code: "upstream_capacity", kind: "requests", by: "provider/sim/requests", retry: sleepIt, capacity: 6},
		{what: "nobody is there", upstream: "gone/x", setup: setup{models: "{name: lost, targets: [{provider: gone, model: x}]}", providers: "{name: gone, dialect: openai, base_url: \"http://127.0.0.1:1/v1\", retries: {attempts: 0}}"},
			body: ask("lost"), status: 502, code: "upstream_error", kind: "server_error", retry: anything},
		{what: "it is silent", upstream: "sim/sim-hang", setup: setup{provider: "timeouts: {first_byte: 200ms}\nretries: {attempts: 0}"},
			body: ask("sim-hang"), status: 504, code: "upstream_timeout", kind: "server_error", retry: anything},
		{what: "too large", setup: setup{server: "max_body_bytes: 1KiB"},
			body: ask("sim", `"user":"`+strings.Repeat("x", 1000)+`"`), status: 413, code: "request_too_large", kind: "invalid_request_error", retry: tooLong},
	} {
		t.Run(s.what, func(t *testing.T) {
			w := start(t, s.setup)
			if s.before != nil {
				s.before(w)
			}
			a := w.Post(secret, chat, s.body)
			if s.code == "held" { // until the bucket would have refilled it is a rate's refusal
				w.Eventually("held", eventually, func() bool {
					a = w.Post(secret, chat, s.body)
					return a.Code() == "held"
				})
			}
			if a.Status != s.status || a.Code() != s.code || a.LimitedBy() != s.by {
				t.Errorf("got %d %q by %q, want %d %q by %q", a.Status, a.Code(), a.LimitedBy(), s.status, s.code, s.by)
			}
			if got := retryTold(a); got != s.retry && (s.retry != anything || got != "") {
				t.Errorf("told %q, want %q: %v", got, s.retry, a.Header)
			}
			var doc refusal
			if err := json.Unmarshal([]byte(a.Body), &doc); err != nil || doc.Error.Message == "" {
				t.Fatalf("%v in %s", err, a.Body)
			}
			e := doc.Error
			if e.Code != s.code || e.Type != s.kind || (e.Limit != nil) != (s.by != "") || e.Limit != nil && e.Limit.Amount != s.capacity {
				t.Errorf("the body says %s, want type %q and %v", a.Body, s.kind, s.capacity)
			}
			if e.Limit != nil && !strings.HasSuffix(s.by, e.Limit.Name) {
				t.Errorf("the body names %q, the header %q", e.Limit.Name, s.by)
			}
			if e.Limit != nil && e.Limit.Requested <= 0 {
				t.Errorf("the body asks for nothing: %s", a.Body)
			}
			if a.Header.Get("X-LLMGW-Request-Id") == "" || a.Header.Get("X-LLMGW-Upstream") != s.upstream {
				t.Errorf("got id %q and upstream %q, want one and %q", a.Header.Get("X-LLMGW-Request-Id"), a.Header.Get("X-LLMGW-Upstream"), s.upstream)
			}
		})
	}
}

func TestEveryAnswerTellsThatTheStoreIsAway(t *testing.T) {
	w := start(t, setup{redis: true, redisKey: "timeout: 50ms", limits: tokensLimit()})
	told := func() bool {
		all := true
		for _, a := range []gatewaytest.Answer{
			w.Post(secret, chat, ask("sim-out1")), w.Post(secret, chat, ask("sim-out1", streamed)), w.Post(secret, chat, "{"),
			w.Post("sk-wrong", chat, ask("sim")), w.send("GET", "/v1/models", secret, ""), w.send("GET", "/v1/nothing", secret, ""),
		} {
			all = all && a.Header.Get("X-LLMGW-Degraded") == "true"
		}
		return all
	}
	if told() {
		t.Error("the store is there")
	}
	w.redis.Pause()
	w.Eventually("told", eventually, told)
	if a := w.Admin("GET", "/readyz", ""); a.Status != 200 || !strings.Contains(a.Body, `"status":"degraded"`) {
		t.Errorf("readyz: got %d %s, want 200 and degraded", a.Status, a.Body)
	}
	if got := w.Metrics().Sum("llmgw_store_up"); got != 0 {
		t.Errorf("llmgw_store_up: got %v, want 0", got)
	}
	w.redis.Resume()
	w.Eventually("no longer told", eventually, func() bool { return w.Post(secret, chat, ask("sim-out1")).Header.Get("X-LLMGW-Degraded") == "" })
}

// retryTold says which of the two ways of telling about retries an answer has.
func retryTold(a gatewaytest.Answer) string {
	after, ms, should := a.Header.Get("Retry-After"), a.Header.Get("Retry-After-Ms"), a.Header.Get("X-Should-Retry")
	seconds, err1 := strconv.Atoi(after)
	millis, err2 := strconv.Atoi(ms)
	switch {
	case should == "true" && err1 == nil && err2 == nil && seconds >= 1 && millis >= 1 && seconds == max(1, (millis+999)/1000):
		return "Retry-After, retry-after-ms and x-should-retry: true"
	case should == "false" && after == "" && ms == "":
		return "x-should-retry: false and no Retry-After"
	}
	return should + after + ms
}

func TestWaitingIsBoundedByTheClient(t *testing.T) {
	w := start(t, setup{limits: "{name: slot, unit: concurrency, amount: 1, on_exceed: wait, max_wait: 20s}"})
	w.hold(1, ask("sim-wait4s-out1"))
	for _, most := range []string{"0s", "100ms"} { // who waited for the slot would get it
		if a := w.Post(secret, chat, ask("sim-out1"), "X-LLMGW-Max-Wait", most); a.Status != http.StatusTooManyRequests || a.Code() != "concurrency_exceeded" {
			t.Errorf("%s: got %d %q, want 429 concurrency_exceeded", most, a.Status, a.Code())
		}
	}
	if a := w.Post(secret, chat, ask("sim-out1"), "X-LLMGW-Max-Wait", "1h"); a.Status != http.StatusOK {
		t.Errorf("a client that has time: got %d, want to wait for the slot", a.Status)
	}
	w.settled()
}

func TestWhatWasWaitedForALimitIsNotWaitedAgainForTheProvider(t *testing.T) {
	w := start(t, setup{
		limits:   "{name: slot, unit: concurrency, amount: 1, on_exceed: wait, max_wait: 20s}",
		provider: "limits: {requests_per_minute: 20}\nmax_wait: 20s",
	})
	w.hold(1, ask("sim-wait1s-out1")) // the provider's next turn is 3 s after its own
	a := w.Post(secret, chat, ask("sim-out1"), "X-LLMGW-Max-Wait", "2500ms")
	if a.Status != http.StatusServiceUnavailable || a.Code() != "upstream_capacity" {
		t.Errorf("a wait of 1 s for a slot and 2 s for the provider: got %d %q, want 503 upstream_capacity", a.Status, a.Code())
	}
	w.settled()
}
