package watch

import (
	"testing"

	"llmgw/internal/dialect"
)

func TestAKindOfErrorHasTheStatusOfItsDocument(t *testing.T) {
	for _, s := range []struct {
		what string
		says []dialect.Failure
		want int
	}{
		{"Anthropic's overload", []dialect.Failure{{Type: "overloaded_error"}}, 529},
		{"a rate by its code", []dialect.Failure{{Type: "tokens", Code: "rate_limit_exceeded"}}, 429},
		{"a code says more than its type", []dialect.Failure{{Type: "invalid_request_error", Code: "model_not_found"}}, 404},
		{"a status that is told wins", []dialect.Failure{{Type: "server_error", Status: 503}}, 503},
		{"an exception of Bedrock's", []dialect.Failure{{Type: "throttlingException"}}, 429},
		{"what later events add", []dialect.Failure{{Message: "no"}, {Type: "api_error"}}, 500},
		{"a kind that nobody knows", []dialect.Failure{{Type: "mystery"}}, 0},
	} {
		var r reading
		for _, f := range s.says {
			r.fail(f)
		}
		if got := r.failure.Status; got != s.want {
			t.Errorf("%s: got %d, want %d", s.what, got, s.want)
		}
	}
}
