package upstream

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"llmgw/internal/dialect/registry"
	"llmgw/internal/testenv"
)

// head makes a header of names and values.
func head(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

var morning = time.Date(2026, 9, 21, 10, 0, 0, 0, time.UTC)

func TestEveryProvidersHeadersAreUnderstood(t *testing.T) {
	for _, s := range []struct {
		what, flavor     string
		header           http.Header
		requests, tokens int64
	}{
		{"nothing", "openai", head(), -1, -1},
		{"OpenAI", "openai", head("x-ratelimit-limit-requests", "500", "x-ratelimit-remaining-requests", "499", "x-ratelimit-remaining-tokens", "149984", "x-ratelimit-reset-tokens", "6m0s"), 499, 149984},
		{"OpenAI's projects, of which the tighter counts", "openai", head("x-ratelimit-remaining-tokens", "149984", "x-ratelimit-remaining-project-tokens", "20"), -1, 20},
		{"Azure", "", head("x-ratelimit-remaining-requests", "59", "x-ratelimit-reset-requests", "10"), 59, -1},
		{"Anthropic", "", head("anthropic-ratelimit-requests-remaining", "999", "anthropic-ratelimit-input-tokens-remaining", "1999000", "anthropic-ratelimit-tokens-remaining", "3000"), 999, 3000},
		{"Groq, whose calls are those of the day", "groq", head("x-ratelimit-remaining-requests", "3", "x-ratelimit-remaining-tokens", "5999"), -1, 5999},
		{"Mistral of old", "mistral", head("ratelimitbysize-remaining", "499999", "x-ratelimitbysize-remaining-minute", "499900", "x-ratelimitbysize-remaining-month", "12"), -1, 499900},
		{"Mistral of today", "mistral", head("x-ratelimit-remaining-req-minute", "5", "x-ratelimit-remaining-tokens-minute", "77", "x-ratelimit-remaining-tokens-month", "1"), 5, 77},
		{"Fireworks", "fireworks", head("x-ratelimit-remaining-tokens-prompt", "900", "x-ratelimit-remaining-tokens-generated", "36"), -1, 36},
		{"a zero", "openai", head("x-ratelimit-remaining-requests", "0"), 0, -1},
		{"numbers that are none", "openai", head("x-ratelimit-remaining-requests", "many", "x-ratelimit-remaining-tokens", "-5"), -1, -1},
		{"a number beyond all bounds", "openai", head("x-ratelimit-remaining-tokens", "99999999999999999999"), -1, -1},
	} {
		got := read(registry.Flavor("", s.flavor), s.header, morning)
		if got.requests != s.requests || got.tokens != s.tokens {
			t.Errorf("%s: %d requests and %d tokens are left, want %d and %d", s.what, got.requests, got.tokens, s.requests, s.tokens)
		}
	}
}

func TestAWaitIsReadHoweverItIsWritten(t *testing.T) {
	for _, s := range []struct {
		what string
		got  time.Duration
		want time.Duration
	}{
		{"seconds", RetryAfter(head("Retry-After", "11"), morning), 11 * time.Second},
		{"a part of a second", RetryAfter(head("Retry-After", "0.5"), morning), 500 * time.Millisecond},
		{"milliseconds come first", RetryAfter(head("Retry-After", "1", "Retry-After-Ms", "120"), morning), 120 * time.Millisecond},
		{"a date", RetryAfter(head("Retry-After", "Mon, 21 Sep 2026 10:00:30 GMT"), morning), 30 * time.Second},
		{"a date that is past", RetryAfter(head("Retry-After", "Mon, 21 Sep 2026 09:00:30 GMT"), morning), 0},
		{"none", RetryAfter(head(), morning), 0},
		{"nonsense", RetryAfter(head("Retry-After", "soon"), morning), 0},
		{"not a number", RetryAfter(head("Retry-After-Ms", "NaN"), morning), 0},
		{"a negative one", RetryAfter(head("Retry-After", "-3"), morning), 0},
		{"for ever", RetryAfter(head("Retry-After", "1e10"), morning), longestWait},
		{"OpenAI's reset of what is used up", resetAfter(head("x-ratelimit-remaining-tokens", "0", "x-ratelimit-reset-tokens", "1m2.5s", "x-ratelimit-remaining-requests", "9", "x-ratelimit-reset-requests", "6h"), morning), 62500 * time.Millisecond},
		{"Azure's, in seconds", resetAfter(head("x-ratelimit-remaining-requests", "0", "x-ratelimit-reset-requests", "10"), morning), 10 * time.Second},
		{"Anthropic's", resetAfter(head("anthropic-ratelimit-input-tokens-remaining", "0", "anthropic-ratelimit-input-tokens-reset", "2026-09-21T10:00:17Z"), morning), 17 * time.Second},
		{"OpenRouter's, an epoch in milliseconds", resetAfter(head("x-ratelimit-remaining", "0", "x-ratelimit-reset", "1789984805000"), morning), 5 * time.Second},
		{"an epoch in seconds", resetAfter(head("x-ratelimit-remaining", "0", "x-ratelimit-reset", "1789984807"), morning), 7 * time.Second},
		{"Together's, alone", resetAfter(head("x-ratelimit-reset", "3"), morning), 3 * time.Second},
	} {
		if s.got != s.want {
			t.Errorf("%s: %s, want %s", s.what, s.got, s.want)
		}
	}
}

func TestThePartsOfAnErrorThatDecideAreFound(t *testing.T) {
	for _, s := range []struct {
		what, body string
		spent      bool
		delay      time.Duration
	}{
		{"nothing", ``, false, 0},
		{"no JSON", `<html>busy</html>`, false, 0},
		{"a rate", `{"error":{"type":"requests","code":"rate_limit_exceeded","message":"Rate limit reached"}}`, false, 0},
		{"OpenAI's quota", spentBody, true, 0},
		{"a contract's end", `{"type":"error","error":{"type":"rate_limit_error","details":{"error_code":"contract_spend_limit_reached"}}}`, true, 0},
		{"a ramp", `{"type":"error","error":{"type":"rate_limit_error","details":{"error_code":"ramp_limit_exceeded"}}}`, false, 0},
		{"Gemini's minute", `{"error":{"code":429,"details":[{"violations":[{"quotaId":"GenerateRequestsPerMinutePerProject"}]},{"retryDelay":"34.4s"}]}}`, false, 34400 * time.Millisecond},
		{"Gemini's day, in an array", `[{"error":{"code":429,"details":[{"violations":[{"quotaId":"TokensPerDay"}]},{"retryDelay":"34s"}]}}]`, true, 34 * time.Second},
		{"a code that is a number", `{"error":{"code":429,"message":7,"details":"none"}}`, false, 0},
		{"an error that is a sentence", `{"code":"Some requested entity was exhausted","error":"You have run out of credits"}`, false, 0},
		{"OpenAI's words", `{"error":{"message":"Rate limit reached. Please try again in 564ms. Visit https://x"}}`, false, 564 * time.Millisecond},
		{"OpenAI's words, longer", `{"error":{"message":"Please try again in 1m2.5s."}}`, false, 62500 * time.Millisecond},
		{"Azure's words", `{"error":{"code":"429","message":"Requests have exceeded the limit. Please retry after 6 seconds."}}`, false, 6 * time.Second},
		{"other words", `{"error":{"message":"Please try again in a while, or retry after lunch."}}`, false, 0},
		{"a delay that is none", `{"error":{"details":[{"retryDelay":12},{"retryDelay":"x"}]}}`, false, 0},
	} {
		e := readError([]byte(s.body))
		j := judge(429, e, nil, morning)
		if got := e.wait(http.Header{}, morning); (j.rests == spent) != s.spent || got != s.delay {
			t.Errorf("%s: rests %s, delay %s", s.what, j.rests, got)
		}
	}
}

func TestAnErrorIsNamedByItsIdentifiersAlone(t *testing.T) {
	for body, want := range map[string]string{
		spentBody: "insufficient_quota",
		`{"error":{"type":"invalid_request_error","code":"invalid_api_key","details":[{"reason":"API_KEY_INVALID"}]}}`: "invalid_request_error invalid_api_key API_KEY_INVALID",
		`{"code":"Your prompt was: hello","error":"no"}`:                                                               "",
		`{"error":{"type":"bad_key","code":"sk-p****dead"}}`:                                                           "bad_key",
		`{"error":{"code":"` + strings.Repeat("x", 65) + `"}}`:                                                         "",
	} {
		if got := readError([]byte(body)).name(); got != want {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
	}
}

func TestAResetIsNoRequestToWaitForHours(t *testing.T) {
	h := head("x-ratelimit-limit", "50", "x-ratelimit-remaining", "0", "x-ratelimit-reset", "1790035200000")
	if after := judge(429, errorBody{}, h, morning).after; after != time.Minute {
		t.Errorf("a reset in hours: %s, want a minute", after)
	}
	h.Set("Retry-After", "7200")
	if after := judge(429, errorBody{}, h, morning).after; after != 2*time.Hour {
		t.Errorf("asked to wait two hours: %s", after)
	}
}

// The recorded errors of all providers, where they are at hand.
func TestRecordedErrorsAreJudgedRight(t *testing.T) {
	dir, ok := testenv.Shared("fixtures")
	if !ok {
		t.Skip("the recorded errors are not part of the repository: LLMGW_SHARED names their directory")
	}
	for name, want := range map[string]again{
		"openai-error-400-context": never, "openai-error-401": otherKey, "openai-error-404-model": elsewhere,
		"openai-error-429-rpm": anywhere, "openai-error-429-tpm": anywhere, "openai-error-429-too-large": elsewhere, "openai-error-503": anywhere,
		"anthropic-error-400": never, "anthropic-error-401": otherKey, "anthropic-error-429": anywhere,
		"anthropic-error-429-spend": otherKey, "anthropic-error-500": anywhere, "anthropic-error-529": anywhere,
		"azure-error-400-filter": never, "azure-error-401": otherKey, "bedrock-error-400": never, "bedrock-error-429": anywhere,
		"cohere-error-429": anywhere, "deepseek-error-402": otherKey, "gemini-error-429-day": otherKey,
		"llamacpp-error-503": anywhere, "mistral-error-422": never, "mistral-error-429": anywhere, "ollama-error-404": elsewhere,
		"openrouter-error-402": otherKey, "openrouter-error-429": anywhere, "together-error-429": anywhere,
	} {
		body, err := os.ReadFile(filepath.Join(dir, name+".json"))
		if err != nil {
			t.Error(err)
			continue
		}
		raw, err := os.ReadFile(filepath.Join(dir, name+".expect.json"))
		if err != nil {
			t.Error(err)
			continue
		}
		var expect struct {
			HTTP struct {
				Status  int
				Headers map[string]string
			}
		}
		if err := json.Unmarshal(raw, &expect); err != nil {
			t.Error(err)
			continue
		}
		h := http.Header{}
		for k, v := range expect.HTTP.Headers {
			h.Set(k, v)
		}
		got := judge(expect.HTTP.Status, readError(body), h, morning)
		if got.again != want {
			t.Errorf("%s: judged %d, want %d", name, got.again, want)
		}
		if strings.HasPrefix(name, "together") && got.after != 3*time.Second || name == "openai-error-503" && got.after != 5*time.Second {
			t.Errorf("%s: asks to wait %s", name, got.after)
		}
	}
}

// What the provider tells reaches the observer, and only downwards the pace.
func TestWhatIsLeftIsPassedOn(t *testing.T) {
	m, w := newMemory(), &watcher{}
	p := provider("a", func(p *Provider) { p.Limits = Limits{RequestsPerMinute: 6000, TokensPerMinute: 600_000} })
	s := &script{answers: map[string][]answer{"a": {{status: 200, header: map[string]string{
		"X-Ratelimit-Remaining-Requests": "5999", "X-Ratelimit-Remaining-Tokens": "12"}}}}}
	r, err := client(t, m, s, w, p).Do(t.Context(), job("r", Target{Provider: p}))
	if err != nil {
		t.Fatal(err)
	}
	whole(t, r)
	if w.remaining["a/requests"] != 5999 || w.remaining["a/tokens"] != 12 {
		t.Errorf("the observer was told %v", w.remaining)
	}
	if len(m.atMost) != 1 || m.atMost[0] != 12 {
		t.Errorf("the store was corrected to %v", m.atMost)
	}
}

func FuzzFeedbackNeverPanics(f *testing.F) {
	f.Add("11", `{"error":{"details":[{"retryDelay":"1s"}]}}`, 429)
	f.Add("6m0s", `[[{"error":null}]]`, 503)
	f.Fuzz(func(t *testing.T, value, body string, status int) {
		h := http.Header{"Retry-After": {value}, "Retry-After-Ms": {value}, "X-Ratelimit-Reset": {value}, "X-Ratelimit-Remaining-Tokens": {value}}
		if after := judge(status, readError([]byte(body)), h, morning).after; after < 0 || after > longestWait {
			t.Errorf("a wait of %s", after)
		}
		if got := read(registry.Flavor("", ""), h, morning); got.tokens < -1 || got.retryAfter < 0 || got.retryAfter > longestWait {
			t.Errorf("read %+v", got)
		}
	})
}
