package openai

import (
	"slices"

	"llmgw/internal/dialect"
)

// Profile implements dialect.Dialect.
func (Dialect) Profile() *dialect.Profile { return &profile }

var profile = dialect.Profile{
	UsageFields: []string{"prompt_tokens", "completion_tokens", "input_tokens_details", "output_tokens_details"},
	Flavors:     public(flavors),
	Accepts:     []string{Azure},
	BasePath:    version,
	Signals: dialect.Signals{
		Requests: []string{
			"X-Ratelimit-Remaining-Requests",         // OpenAI, Azure, compatible ones
			"X-Ratelimit-Remaining-Req-Minute",       // Mistral
			"X-Ratelimit-Limit-Req-Minute-Remaining", // Mistral, as some write it
			"X-Ratelimit-Remaining-Requests-Minute",  // Cerebras
			"Ratelimit-Remaining",                    // IETF drafts up to 07
		},
		Tokens: []string{
			"X-Ratelimit-Remaining-Tokens",
			"X-Ratelimit-Remaining-Project-Tokens",
			"X-Ratelimit-Remaining-Tokens-Minute",
			"X-Ratelimitbysize-Remaining-Minute",
			"Ratelimitbysize-Remaining",
			"X-Ratelimit-Remaining-Tokens-Prompt", // Fireworks
			"X-Ratelimit-Remaining-Tokens-Generated",
		},
		Resets: []dialect.Reset{
			{Remaining: "X-Ratelimit-Remaining-Requests", At: "X-Ratelimit-Reset-Requests"},
			{Remaining: "X-Ratelimit-Remaining-Tokens", At: "X-Ratelimit-Reset-Tokens"},
			{Remaining: "X-Ratelimit-Remaining", At: "X-Ratelimit-Reset"},
			{Remaining: "Ratelimitbysize-Remaining", At: "Ratelimitbysize-Reset"},
		},
		Account: []string{"X-Ratelimit", "Ratelimit"},
		Refused: []string{ // OpenAI, Groq
			"invalid_api_key", "account_deactivated", "organization_deactivated", "organization_restricted", "access_terminated",
		},
		Spent: []string{"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"},
		SpentPhrases: []dialect.Phrase{
			{Start: "Your account is not active, please check your billing"},
			{Start: "Your team ", Has: "used all available credits"}, // xAI
		},
	},
	Listing: dialect.Listing{
		Paths: append(slices.Clone(dialect.SharedPaths), AzureV1+"/models", AzureV1+"/models/:model"),
		All:   dialect.Page("data", listed, map[string]any{"object": "list"}),
		One:   listed,
	},
}

// public is what others read of flavors.
func public(flavors []flavor) []dialect.Flavor {
	all := make([]dialect.Flavor, len(flavors))
	for i, f := range flavors {
		all[i] = f.Flavor
	}
	return all
}

func listed(m dialect.Listed) any {
	return map[string]any{"id": m.Name, "object": "model", "created": m.Created.Unix(), "owned_by": m.Owner}
}
