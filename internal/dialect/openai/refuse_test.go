package openai

import (
	"testing"
	"time"

	"llmgw/internal/fault"
)

func TestARefusalHasTheShapeThatItsPageShows(t *testing.T) {
	limit := fault.Limit{Scope: "team", Name: "tpm", Unit: "tokens", Amount: 100000, Per: "minute", Remaining: 512, Requested: 3120}
	usd := fault.Limit{Scope: "team", Name: "monthly", Unit: "usd", Amount: 500_000_000, Per: "month", Remaining: -1_250_000, Requested: 42}
	slots := fault.Limit{Scope: "key", Name: "slots", Unit: "concurrency", Amount: 20, Requested: 1}
	for _, s := range []struct {
		fault fault.Error
		want  string
	}{
		{
			fault.Error{Code: fault.RateLimitExceeded, Message: `Team "search" is at its limit.`, Limit: &limit, Wait: 1564*time.Millisecond + 1},
			`{"error":{"message":"Team \"search\" is at its limit.","type":"tokens","param":null,"code":"rate_limit_exceeded",` +
				`"limit":{"scope":"team","name":"tpm","unit":"tokens","amount":100000,"per":"minute","remaining":512,"requested":3120,"retry_after_ms":1565}}}`,
		},
		{
			fault.Error{Code: fault.InsufficientQuota, Message: "Spent.", Limit: &usd, Wait: time.Hour},
			`{"error":{"message":"Spent.","type":"insufficient_quota","param":null,"code":"insufficient_quota",` +
				`"limit":{"scope":"team","name":"monthly","unit":"usd","amount":500,"per":"month","remaining":-1.25,"requested":0.000042,"retry_after_ms":3600000}}}`,
		},
		{
			fault.Error{Code: fault.ConcurrencyExceeded, Message: "Busy.", Limit: &slots},
			`{"error":{"message":"Busy.","type":"concurrency","param":null,"code":"concurrency_exceeded",` +
				`"limit":{"scope":"key","name":"slots","unit":"concurrency","amount":20,"per":null,"remaining":0,"requested":1,"retry_after_ms":null}}}`,
		},
		{
			fault.Error{Code: fault.ExceedsLimit, Message: "Too large.", Limit: &slots, NoRetry: true},
			`{"error":{"message":"Too large.","type":"invalid_request_error","param":null,"code":"exceeds_limit",` +
				`"limit":{"scope":"key","name":"slots","unit":"concurrency","amount":20,"per":null,"remaining":0,"requested":1,"retry_after_ms":null}}}`,
		},
		{
			*fault.Invalid("max_tokens", "max_tokens\tmust be at least 1."),
			`{"error":{"message":"max_tokens\u0009must be at least 1.","type":"invalid_request_error","param":"max_tokens","code":"invalid_request"}}`,
		},
	} {
		doc := New().Refusal(&s.fault, "req-1")
		if got := string(doc.Body); got != s.want+"\n" || doc.ContentType != "application/json" {
			t.Errorf("%s: got  %s\nwant %s", s.fault.Code, got, s.want)
		}
		if got := string(New().ErrorEvent(&s.fault, "req-1")); got != "data: "+s.want+"\n\n" {
			t.Errorf("%s: the event is %q", s.fault.Code, got)
		}
	}
}
