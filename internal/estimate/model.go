package estimate

import (
	"strings"

	"llmgw/internal/dialect"
	"llmgw/internal/estimate/bpe"
)

// family is whose tokenizer and rules a model has.
type family uint8

const (
	openAI family = iota
	claude
	gemini
	llama
	qwen
	deepSeek
	mistral
	unknown
)

// model is what counting needs to know of a model.
type model struct {
	name     string // as the provider names it
	key      uint64 // differs where counts do
	family   family
	exact    bool // the encoding is the model's own: nothing to learn
	encoding string
	factors  factors
	chat     chatFormat
	images   imageRule
}

// chatFormat is what a chat adds to the text of its messages, in tokens.
type chatFormat struct {
	message int // for each message, without its role
	name    int // for each name, beside its text
	reply   int // once, to prime the answer
	tools   int // once, if there are tools or functions
	// forcedTools replaces tools when a tool must be called; 0: the same.
	forcedTools int
	call        int // for each tool call, beside its text
	// typescript says that functions are shown to the model as declarations in
	// TypeScript, else as JSON.
	typescript bool
}

// resolve finds out about the model that a call goes to.
func resolve(c *dialect.Call, rules Rules) model {
	name := rules.ProviderModel
	if name == "" {
		name = rules.clientModel(c)
	}
	m := model{name: name}
	short := shortName(name)
	m.encoding = encodingOf(short)
	m.family = familyOf(short, rules)
	known := m.encoding != ""
	m.exact = m.family == openAI && (known || rules.Encoding != "")
	if rules.Encoding != "" {
		m.encoding = rules.Encoding
		if m.family == unknown {
			m.exact = true
		}
	}
	if m.encoding == "" {
		m.encoding = "o200k_base"
	}
	m.factors = startFactors(m, short)
	m.chat = chatFormatOf(m.family, short)
	m.images = imageRuleOf(m.family, short)
	m.key = stringKey(short) ^ stringKey(m.encoding)<<1 ^ uint64(m.family)
	return m
}

// shortName is a model's name without what providers and routers put before
// it: models/, openai/, us.anthropic., ft:.
func shortName(name string) string {
	name = strings.ToLower(name)
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		name = name[i+1:]
	}
	name = strings.TrimPrefix(name, "ft:")
	if i := strings.Index(name, "claude"); i > 0 {
		name = name[i:]
	}
	return name
}

// encodings lead from the start of a model's name to its encoding; the longest
// start counts, and a part of the name must end where it ends.
var encodings = map[string]string{
	"gpt-5": "o200k_base", "gpt-4.5": "o200k_base", "gpt-4.1": "o200k_base", "gpt-4o": "o200k_base",
	"gpt4o": "o200k_base", "chatgpt-": "o200k_base", "gpt-oss": "o200k_base", "o1": "o200k_base",
	"o3": "o200k_base", "o4": "o200k_base", "codex-": "o200k_base", "computer-use": "o200k_base",
	"gpt-image": "o200k_base", "gpt-realtime": "o200k_base", "gpt-audio": "o200k_base", "omni-moderation": "o200k_base",
	"gpt-": "o200k_base", // what is to come

	"gpt-4": "cl100k_base", "gpt-3.5": "cl100k_base", "gpt-35": "cl100k_base",
	"text-embedding-": "cl100k_base", "davinci-002": "cl100k_base", "babbage-002": "cl100k_base",
	"text-moderation": "cl100k_base",

	"text-davinci-003": "p50k_base", "text-davinci-002": "p50k_base", "text-davinci-edit": "p50k_base",
	"code-davinci": "p50k_base", "code-cushman": "p50k_base",

	"davinci": "r50k_base", "curie": "r50k_base", "babbage": "r50k_base", "ada": "r50k_base",
	"text-davinci-001": "r50k_base", "text-curie": "r50k_base", "text-babbage": "r50k_base", "text-ada": "r50k_base",
	"gpt2": "r50k_base", "gpt-2": "r50k_base",
}

// encodingOf returns the encoding of one of OpenAI's models, or "".
func encodingOf(short string) string {
	for n := min(len(short), 17); n >= 2; n-- {
		if e, ok := encodings[short[:n]]; ok && (short[n-1] == '-' || n == len(short) || strings.IndexByte("-:@_", short[n]) >= 0) {
			return e
		}
	}
	return ""
}

// EncodingFor returns the encoding that a model's name implies: o200k_base for
// names that are not known.
func EncodingFor(name string) string {
	if e := encodingOf(shortName(name)); e != "" {
		return e
	}
	return "o200k_base"
}

// KnownEncoding tells whether Rules.Encoding may be this name.
func KnownEncoding(name string) bool { return bpe.Known(name) }

