package bedrock

import (
	"regexp"
	"strings"

	"llmgw/internal/dialect"
	"llmgw/internal/tokens"
)

// Profile implements dialect.Dialect.
func (Dialect) Profile() *dialect.Profile { return &profile }

var profile = dialect.Profile{
	UsageFields:  []string{"inputTokens", "outputTokens", "cacheReadInputTokens"},
	Flavors:      []dialect.Flavor{{System: "aws.bedrock", Quota: dialect.Quota{FreeCacheReads: true, OutputRate: burndown}}},
	Region:       dialect.Setting{Form: regexp.MustCompile(`^[a-z]{2}(-[a-z]+)+-\d$`), Example: "eu-west-1"},
	Signs:        func(key string) bool { return strings.Contains(key, ":") },
	AsksForCache: true,
	Signals: dialect.Signals{
		Refused: []string{
			"UnrecognizedClientException", "InvalidSignatureException", "ExpiredTokenException", "IncompleteSignatureException", "MissingAuthenticationTokenException",
		},
		DailyPhrases: []dialect.Phrase{{Start: "Too many tokens per day"}},
	},
}

// burndown is how much Bedrock counts a token of a model's output for.
func burndown(model string) tokens.Count {
	for _, b := range [...]struct {
		name string
		rate tokens.Count
	}{
		{"sonnet-5", 10}, {"opus-5", 10}, {"fable-5", 10}, {"gpt-5.6", 10},
		{"4-8", 15}, {"claude", 5},
	} {
		if strings.Contains(model, b.name) {
			return b.rate
		}
	}
	return 1
}
