package openai

import (
	"llmgw/internal/dialect"
	"llmgw/internal/dialect/watch"
)

// flavor is how a provider that follows OpenAI differs from it.
type flavor struct {
	dialect.Flavor
	// reports says that usage comes unasked. Clients of such a provider read it
	// there, and some servers do not know the option.
	reports bool
	// bound is the member that bounds the output of chat, where OpenAI's newer name
	// is not known; or empty.
	bound string
	// chat, searching (where a search is asked for) and completion are how answers
	// are read. nil: as most are.
	chat, searching, completion *watch.API
}

const maxTokens = "max_tokens"

// flavors are all that are known. The first is OpenAI's own.
var flavors = []flavor{
	{
		Flavor:    dialect.Flavor{Name: Name, System: Name, Models: "gpt", Quota: dialect.Quota{KeepsBound: true}, DefaultBound: true},
		searching: searchingChat,
	},
	{Flavor: dialect.Flavor{Name: "mistral", System: "mistral_ai", Models: "mistral"}, reports: true, bound: maxTokens},
	{Flavor: dialect.Flavor{Name: "deepseek", System: "deepseek", Models: "deepseek"}, reports: true, bound: maxTokens},
	{Flavor: dialect.Flavor{Name: "groq", System: "groq", Quota: dialect.Quota{FreeCacheReads: true}, DailyRequests: true}, reports: true, chat: groqChat},
	{Flavor: dialect.Flavor{Name: "openrouter", System: "openrouter"}, reports: true, bound: maxTokens},
	{Flavor: dialect.Flavor{Name: "together", System: "together"}, bound: maxTokens},
	{Flavor: dialect.Flavor{Name: "fireworks", System: "fireworks"}, reports: true, bound: maxTokens},
	{Flavor: dialect.Flavor{Name: "xai", System: "x_ai"}},
	{Flavor: dialect.Flavor{Name: "perplexity", System: "perplexity", Citations: true}, reports: true, bound: maxTokens},
	{Flavor: dialect.Flavor{Name: "vllm", System: "vllm", DefaultBound: true}},
	{Flavor: dialect.Flavor{Name: "llamacpp", System: "llamacpp"}, chat: llamaChat, completion: llamaCompletion},
	{Flavor: dialect.Flavor{Name: "lmstudio", System: "lmstudio"}, bound: maxTokens},
}

// flavorOf returns the flavor of that name, the first if name is empty, and one
// of which nothing is known if there is none of that name.
func flavorOf(name string) *flavor {
	for i := range flavors {
		if name == "" || flavors[i].Name == name {
			return &flavors[i]
		}
	}
	return &flavor{}
}
