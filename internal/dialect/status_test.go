package dialect_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/anthropic"
	"llmgw/internal/dialect/azure"
	"llmgw/internal/dialect/bedrock"
	"llmgw/internal/dialect/cohere"
	"llmgw/internal/dialect/gemini"
	"llmgw/internal/dialect/ollama"
	"llmgw/internal/dialect/openai"
	"llmgw/internal/fault"
)

// kinds is what clients of the dialects that name kinds of errors read of one:
// whether to try again, or another provider, hangs on it.
type kinds struct{ openAI, anthropic, gemini, bedrock string }

func TestEveryFaultHasItsStatusAndTheKindThatItsClientsKnow(t *testing.T) {
	tokens := &fault.Limit{Scope: "team", Name: "tpm", Unit: "tokens"}
	invalid := kinds{"invalid_request_error", "invalid_request_error", "INVALID_ARGUMENT", "ValidationException"}
	limited := kinds{"tokens", "rate_limit_error", "RESOURCE_EXHAUSTED", "ThrottlingException"}
	for _, s := range []struct {
		fault  fault.Error
		status int
		want   kinds
	}{
		{fault.Error{Code: fault.InvalidRequest}, 400, invalid},
		{fault.Error{Code: fault.ExceedsLimit, Limit: tokens}, 400, invalid},
		{fault.Error{Code: fault.InvalidAPIKey}, 401, kinds{"invalid_request_error", "authentication_error", "UNAUTHENTICATED", "UnrecognizedClientException"}},
		{fault.Error{Code: fault.Blocked}, 403, kinds{"permission_error", "permission_error", "PERMISSION_DENIED", "AccessDeniedException"}},
		{fault.Error{Code: fault.ModelNotAllowed}, 403, kinds{"permission_error", "permission_error", "PERMISSION_DENIED", "AccessDeniedException"}},
		{fault.Error{Code: fault.ModelNotFound}, 404, kinds{"invalid_request_error", "not_found_error", "NOT_FOUND", "ResourceNotFoundException"}},
		{fault.Error{Code: fault.NotFound}, 404, kinds{"invalid_request_error", "not_found_error", "NOT_FOUND", "ResourceNotFoundException"}},
		{fault.Error{Code: fault.MethodNotAllowed}, 405, kinds{"invalid_request_error", "invalid_request_error", "UNIMPLEMENTED", "ValidationException"}},
		{fault.Error{Code: fault.RequestTooLarge}, 413, kinds{"invalid_request_error", "request_too_large", "INVALID_ARGUMENT", "ValidationException"}},
		{fault.Error{Code: fault.InvalidRequest, Status: 426}, 426, kinds{"invalid_request_error", "invalid_request_error", "FAILED_PRECONDITION", "ValidationException"}},
		{fault.Error{Code: fault.RateLimitExceeded, Limit: tokens}, 429, limited},
		{fault.Error{Code: fault.ConcurrencyExceeded, Limit: tokens}, 429, limited},
		{fault.Error{Code: fault.Held, Limit: tokens}, 429, limited},
		{fault.Error{Code: fault.InsufficientQuota, Limit: tokens}, 429, kinds{"insufficient_quota", "rate_limit_error", "RESOURCE_EXHAUSTED", "ServiceQuotaExceededException"}},
		{fault.Error{Code: fault.Internal}, 500, kinds{"server_error", "api_error", "INTERNAL", "InternalServerException"}},
		{fault.Error{Code: fault.UpstreamError}, 502, kinds{"server_error", "api_error", "UNAVAILABLE", "ModelErrorException"}},
		{fault.Error{Code: fault.UpstreamCapacity, Limit: tokens}, 503, kinds{"tokens", "overloaded_error", "UNAVAILABLE", "ServiceUnavailableException"}},
		{fault.Error{Code: fault.LimiterUnavailable}, 503, kinds{"server_error", "api_error", "UNAVAILABLE", "ServiceUnavailableException"}},
		{fault.Error{Code: fault.UpstreamTimeout}, 504, kinds{"server_error", "timeout_error", "DEADLINE_EXCEEDED", "ModelTimeoutException"}},
		// A provider's status that is passed on, as of a stream that begins with an error.
		{fault.Error{Code: fault.UpstreamError, Status: 400}, 400, invalid},
		{fault.Error{Code: fault.UpstreamError, Status: 403}, 403, kinds{"permission_error", "permission_error", "PERMISSION_DENIED", "AccessDeniedException"}},
		{fault.Error{Code: fault.UpstreamError, Status: 422}, 422, invalid},
		{fault.Error{Code: fault.UpstreamError, Status: 429}, 429, kinds{"requests", "rate_limit_error", "RESOURCE_EXHAUSTED", "ThrottlingException"}},
		{fault.Error{Code: fault.UpstreamError, Status: 500}, 500, kinds{"server_error", "api_error", "INTERNAL", "InternalServerException"}},
		{fault.Error{Code: fault.UpstreamError, Status: 529}, 529, kinds{"server_error", "overloaded_error", "UNAVAILABLE", "InternalServerException"}},
	} {
		s.fault.Message = "Something happened."
		if got := dialect.StatusOf(&s.fault); got != s.status {
			t.Errorf("%s is %d, want %d", s.fault.Code, got, s.status)
		}
		got := kinds{
			openAI:    at(t, openai.New(), &s.fault, "error", "type"),
			anthropic: at(t, anthropic.New(), &s.fault, "error", "type"),
			gemini:    at(t, gemini.New(), &s.fault, "error", "status"),
			bedrock:   bedrock.New().Refusal(&s.fault, "r").Header.Get("X-Amzn-Errortype"),
		}
		if got != s.want {
			t.Errorf("%s (%d):\ngot  %+v\nwant %+v", s.fault.Code, s.status, got, s.want)
		}
		if got := at(t, gemini.New(), &s.fault, "error", "code"); got != fmt.Sprint(s.status) {
			t.Errorf("%s: Gemini's code is %s, want %d", s.fault.Code, got, s.status)
		}
		checkEvents(t, &s.fault, s.want)
		for _, d := range []dialect.Dialect{azure.New(), cohere.New(), ollama.New()} { // which name none
			if body := d.Refusal(&s.fault, "r").Body; strings.Contains(string(body), "invalid_request") && s.fault.Code != fault.InvalidRequest {
				t.Errorf("%s calls %s the request's fault: %s", d.Name(), s.fault.Code, body)
			}
		}
	}
}

// checkEvents reads the kind in the event that ends a broken stream.
func checkEvents(t *testing.T, e *fault.Error, want kinds) {
	t.Helper()
	for _, s := range []struct {
		d    dialect.Dialect
		want string
	}{{openai.New(), want.openAI}, {anthropic.New(), want.anthropic}, {gemini.New(), want.gemini}} {
		if event := string(s.d.ErrorEvent(e, "r")); !strings.Contains(event, `"`+s.want+`"`) {
			t.Errorf("%s of %s: got %q, want a %s", e.Code, s.d.Name(), event, s.want)
		}
	}
}

// at returns what stands at a path of a refusal.
func at(t *testing.T, d dialect.Dialect, e *fault.Error, path ...string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(d.Refusal(e, "r").Body, &v); err != nil {
		t.Fatal(err)
	}
	for _, key := range path {
		object, _ := v.(map[string]any)
		v = object[key]
	}
	return fmt.Sprint(v)
}
