package upstream

import "llmgw/internal/tokens"

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

// atEnd is what p has counted once the call used u.
func atEnd(p *Provider, u tokens.Usage) tokens.Count {
	cached := min(u.CachedInput, u.Input)
	switch {
	case p.Dialect == "gemini":
		return u.Input
	case p.Dialect == "anthropic", p.Dialect == "bedrock", p.Flavor == "groq":
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
