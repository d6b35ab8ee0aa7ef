package estimate

// encodings lead from the start of the name of one of OpenAI's models to its
// encoding.
var encodings = map[string]string{
	"gpt-":  "o200k_base", // all but those below, and what is to come
	"gpt4o": "o200k_base", "chatgpt-": "o200k_base", "o1": "o200k_base", "o3": "o200k_base", "o4": "o200k_base",
	"codex-": "o200k_base", "computer-use": "o200k_base", "omni-moderation": "o200k_base",

	"gpt-4": "cl100k_base", "gpt-3.5": "cl100k_base", "gpt-35": "cl100k_base",
	"text-embedding-": "cl100k_base", "davinci-002": "cl100k_base", "babbage-002": "cl100k_base",
	"text-moderation": "cl100k_base",

	"text-davinci-003": "p50k_base", "text-davinci-002": "p50k_base", "text-davinci-edit": "p50k_base",
	"code-davinci": "p50k_base", "code-cushman": "p50k_base",

	"davinci": "r50k_base", "curie": "r50k_base", "babbage": "r50k_base", "ada": "r50k_base",
	"text-similarity": "r50k_base", "text-search": "r50k_base", "code-search": "r50k_base", // the first embeddings
	"text-davinci-001": "r50k_base", "text-curie": "r50k_base", "text-babbage": "r50k_base", "text-ada": "r50k_base",
	"gpt2": "r50k_base", "gpt-2": "r50k_base",
}

// vendorEncodings are those of other providers' models, as far as it is known
// which tokenizer a model has; "" says that it is not, where a shorter start
// would say something else.
var vendorEncodings = map[string]string{
	"qwen1.5": "qwen3", "qwen2": "qwen3", "qwen2.5": "qwen3", "qwen2.5vl": "qwen3", "qwen3": "qwen3", "qwq": "qwen3", "qwen.qwen3": "qwen3",

	"deepseek-chat": "deepseek_v3", "deepseek-reasoner": "deepseek_v3", "deepseek-v3": "deepseek_v3", "deepseek-v3.1": "deepseek_v3",
	"deepseek-v3.2": "deepseek_v3", "deepseek-r1": "deepseek_v3", "deepseek.v3": "deepseek_v3", "deepseek.r1": "deepseek_v3",
	"deepseek-r1:":             "", // small models that learned from its answers; but not the whole one:
	"deepseek-r1:671b":         "deepseek_v3",
	"deepseek-r1-distill":      "",
	"deepseek-r1-distill-qwen": "qwen3", "deepseek-r1-0528-qwen3": "qwen3",

	"mistral-nemo": "tekken", "open-mistral-nemo": "tekken", "ministral-3": "tekken", "ministral-3b": "tekken", "ministral-8b": "tekken",
	"ministral-14b": "tekken", "mistral.ministral-3": "tekken", "pixtral-12b": "tekken", "magistral": "tekken", "magistral-small": "tekken",
	"mistral-small-2501": "tekken", "mistral-small-2503": "tekken", "mistral-small-2506": "tekken", "mistral-small3.1": "tekken",
	"mistral-small3.2": "tekken", "mistral-small-24b": "tekken", "mistral-small-3.1": "tekken", "mistral-small-3.2": "tekken",
	"devstral": "tekken", "devstral-small": "tekken",
}

// vendors are the families that have an encoding of their own.
var vendors = map[string]family{"qwen3": qwen, "deepseek_v3": deepSeek, "tekken": mistral}

// encodingOf returns the encoding that is a model's own, or "".
func encodingOf(short string) string {
	if e := lookUp(encodings, short); e != "" {
		return e
	}
	return lookUp(vendorEncodings, short)
}

// lookUp returns what the longest start of a name leads to; a part of the name
// must end where it ends.
func lookUp(encodings map[string]string, short string) string {
	for n := min(len(short), longestStart); n >= 2; n-- {
		if n < len(short) && !endsPart(short[n]) && !endsPart(short[n-1]) {
			continue
		}
		if e, ok := encodings[short[:n]]; ok {
			return e
		}
	}
	return ""
}

// endsPart tells whether a part of a name ends at b.
func endsPart(b byte) bool { return b == '-' || b == ':' || b == '@' || b == '_' }

// longestStart is at least the length of the longest of these starts.
const longestStart = 24

// EncodingFor returns the encoding that a model's name implies: o200k_base for
// names that are not known.
func EncodingFor(name string) string {
	if e := encodingOf(shortName(name)); e != "" {
		return e
	}
	return "o200k_base"
}

// Encodings are the names that Rules.Encoding may have. It must not be changed.
var Encodings = []string{"o200k_base", "cl100k_base", "p50k_base", "p50k_edit", "r50k_base", "qwen3", "deepseek_v3", "tekken"}
