package openai

import (
	"testing"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/dialecttest"
)

func suite() dialecttest.Suite {
	flavor := func(name string) dialecttest.Source { return dialecttest.Source{Operation: dialect.Chat, Flavor: name} }
	of := func(o dialect.Operation) dialecttest.Source { return dialecttest.Source{Operation: o} }
	return dialecttest.Suite{
		Dialect: New(),
		Answers: map[string]dialecttest.Source{
			"openai.chat": flavor("openai"), "openai.error": flavor("openai"), "mistral.chat": flavor("mistral"), "mistral.error": flavor("mistral"),
			"deepseek.chat": flavor("deepseek"), "deepseek.error": flavor("deepseek"), "groq.chat": flavor("groq"), "openrouter.chat": flavor("openrouter"),
			"openrouter.error": flavor("openrouter"), "together.chat": flavor("together"), "together.error": flavor("together"), "fireworks.chat": flavor("fireworks"),
			"xai.chat": flavor("xai"), "perplexity.chat": flavor("perplexity"), "vllm.chat": flavor("vllm"), "llamacpp.chat": flavor("llamacpp"),
			"llamacpp.error": flavor("llamacpp"), "lmstudio.chat": flavor("lmstudio"),
			"openai.completions": of(dialect.Completion), "openai.responses": of(dialect.Responses), "openai.embeddings": of(dialect.Embeddings),
			"openai.images": of(dialect.Images), "openai.audio.speech": of(dialect.Speech), "openai.audio.transcriptions": of(dialect.Transcribe),
		},
		Requests:   []string{"openai.chat", "openai.completions", "openai.responses", "openai.embeddings", "openai.audio.speech", "together.chat", "xai.chat", "mistral.chat", "vllm.chat"},
		StreamType: "text/event-stream",
	}
}

func TestTheDialectPassesItsSuite(t *testing.T) { dialecttest.Run(t, suite()) }

func FuzzMeter(f *testing.F) { dialecttest.Fuzz(f, suite()) }
