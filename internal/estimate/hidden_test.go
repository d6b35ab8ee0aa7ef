package estimate

import (
	"testing"

	"llmgw/internal/dialect"
	"llmgw/internal/tokens"
)

func TestHiddenInputIsReservedFromTheFirstCallOn(t *testing.T) {
	for _, s := range []struct {
		what string
		op   dialect.Operation
		body string
		want tokens.Count
	}{
		{"nothing hidden", dialect.Responses, `{"input":"x"}`, 0},
		{"a response before this one", dialect.Responses, `{"input":"x","previous_response_id":"resp_1"}`, firstContext},
		{"none before this one", dialect.Responses, `{"input":"x","previous_response_id":null}`, 0},
		{"a conversation", dialect.Responses, `{"input":"x","conversation":"conv_1"}`, firstContext},
		{"a stored prompt", dialect.Responses, `{"prompt":{"id":"pmpt_1"}}`, firstContext},
		{"a cache of Gemini's", dialect.Chat, `{"contents":[],"cachedContent":"cachedContents/1"}`, firstContext},
		{"a vector store", dialect.Responses, `{"input":"x","tools":[{"type":"file_search","vector_store_ids":["vs_1"]}]}`, firstTools},
		{"a search", dialect.Responses, `{"input":"x","tools":[{"type":"web_search"}]}`, firstTools},
		{"a search of Anthropic's", dialect.Chat, `{"messages":[],"tools":[{"type":"web_search_20250305","name":"web_search"}]}`, firstTools},
		{"a search of Gemini's", dialect.Chat, `{"contents":[],"tools":[{"googleSearch":{}}]}`, firstTools},
		{"a search of a chat", dialect.Chat, `{"messages":[],"web_search_options":{}}`, firstTools},
		{"both", dialect.Responses, `{"input":"x","previous_response_id":"resp_1","tools":[{"type":"web_search"}]}`, firstContext + firstTools},
		{"a tool of one's own", dialect.Chat, `{"messages":[],"tools":[{"type":"function","function":{"name":"f"}}]}`, 0},
	} {
		got := estimated(t, New(Config{}), call(t, s.op, s.body), Rules{Model: "gpt-4o", Team: "a"})
		if got.Parts.Hidden != s.want || got.Input-got.Shown().Input != s.want {
			t.Errorf("%s: %d of %d are hidden, want %d", s.what, got.Parts.Hidden, got.Input, s.want)
		}
	}
}

func TestHiddenInputIsLearnedByTeamAndKind(t *testing.T) {
	const context, search = `{"input":"x","previous_response_id":"resp_1"}`, `{"input":"x","tools":[{"type":"web_search"}]}`
	e := New(Config{})
	of := func(team, body string) Estimate {
		return estimated(t, e, call(t, dialect.Responses, body), Rules{Model: "gpt-4o", Team: team})
	}
	learn := func(team, body string, used tokens.Count) {
		e.Observe(Observation{
			Rules: Rules{Model: "gpt-4o", Team: team}, Estimate: of(team, body), Used: tokens.Usage{Input: used, Output: 16},
			InputKnown: true, OutputKnown: true, Complete: true,
		})
	}
	learn("a", context, 200_000)
	if got := of("a", context).Input; got < 200_000 || got > 230_000 {
		t.Errorf("after one answer %d is reserved, want 200,000 or little more", got)
	}
	if got := of("a", search).Parts.Hidden; got != firstTools {
		t.Errorf("a call of another kind: %d, want %d", got, firstTools)
	}
	if got := of("b", context).Parts.Hidden; got != firstContext {
		t.Errorf("another team: %d, want %d", got, firstContext)
	}
	for range 300 {
		learn("b", context, 500)
	}
	if got := of("b", context).Input; got > 600 {
		t.Errorf("a team with short conversations: %d", got)
	}
	for range 200 {
		learn("a", context, 1000)
	}
	if got := of("a", context).Input; got > 1200 {
		t.Errorf("one long conversation among 200 short ones still reserves %d", got)
	}
	learn("a", context, tokens.MaxCount)
	learn("a", search, tokens.MaxCount)
	if got := of("a", search).Parts.Hidden; got > mostHidden {
		t.Errorf("an absurd report makes it %d, want %d at most", got, mostHidden)
	}
}
