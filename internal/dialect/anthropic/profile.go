package anthropic

import (
	"net/url"
	"time"

	"llmgw/internal/dialect"
)

// Profile implements dialect.Dialect.
func (Dialect) Profile() *dialect.Profile { return &profile }

var profile = dialect.Profile{
	UsageFields: []string{"cache_read_input_tokens", "cache_creation_input_tokens", "cache_creation", "server_tool_use"},
	Flavors: []dialect.Flavor{{
		System: Name, Models: "claude",
		Quota: dialect.Quota{Output: dialect.OutputAsItComes, FreeCacheReads: true},
	}},
	AsksForCache: true,
	WriteLimit:   writeLimit,
	Signals: dialect.Signals{
		Requests: []string{"Anthropic-Ratelimit-Requests-Remaining"},
		Tokens:   []string{"Anthropic-Ratelimit-Tokens-Remaining", "Anthropic-Ratelimit-Input-Tokens-Remaining"},
		Resets: []dialect.Reset{
			{Remaining: "Anthropic-Ratelimit-Requests-Remaining", At: "Anthropic-Ratelimit-Requests-Reset"},
			{Remaining: "Anthropic-Ratelimit-Input-Tokens-Remaining", At: "Anthropic-Ratelimit-Input-Tokens-Reset"},
			{Remaining: "Anthropic-Ratelimit-Output-Tokens-Remaining", At: "Anthropic-Ratelimit-Output-Tokens-Reset"},
		},
		Account:        []string{"Anthropic-Ratelimit-", "Anthropic-Priority-", "Anthropic-Fast-"},
		Spent:          []string{"billing_error", "enforced_spend_limit_reached", "contract_spend_limit_reached"},
		RefusedPhrases: []dialect.Phrase{{Start: "This organization has been disabled"}, {Start: "Your organization has been disabled"}},
		SpentPhrases:   []dialect.Phrase{{Start: "Your credit balance is too low"}, {Start: "You have reached your specified "}}, // as a 400
	},
	Listing: dialect.Listing{
		Paths: dialect.SharedPaths,
		Asks:  func(h dialect.Header, _ url.Values) bool { return h.Get("Anthropic-Version") != "" },
		All:   page,
		One:   listed,
	},
}

// writeLimit writes a client's limit in Anthropic's headers, which have a time
// where others have a duration.
func writeLimit(v *dialect.Values, l dialect.Level) {
	switch l.Unit {
	case "requests":
		write(v, l, "Anthropic-Ratelimit-Requests-Limit", "Anthropic-Ratelimit-Requests-Remaining", "Anthropic-Ratelimit-Requests-Reset")
	case "tokens":
		write(v, l, "Anthropic-Ratelimit-Tokens-Limit", "Anthropic-Ratelimit-Tokens-Remaining", "Anthropic-Ratelimit-Tokens-Reset")
	case "input_tokens":
		write(v, l, "Anthropic-Ratelimit-Input-Tokens-Limit", "Anthropic-Ratelimit-Input-Tokens-Remaining", "Anthropic-Ratelimit-Input-Tokens-Reset")
	case "output_tokens":
		write(v, l, "Anthropic-Ratelimit-Output-Tokens-Limit", "Anthropic-Ratelimit-Output-Tokens-Remaining", "Anthropic-Ratelimit-Output-Tokens-Reset")
	}
}

func write(v *dialect.Values, l dialect.Level, limit, remaining, reset string) {
	l.Numbers(v, limit, remaining)
	var text [len(time.RFC3339)]byte
	v.AddBytes(reset, l.At.Add(dialect.RoundUp(l.Reset, time.Second)).UTC().AppendFormat(text[:0], time.RFC3339))
}

func page(models []dialect.Listed) any {
	more := map[string]any{"has_more": false, "first_id": nil, "last_id": nil}
	if n := len(models); n > 0 {
		more["first_id"], more["last_id"] = models[0].Name, models[n-1].Name
	}
	return dialect.Page("data", listed, more)(models)
}

func listed(m dialect.Listed) any {
	return map[string]any{"type": "model", "id": m.Name, "display_name": m.Name, "created_at": m.Created.Format(time.RFC3339)}
}
