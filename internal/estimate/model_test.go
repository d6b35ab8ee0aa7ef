package estimate

import (
	"slices"
	"testing"

	"llmgw/internal/dialect"
)

func TestEncodingsFollowFromNames(t *testing.T) {
	for name, want := range map[string]string{
		"gpt-4o": "o200k_base", "gpt-4o-mini-2024-07-18": "o200k_base", "chatgpt-4o-latest": "o200k_base",
		"gpt-4.1-nano": "o200k_base", "gpt-4.5-preview": "o200k_base", "gpt-5": "o200k_base", "gpt-5-2025-08-07": "o200k_base",
		"gpt-5.6-terra": "o200k_base", "o1": "o200k_base", "o1-pro": "o200k_base", "o3-mini": "o200k_base", "o4-mini": "o200k_base",
		"gpt-oss-120b": "o200k_base", "openai/gpt-oss-20b": "o200k_base", "gpt-oss:20b": "o200k_base", "gpt-9": "o200k_base",
		"ft:gpt-4o-2024-08-06:acme::1": "o200k_base", "ft:gpt-4.1-mini:acme": "o200k_base",
		"gpt-4": "cl100k_base", "gpt-4-turbo-2024-04-09": "cl100k_base", "gpt-4-0613": "cl100k_base", "gpt-3.5-turbo": "cl100k_base",
		"gpt-35-turbo": "cl100k_base", "gpt-35-turbo-16k": "cl100k_base", "ft:gpt-3.5-turbo:acme": "cl100k_base", "ft:gpt-4-0613:x": "cl100k_base",
		"text-embedding-3-small": "cl100k_base", "text-embedding-ada-002": "cl100k_base", "davinci-002": "cl100k_base", "ft:babbage-002:x": "cl100k_base",
		"text-davinci-003": "p50k_base", "code-davinci-002": "p50k_base",
		"text-moderation-latest": "cl100k_base", "text-davinci-002": "p50k_base", "text-davinci-edit-001": "p50k_base", "code-cushman-001": "p50k_base",
		"babbage": "r50k_base", "curie": "r50k_base", "text-curie-001": "r50k_base", "text-babbage-001": "r50k_base", "text-ada-001": "r50k_base", "gpt-2": "r50k_base",
		"text-similarity-davinci-001": "r50k_base", "text-search-ada-doc-001": "r50k_base", "code-search-babbage-code-001": "r50k_base",
		"text-davinci-001": "r50k_base", "davinci": "r50k_base", "ada": "r50k_base", "gpt2": "r50k_base",
		"qwen3": "qwen3", "Qwen/Qwen2.5-72B-Instruct": "qwen3", "qwen3-coder:30b": "qwen3", "qwq-32b": "qwen3", "qwen.qwen3-32b-v1:0": "qwen3",
		"qwen3.5": "o200k_base", "qwen-plus": "o200k_base", "qwen": "o200k_base", // another vocabulary, or nobody knows which
		"qwen1.5-7b-chat": "qwen3", "qwen2-72b": "qwen3", "qwen2.5-coder:7b": "qwen3", "qwen2.5vl:7b": "qwen3", "qwen3-next-80b-a3b": "qwen3",
		"deepseek-v3": "deepseek_v3", "deepseek-v3.1": "deepseek_v3", "deepseek.v3-v1:0": "deepseek_v3",
		"ministral-3:8b": "tekken", "ministral-3b-2410": "tekken", "ministral-14b-2512": "tekken", "mistral.ministral-3-8b": "tekken", "magistral": "tekken",
		"mistral-small-2501": "tekken", "mistral-small-2503": "tekken", "mistral-small3.1:24b": "tekken", "mistral-small3.2:24b": "tekken", "devstral:24b": "tekken",
		"mistral-small-3.1-24b": "tekken", "mistral-small-24b-instruct-2501": "tekken",
		"deepseek-chat": "deepseek_v3", "deepseek-reasoner": "deepseek_v3", "deepseek-ai/DeepSeek-V3-0324": "deepseek_v3", "deepseek-v3.2-exp": "deepseek_v3",
		"deepseek-r1": "deepseek_v3", "deepseek-r1-0528": "deepseek_v3", "deepseek.r1-v1:0": "deepseek_v3", "deepseek-r1:671b": "deepseek_v3",
		"deepseek-r1:8b": "o200k_base", "deepseek-r1-distill-llama-8b": "o200k_base", "deepseek-r1-distill-qwen-7b": "qwen3", "deepseek-r1-0528-qwen3-8b": "qwen3",
		"deepseek-coder": "o200k_base", "deepseek-v2": "o200k_base",
		"open-mistral-nemo-2407": "tekken", "mistral-nemo:12b": "tekken", "ministral-8b-2410": "tekken", "pixtral-12b-2409": "tekken",
		"mistral-small-2506": "tekken", "mistralai/Mistral-Small-3.2-24B-Instruct-2506": "tekken", "magistral-medium-2506": "tekken", "devstral-small-2507": "tekken",
		"mistral-small-2402": "o200k_base", "mistral-large-2411": "o200k_base", "mixtral-8x7b": "o200k_base", "codestral-2405": "o200k_base", "pixtral-large-2411": "o200k_base",
		"adapter-7b": "o200k_base", "o1x": "o200k_base", "": "o200k_base", "my-deployment": "o200k_base", "claude-3-opus": "o200k_base",
	} {
		if got := EncodingFor(name); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}

func TestNoStartOfANameIsTooLongToBeFound(t *testing.T) {
	for _, all := range []map[string]string{encodings, vendorEncodings} {
		for start, want := range all {
			if len(start) > longestStart {
				t.Errorf("%q is longer than %d", start, longestStart)
			}
			if got := lookUp(all, start); got != want {
				t.Errorf("%q: %q, want %q", start, got, want)
			}
			if want != "" && !slices.Contains(Encodings, want) {
				t.Errorf("%q leads to %q, which is no encoding", start, want)
			}
		}
	}
}

func TestFamiliesFollowFromNamesElseFromProviders(t *testing.T) {
	for _, s := range []struct {
		name  string
		rules Rules
		want  family
		exact bool
	}{
		{"gpt-4o", Rules{Dialect: "openai"}, openAI, true},
		{"gpt-oss-120b", Rules{Dialect: "openai", Flavor: "groq"}, openAI, true},
		{"openai.gpt-oss-120b-1:0", Rules{Dialect: "bedrock"}, openAI, true},
		{"us.openai.gpt-5.6-sol-v1:0", Rules{Dialect: "bedrock"}, openAI, true},
		{"gpt-4.1-mini", Rules{Dialect: "openai"}, openAI, true},
		{"gpt-4.5-preview", Rules{Dialect: "openai"}, openAI, true},
		{"gpt-5", Rules{Dialect: "openai"}, openAI, true},
		{"gpt4o", Rules{Dialect: "openai"}, openAI, true},
		{"chatgpt-4o-latest", Rules{Dialect: "openai"}, openAI, true},
		{"codex-mini-latest", Rules{Dialect: "openai"}, openAI, true},
		{"o4-mini", Rules{Dialect: "openai"}, openAI, true},
		{"computer-use-preview", Rules{Dialect: "openai"}, openAI, true},
		{"omni-moderation-latest", Rules{Dialect: "openai"}, openAI, true},
		{"o1x", Rules{Dialect: "openai"}, openAI, false},
		{"gemma3:27b", Rules{Dialect: "ollama"}, gemini, false},
		{"learnlm-2.0", Rules{Dialect: "gemini"}, gemini, false},
		{"learnlm-2.0", Rules{Dialect: "openai", Flavor: "vllm"}, gemini, false},
		{"our-qwq-tune", Rules{Dialect: "openai", Flavor: "vllm"}, qwen, false},
		{"our-deepseek-distill-qwen", Rules{Dialect: "openai", Flavor: "vllm"}, qwen, false},
		{"our-magistral", Rules{Dialect: "openai", Flavor: "vllm"}, mistral, false},
		{"our-devstral", Rules{Dialect: "openai", Flavor: "vllm"}, mistral, false},
		{"our-pixtral", Rules{Dialect: "openai", Flavor: "vllm"}, mistral, false},
		{"house", Rules{Dialect: "gemini"}, gemini, false},
		{"house", Rules{Dialect: "anthropic"}, claude, false},
		{"house", Rules{Dialect: "openai", Flavor: "deepseek"}, deepSeek, false},
		{"house", Rules{Dialect: "openai", Flavor: "openai"}, openAI, false},
		{"house", Rules{Dialect: "openai", Flavor: "vllm"}, unknown, false},
		{"house", Rules{Dialect: "ollama"}, unknown, false},
		{"house", Rules{}, openAI, false},
		{"magistral-medium", Rules{Dialect: "openai"}, mistral, false},
		{"pixtral-large-2411", Rules{Dialect: "openai"}, mistral, false},
		{"codestral-2405", Rules{Dialect: "openai"}, mistral, false},
		{"my-deployment", Rules{Dialect: "azure"}, openAI, false},
		{"my-deployment", Rules{Dialect: "azure", Encoding: "cl100k_base"}, openAI, true},
		{"us.anthropic.claude-sonnet-5-v1:0", Rules{Dialect: "bedrock"}, claude, false},
		{"anthropic/claude-opus-4.7", Rules{Dialect: "openai", Flavor: "openrouter"}, claude, false},
		{"models/gemini-3-pro", Rules{Dialect: "gemini"}, gemini, false},
		{"deepseek-r1-distill-llama-70b", Rules{Dialect: "openai", Flavor: "groq"}, llama, false},
		{"deepseek-r1-distill-qwen-32b", Rules{Dialect: "openai", Flavor: "groq"}, qwen, false},
		{"deepseek-r1-0528-qwen3-8b", Rules{Dialect: "openai", Flavor: "vllm"}, qwen, false},
		{"house-model", Rules{Dialect: "openai", Encoding: "qwen3"}, qwen, false}, // what is around the text is learned
		{"house-model", Rules{Dialect: "ollama", Encoding: "tekken"}, mistral, false},
		{"claude-like", Rules{Dialect: "openai", Encoding: "deepseek_v3"}, deepSeek, false},
		{"meta-llama/Llama-3.3-70B", Rules{Dialect: "openai", Flavor: "together"}, llama, false},
		{"qwen3:8b", Rules{Dialect: "ollama"}, qwen, false},
		{"Mixtral-8x7B", Rules{Dialect: "openai", Flavor: "vllm"}, mistral, false},
		{"large-latest", Rules{Dialect: "openai", Flavor: "mistral"}, mistral, false},
		{"command-a", Rules{Dialect: "cohere"}, unknown, false},
		{"command-a", Rules{Dialect: "cohere", Encoding: "cl100k_base"}, unknown, true},
	} {
		rules := s.rules
		rules.Model = s.name
		m := resolve(nil, rules)
		if m.family != s.want || m.exact != s.exact {
			t.Errorf("%s at %s/%s: family %d exact %v, want %d %v", s.name, rules.Dialect, rules.Flavor, m.family, m.exact, s.want, s.exact)
		}
	}
}

func TestTheModelOfTheProviderCountsBeforeTheClientsName(t *testing.T) {
	c := &dialect.Call{Model: "smart"}
	if m := resolve(c, Rules{Model: "smart", ProviderModel: "gpt-4"}); m.encoding != "cl100k_base" {
		t.Errorf("encoding %s, want that of gpt-4", m.encoding)
	}
	if m := resolve(c, Rules{}); m.name != "smart" {
		t.Errorf("model %q, want the call's", m.name)
	}
}

func TestVersionsAreReadFromNames(t *testing.T) {
	for name, want := range map[string][2]int{
		"claude-opus-4-7-20260416": {4, 7}, "claude-sonnet-5": {5, 0}, "claude-3-5-sonnet-20241022": {3, 5},
		"gemini-3-pro": {3, 0}, "gemini-2.5-flash": {2, 5}, "gpt-5.6": {5, 6}, "gpt-5-2025-08-07": {5, 0}, "claude": {0, 0},
	} {
		if a, b := version(name); a != want[0] || b != want[1] {
			t.Errorf("%s: %d.%d, want %d.%d", name, a, b, want[0], want[1])
		}
	}
}

func TestFactorsWeighTheClassesOfText(t *testing.T) {
	m := resolve(nil, Rules{Model: "gemini-2.5-pro"})
	for text, want := range map[string]float64{
		"plain English words": m.factors[latin], "1234567890": m.factors[digit], "русскийтекст": m.factors[wide], "漢字かな交じり": m.factors[cjk],
		"ab12": (m.factors[latin] + m.factors[digit]) / 2, "": m.factors[latin],
	} {
		var n tally
		n.classify([]byte(text))
		if got := m.factors.of(n.bytes); got < want-1e-9 || got > want+1e-9 {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestNewerClaudesCountMore(t *testing.T) {
	text := "Summarise the quarterly report in three sentences, please."
	var last int
	for _, name := range []string{"gpt-4o", "claude-sonnet-4-6", "claude-opus-4-7"} {
		n := int(New(Config{}).Counter(Rules{Model: name})([]byte(text)))
		if n <= last {
			t.Errorf("%s: %d tokens, want more than %d", name, n, last)
		}
		last = n
	}
}
