package anthropic

import (
	"testing"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/dialecttest"
)

func TestTheDialectPassesItsSuite(t *testing.T) {
	dialecttest.Run(t, dialecttest.Suite{
		Dialect: New(),
		Answers: map[string]dialecttest.Source{
			"anthropic.messages": {Operation: dialect.Chat}, "anthropic.error": {Operation: dialect.Chat}, "anthropic.count_tokens": {Operation: dialect.CountTokens},
		},
		Requests:  []string{"anthropic.messages", "anthropic.count_tokens"},
		MidStream: dialecttest.WithEvent,
	})
}
