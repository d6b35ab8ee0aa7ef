package blackbox

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestG1RetryAfterIsExact(t *testing.T) {
	w := start(t, setup{limits: "{name: tpm, unit: tokens, amount: 6000, per: minute, start: empty}"})
	a := w.Post(secret, chat, ask("sim-in10-out10", bound(200)))
	ms, err := strconv.Atoi(a.Header.Get("Retry-After-Ms"))
	if a.Status != 429 || err != nil || ms > 2000 || ms < 1000 {
		t.Fatalf("got %d and retry-after-ms %q, want 429 and about the 2 s that 200 tokens take", a.Status, a.Header.Get("Retry-After-Ms"))
	}
	if got, want := a.Header.Get("Retry-After"), strconv.Itoa((ms+999)/1000); got != want {
		t.Errorf("Retry-After: got %s, want %s", got, want)
	}
	var body struct {
		Error struct {
			Type, Code, Message string
			Limit               struct {
				Scope, Name, Unit, Per                     string
				Amount, Remaining, Requested, RetryAfterMS int64
			}
		}
	}
	if err := json.Unmarshal([]byte(strings.ReplaceAll(a.Body, "retry_after_ms", "RetryAfterMS")), &body); err != nil {
		t.Fatal(err)
	}
	if l := body.Error.Limit; body.Error.Type != "tokens" || body.Error.Code != "rate_limit_exceeded" || l.Scope != "team" || l.Name != "tpm" ||
		l.Unit != "tokens" || l.Per != "minute" || l.Amount != 6000 || l.Requested != 200 || l.RetryAfterMS != int64(ms) {
		t.Errorf("got %s", a.Body)
	}
	if got := a.LimitedBy(); got != "team/search/tpm" {
		t.Errorf("limited by: got %q, want team/search/tpm", got)
	}
	<-time.After(time.Duration(ms) * time.Millisecond) // what the client was told
	if a := w.Post(secret, chat, ask("sim-in10-out10", bound(200))); a.Status != 200 {
		t.Errorf("after exactly the wait that was told: got %d, want 200\n%s", a.Status, a.Body)
	}
	w.settled()
}

func TestG2TheProvidersRetryAfterIsPassedOn(t *testing.T) {
	w := start(t, setup{provider: "retries: {attempts: 0}"})
	for _, body := range []string{ask("sim-fail429-after11s"), ask("sim-fail429-after11s-tag2", streamed)} {
		a := w.Post(secret, chat, body)
		if a.Status != 429 || a.Header.Get("Retry-After") != "11" || a.Header.Get("Retry-After-Ms") != "11000" {
			t.Errorf("got %d, Retry-After %q, retry-after-ms %q, want 429, 11 and 11000", a.Status, a.Header.Get("Retry-After"), a.Header.Get("Retry-After-Ms"))
		}
	}
}

func TestG4LimitsAreToldOnEveryAnswer(t *testing.T) {
	w := start(t, setup{limits: "{name: tpm, unit: tokens, amount: 60000, per: minute}\n{name: rpm, unit: requests, amount: 600, per: minute}"})
	for _, body := range []string{ask("sim-out1", bound(1000)), ask("sim-out1", streamed, bound(1000))} {
		a := w.Post(secret, chat, body)
		for name, want := range map[string]string{"X-Ratelimit-Limit-Tokens": "60000", "X-Ratelimit-Limit-Requests": "600"} {
			if got := a.Header.Get(name); got != want {
				t.Errorf("%s: got %q, want %q", name, got, want)
			}
		}
		left, err := strconv.Atoi(a.Header.Get("X-Ratelimit-Remaining-Tokens"))
		if err != nil || left > 60000-1000 || left < 57000 {
			t.Errorf("remaining tokens: got %q, want those after this reservation", a.Header.Get("X-Ratelimit-Remaining-Tokens"))
		}
		if d, err := time.ParseDuration(a.Header.Get("X-Ratelimit-Reset-Tokens")); err != nil || d <= 0 || d > 3*time.Second {
			t.Errorf("reset of tokens: got %q, want the second that 1000 tokens take", a.Header.Get("X-Ratelimit-Reset-Tokens"))
		}
		if got := a.Header.Get("RateLimit-Policy"); got != `"rpm";q=600;w=60;qu="requests", "tpm";q=60000;w=60;qu="llmgw-tokens"` {
			t.Errorf("RateLimit-Policy: got %s", got)
		}
		if a.Header.Get("X-LLMGW-Request-Id") == "" || a.Header.Get("X-Request-Id") == "" || !strings.HasPrefix(a.Header.Get("X-LLMGW-Upstream"), "sim/") {
			t.Errorf("ids and upstream are missing: %v", a.Header)
		}
	}
}