var familyWords = []struct {
	word   string
	family family
}{
	{"claude", claude},
	{"gemini", gemini}, {"gemma", gemini}, {"learnlm", gemini},
	{"deepseek", deepSeek}, {"qwen", qwen}, {"qwq", qwen}, {"llama", llama},
	{"mistral", mistral}, {"mixtral", mistral}, {"codestral", mistral}, {"ministral", mistral},
	{"magistral", mistral}, {"pixtral", mistral}, {"devstral", mistral},
}

// familyOf tells the family by the name, else by the provider.
func familyOf(short string, rules Rules) family {
	if encodingOf(short) != "" {
		return openAI
	}
	for _, f := range familyWords {
		if strings.Contains(short, f.word) {
			return f.family
		}
	}
	switch rules.Dialect {
	case "anthropic":
		return claude
	case "gemini":
		return gemini
	case "azure":
		return openAI
	case "openai", "":
		switch rules.Flavor {
		case "", "openai":
			return openAI
		case "mistral":
			return mistral
		case "deepseek":
			return deepSeek
		}
	}
	return unknown
}

// version returns the first two small numbers of a model's name: 4, 7 of
// claude-opus-4-7-20260416; 3, 0 of gemini-3-pro.
func version(short string) (major, minor int) {
	found := 0
	for i := 0; i < len(short) && found < 2; {
		if short[i] < '0' || short[i] > '9' {
			i++
			continue
		}
		n, start := 0, i
		for ; i < len(short) && short[i] >= '0' && short[i] <= '9'; i++ {
			n = min(n*10+int(short[i]-'0'), 1e6)
		}
		if i-start > 2 {
			break // a date, and what is left belongs to it
		}
		if found == 0 {
			major = n
		} else {
			minor = n
		}
		found++
	}
	return major, minor
}

// since tells whether a name's version is at least major.minor.
func since(short string, major, minor int) bool {
	a, b := version(short)
	return a > major || a == major && b >= minor
}

func chatFormatOf(f family, short string) chatFormat {
	switch f {
	case claude:
		auto, forced := claudeTools(short)
		return chatFormat{message: 3, reply: 2, tools: auto, forcedTools: forced, call: 12}
	case gemini:
		return chatFormat{message: 1, call: 8}
	}
	o := chatFormat{message: 3, name: 1, reply: 3, tools: 9, call: 3, typescript: true}
	switch {
	case strings.HasPrefix(short, "gpt-3.5-turbo-0301"):
		o.message, o.name = 4, -1
	case strings.HasPrefix(short, "o1"), strings.HasPrefix(short, "o3"), strings.HasPrefix(short, "o4"):
		o.reply, o.tools = 2, 12
	case strings.HasPrefix(short, "gpt-oss"):
		o.reply, o.tools = 2, 17
	case strings.HasPrefix(short, "gpt-5"):
		o.reply, o.tools = 2, 17
		if since(short, 5, 1) {
			o.tools = 96
		}
	}
	return o
}

// claudeTools is what Anthropic adds to a request with tools: when the model
// may choose, and when it must use one.
func claudeTools(short string) (auto, forced int) {
	major, minor := version(short)
	switch {
	case major >= 5:
		return 354, 474
	case major == 4 && minor >= 8:
		return 290, 410
	case major == 4 && minor == 7:
		return 675, 804
	case major == 4 && minor == 6:
		return 497, 589
	case major == 4 && minor == 5 && strings.Contains(short, "opus"):
		return 496, 588
	}
	return 346, 313
}

// factors lead from tokens of o200k_base to those of another model, by class
// of text.
type factors [classes]float64

// startFactors are what published vocabularies and measurements give; what
// they miss is learned.
func startFactors(m model, short string) factors {
	switch m.family {
	case openAI:
		return factors{1, 1, 1, 1}
	case claude:
		if since(short, 4, 7) {
			return factors{latin: 1.6, digit: 1.3, wide: 2.5, cjk: 1.5}
		}
		return factors{latin: 1.2, digit: 1.3, wide: 2.5, cjk: 1.5}
	case gemini:
		return factors{latin: 1.1, digit: 2.2, wide: 1.05, cjk: 0.85}
	case llama:
		return factors{latin: 1, digit: 1, wide: 1.2, cjk: 1}
	case qwen:
		return factors{latin: 1, digit: 2.2, wide: 1.2, cjk: 0.9}
	case deepSeek:
		return factors{latin: 1.05, digit: 1, wide: 1.15, cjk: 0.85}
	case mistral:
		return factors{latin: 1.05, digit: 2.2, wide: 1.1, cjk: 1.15}
	}
	if m.exact {
		return factors{1, 1, 1, 1}
	}
	return factors{latin: 1.1, digit: 1.5, wide: 1.3, cjk: 1.1}
}

// of is the factor of a text with so many bytes of each class.
func (f factors) of(bytes [classes]int) float64 {
	total, sum := 0, 0.0
	for c, n := range bytes {
		total += n
		sum += f[c] * float64(n)
	}
	if total == 0 {
		return f[latin]
	}
	return sum / float64(total)
}
