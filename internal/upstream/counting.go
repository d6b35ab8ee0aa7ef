package upstream

import (
	"strings"

	"llmgw/internal/tokens"
)

// What providers count of a call against their tokens per minute. It differs in
// three ways: what is counted when the call arrives, whether that is replaced
// by what was used, and whether cache reads are free.

// atArrival is what p counts when a call of this estimate arrives. Anthropic
// counts output as it is produced, Gemini counts input alone; the others count
// the most output that the call allows.
func atArrival(p *Provider, input, output tokens.Count) tokens.Count {
	switch p.Dialect {
	case "anthropic", "gemini":
		return input
	default:
		return tokens.Add(input, output)
	}
}

// atEnd is what p has counted once the call to model used u.
func atEnd(p *Provider, model string, u tokens.Usage) tokens.Count {
	cached := min(u.CachedInput, u.Input)
	switch {
	case p.Dialect == "gemini":
		return u.Input
	case p.Dialect == "bedrock":
		return tokens.Add(u.Input-cached, tokens.Mul(u.Output, burndown(model)))
	case p.Dialect == "anthropic", p.Flavor == "groq":
		return tokens.Add(u.Input-cached, u.Output)
	default:
		return tokens.Add(u.Input, u.Output)
	}
}

// keeps tells whether p goes on counting what it counted when the call arrived,
// whatever is used: OpenAI and Azure do, of a bound that the request states.
func keeps(p *Provider, j *Job) bool {
	stated := j.Call.HasMaxOutput || j.CapOutput > 0
	return stated && (p.Dialect == "azure" || p.Dialect == "openai" && (p.Flavor == "" || p.Flavor == "openai"))
}

// burndown is what Bedrock counts a token of a model's output for.
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