func TestG8AnthropicClientsGetAnthropicsShape(t *testing.T) {
	w := start(t, setup{limits: monthly("tokens", "tokens", 50) + "\n{name: rpm, unit: requests, amount: 600, per: minute}"})
	message := `{"model":"sim-in1-out1","max_tokens":MAX,"messages":[{"role":"user","content":"hi"}]}`
	ok := w.Post(secret, "/v1/messages", strings.Replace(message, "MAX", "1", 1))
	if ok.Status != 200 || ok.Header.Get("Anthropic-Ratelimit-Tokens-Limit") != "50" || ok.Header.Get("X-Ratelimit-Limit-Tokens") != "" {
		t.Fatalf("got %d, %v\n%s", ok.Status, ok.Header, ok.Body)
	}
	no := w.Post(secret, "/v1/messages", strings.Replace(message, "MAX", "42", 1))
	var body struct {
		Type      string
		RequestID string `json:"request_id"`
		Error     struct {
			Type, Message string
			Details       struct {
				ErrorCode string `json:"error_code"`
			}
		}
	}
	if err := json.Unmarshal([]byte(no.Body), &body); err != nil {
		t.Fatal(err)
	}
	if no.Status != 429 || body.Type != "error" || body.Error.Type != "rate_limit_error" || body.Error.Message == "" {
		t.Errorf("got %d %s", no.Status, no.Body)
	}
	if no.Header.Get("Retry-After") != "" || no.Header.Get("X-Should-Retry") != "false" {
		t.Errorf("a spent month must not be waited for: %v", no.Header)
	}
	if body.RequestID == "" || no.Header.Get("Request-Id") != body.RequestID {
		t.Errorf("request ids differ: %q and %q", no.Header.Get("Request-Id"), body.RequestID)
	}
	w.settled()
}

func TestWhoHasNoKeyGetsNothingAndLeavesNothing(t *testing.T) {
	w := start(t, setup{redis: true})
	keys := w.redis.Command(t, "DBSIZE")
	for _, headers := range [][]string{
		{"Authorization", ""}, {"Authorization", "Bearer wrong"}, {"Authorization", "", "X-Api-Key", "wrong"}, {"Authorization", "Basic " + secret},
	} {
		a := w.Post("", chat, ask("sim"), headers...)
		if a.Status != 401 || a.Code() != "invalid_api_key" {
			t.Errorf("%v: got %d %q, want 401 invalid_api_key", headers, a.Status, a.Code())
		}
	}
	for _, headers := range [][]string{{"Authorization", "", "X-Api-Key", secret}, {"Authorization", "", "Api-Key", secret}, {"Authorization", "", "X-Goog-Api-Key", secret}} {
		if a := w.Post("", chat, ask("sim"), headers...); a.Status != 200 {
			t.Errorf("%v: got %d, want 200", headers, a.Status)
		}
	}
	for _, seen := range w.provider.Stats().Last {
		if seen.Key != "sk-provider" || strings.Contains(seen.Body+seen.Query, secret) {
			t.Errorf("the provider saw the key %q", seen.Key)
		}
		for name, values := range seen.Header {
			if strings.Contains(strings.Join(values, " "), secret) {
				t.Errorf("the gateway's key went to the provider in %s", name)
			}
		}
	}
	if got := w.redis.Command(t, "DBSIZE"); got > keys && len(got) > len(keys) {
		t.Errorf("refused callers left keys in Redis: %s before, %s after", keys, got)
	}
	if strings.Contains(w.Log(), secret) {
		t.Error("the key is in the log")
	}
}
