package anthropic

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/dialecttest"
	"llmgw/internal/fault"
	"llmgw/internal/tokens"
)

func suite() dialecttest.Suite {
	return dialecttest.Suite{
		Dialect: New(),
		Answers: map[string]dialecttest.Source{
			"anthropic.messages": {Operation: dialect.Chat}, "anthropic.error": {Operation: dialect.Chat}, "anthropic.count_tokens": {Operation: dialect.CountTokens},
		},
		Requests:   []string{"anthropic.messages", "anthropic.count_tokens"},
		StreamType: "text/event-stream",
	}
}

func TestTheDialectPassesItsSuite(t *testing.T) { dialecttest.Run(t, suite()) }

func FuzzMeter(f *testing.F) { dialecttest.Fuzz(f, suite()) }

func parse(t *testing.T, path, body string) (*dialect.Call, error) {
	t.Helper()
	return dialecttest.Parse(t, New(), path, body, dialect.Header{"Content-Type": {"application/json"}, "Anthropic-Beta": {"b"}})
}

func TestMaxTokensIsRequiredAndMayBeZero(t *testing.T) {
	for _, s := range []struct {
		body  string
		bound tokens.Count
		param string // at fault, or empty
	}{
		{`{"model":"m","max_tokens":100}`, 100, ""},
		{`{"model":"m","max_tokens":0}`, 0, ""},
		{`{"model":"m","max_tokens":1e3,"stream":true}`, 1000, ""},
		{`{"model":"m"}`, 0, "max_tokens"},
		{`{"model":"m","max_tokens":null}`, 0, "max_tokens"},
		{`{"model":"m","max_tokens":-1}`, 0, "max_tokens"},
		{`{"model":"m","max_tokens":0.5}`, 0, "max_tokens"},
		{`{"model":"m","max_tokens":"1"}`, 0, "max_tokens"},
		{`{"model":"m","max_tokens":1e17}`, 0, "max_tokens"},
		{`{"max_tokens":1}`, 0, "model"},
		{`{"model":"m","max_tokens":1,"stream":"yes"}`, 1, "stream"},
	} {
		c, err := parse(t, "/v1/messages", s.body)
		if s.param != "" {
			if f := fault.From(err); f == nil || f.Code != fault.InvalidRequest || f.Param != s.param {
				t.Errorf("%s: got %v, want an invalid %s", s.body, err, s.param)
			}
			continue
		}
		if err != nil || !c.HasMaxOutput || c.MaxOutput != s.bound {
			t.Errorf("%s: got %+v, %v, want a bound of %d", s.body, c, err, s.bound)
		}
	}
	c, err := parse(t, "/v1/messages/count_tokens", `{"model":"m","messages":[],"metadata":{"user_id":"u"}}`)
	if err != nil || !c.RequestsOnly || !c.NoOutput || c.User != "u" {
		t.Errorf("counting: got %+v, %v", c, err)
	}
}

func TestACallGoesOutAsTheOfficialClientMakesIt(t *testing.T) {
	c, err := parse(t, "/v1/messages?beta=true&key=secret", `{"model":"claude","max_tokens":5}`)
	if err != nil {
		t.Fatal(err)
	}
	out, err := New().Prepare(c, dialect.Upstream{BaseURL: "https://x", APIKey: "k", Model: "claude-9"})
	if err != nil {
		t.Fatal(err)
	}
	if out.URL != "https://x/v1/messages?beta=true" || out.Header.Get("X-Api-Key") != "k" || out.Header.Get("Anthropic-Version") != defaultVersion || out.Header.Get("Anthropic-Beta") != "b" {
		t.Errorf("got %s with %v", out.URL, out.Header)
	}
	if got := string(bytes.Join(out.Body, nil)); got != `{"model":"claude-9","max_tokens":5}` || out.Injected {
		t.Errorf("got %s", got)
	}
	c.Header.Set("Anthropic-Version", "2026-10-21")
	out, err = New().Prepare(c, dialect.Upstream{BaseURL: "https://x"})
	if err != nil || out.Header.Get("Anthropic-Version") != "2026-10-21" {
		t.Errorf("got %v, %v", out.Header, err)
	}
}

func TestG8ARefusalIsReadByTheOfficialClient(t *testing.T) {
	limit := &fault.Limit{Scope: "team", Name: "tpm", Unit: "tokens", Amount: 100, Per: "minute", Remaining: 5, Requested: 31}
	for _, s := range []struct {
		fault fault.Error
		want  string
	}{
		{fault.Error{Code: fault.RateLimitExceeded, Message: "Wait.", Limit: limit, Wait: 2 * time.Second},
			`{"type":"error","error":{"type":"rate_limit_error","message":"Wait.","details":{"error_code":"rate_limit_exceeded",` +
				`"limit":{"scope":"team","name":"tpm","unit":"tokens","amount":100,"per":"minute","remaining":5,"requested":31,"retry_after_ms":2000}}},"request_id":"r"}`},
		{fault.Error{Code: fault.InsufficientQuota, Message: "Spent."},
			`{"type":"error","error":{"type":"rate_limit_error","message":"Spent.","details":{"error_code":"enforced_spend_limit_reached"}},"request_id":"r"}`},
		{*fault.Invalid("max_tokens", "No."),
			`{"type":"error","error":{"type":"invalid_request_error","message":"No.","details":{"error_code":"invalid_request","param":"max_tokens"}},"request_id":"r"}`},
	} {
		doc := New().Refusal(&s.fault, "r")
		if got := string(doc.Body); got != s.want+"\n" || doc.Header.Get("Request-Id") != "r" {
			t.Errorf("got  %s\nwant %s", got, s.want)
		}
		if got := string(New().ErrorEvent(&s.fault, "r")); got != "event: error\ndata: "+s.want+"\n\n" {
			t.Errorf("the event is %q", got)
		}
	}
	for code, want := range map[fault.Code]string{
		fault.InvalidAPIKey: "authentication_error", fault.Blocked: "permission_error", fault.ModelNotFound: "not_found_error", fault.RequestTooLarge: "request_too_large",
		fault.ExceedsLimit: "invalid_request_error", fault.Held: "rate_limit_error", fault.UpstreamCapacity: "overloaded_error", fault.UpstreamTimeout: "timeout_error",
		fault.Internal: "api_error", fault.UpstreamError: "api_error",
	} {
		if got := errorType(fault.New(code, "")); got != want {
			t.Errorf("%s is a %s, want %s", code, got, want)
		}
	}
}

func TestAFailureOfTheProviderKeepsTheNameOfItsStatus(t *testing.T) {
	for status, want := range map[int]string{529: "overloaded_error", 429: "rate_limit_error", 400: "invalid_request_error", 500: "api_error", 0: "api_error"} {
		doc := New().Refusal(&fault.Error{Code: fault.UpstreamError, Message: "Busy.", Status: status}, "req-1")
		if !strings.Contains(string(doc.Body), `"type":"`+want+`"`) {
			t.Errorf("%d: got %s, want %s", status, doc.Body, want)
		}
	}
}
