package estimate

import (
	"strings"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/registry"
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
	exact    bool // text and what is around it are counted exactly: nothing to learn
	own      bool // text is: the encoding is the model's own
	encoding string
	factors  factors
	chat     chatFormat
	images   imageRule
}

// resolve finds out about the model that a call goes to.
func resolve(c *dialect.Call, rules Rules) model {
	name := rules.ProviderModel
	if name == "" {
		name = rules.clientModel(c)
	}
	m := model{name: name}
	short := shortName(name)
	m.encoding = lookUp(encodings, short)
	m.exact = m.encoding != ""
	if !m.exact {
		m.encoding = lookUp(vendorEncodings, short)
		m.family = familyOf(short, rules)
		m.exact = m.family == openAI && rules.Encoding != ""
	}
	if rules.Encoding != "" {
		m.encoding = rules.Encoding
		m.exact = m.exact || m.family == unknown
	}
	if m.encoding == "" {
		m.encoding = "o200k_base"
	}
	if own, ok := vendors[m.encoding]; ok {
		m.family, m.own, m.exact = own, true, false
	}
	m.factors = startFactors(m, short)
	m.chat = chatFormatOf(m.family, short)
	m.images = imageRuleOf(m.family, short)
	m.key = stringKey(short) ^ stringKey(m.encoding)<<1 ^ uint64(m.family)
	if !m.exact {
		m.key ^= inexactKey
	}
	return m
}

// inexactKey sets apart what is remembered where more is counted: the classes of
// text, which models that are counted exactly do not need.
const inexactKey = 0x9e3779b97f4a7c15

// countsLike tells whether a body has the same tally for both models, but for
// what only inexact ones need.
func (m *model) countsLike(other *model) bool {
	return m.encoding == other.encoding && m.family == other.family && m.chat == other.chat && m.images == other.images
}

// shortName is a model's name without what providers and routers put before
// it: models/, openai/, us.anthropic., us.openai., ft:.
func shortName(name string) string {
	name = strings.ToLower(name)
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		name = name[i+1:]
	}
	name = strings.TrimPrefix(name, "ft:")
	if i := strings.Index(name, "claude"); i > 0 {
		name = name[i:]
	}
	if _, own, ok := strings.Cut(name, "openai."); ok {
		name = own
	}
	return name
}

// fromGPT5 tells whether a model is a GPT of the fifth generation or a later one.
func fromGPT5(short string) bool {
	version, ok := strings.CutPrefix(short, "gpt-")
	return ok && version != "" && version[0] >= '5' && version[0] <= '9'
}

var familyWords = []struct {
	word   string
	family family
}{
	{"distill-llama", llama}, {"distill-qwen", qwen}, {"0528-qwen3", qwen}, // of another's answers
	{"claude", claude},
	{"gemini", gemini}, {"gemma", gemini}, {"learnlm", gemini},
	{"deepseek", deepSeek}, {"qwen", qwen}, {"qwq", qwen}, {"llama", llama},
	{"mistral", mistral}, {"mixtral", mistral}, {"codestral", mistral}, {"ministral", mistral},
	{"magistral", mistral}, {"pixtral", mistral}, {"devstral", mistral},
}

// familyOf returns the family of a model that has no name of OpenAI's: by its
// name, else by what the provider serves.
func familyOf(short string, rules Rules) family {
	serves := registry.Flavor(rules.Dialect, rules.Flavor).Models
	for _, name := range [...]string{short, serves} {
		for _, f := range familyWords {
			if strings.Contains(name, f.word) {
				return f.family
			}
		}
	}
	if serves == "gpt" {
		return openAI
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
