// Package estimate says what a request will cost before it is sent: the tokens
// of its prompt, and the most (or the likely) tokens of its answer. It reads
// the request's body as it came, counts the text of models whose vocabulary is
// public exactly and that of others by a factor, and learns from what answers
// really used. It reserves nothing, sends nothing and knows no HTTP.
//
// estimate.go has the types and the order of work; model.go knows models, and
// encoding.go, chatformat.go and factor.go how each counts; read.go,
// sections.go, message.go, content.go, duplicate.go, together.go, tools.go and
// schema.go read bodies; image.go, imagerule.go, media.go, picture.go and speech.go price what
// is no text; text.go counts, sample.go bounds that, cache.go and history.go
// remember it; priced.go finds what is billed besides; observe.go, ratio.go, output.go, hidden.go, unseen.go and
// state.go learn. Package bpe
// below has the tokenizers.
package estimate

import (
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"sync"
	"time"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/registry"
	"llmgw/internal/estimate/bpe"
	"llmgw/internal/tokens"
)

// Config bounds an Estimator. The zero Config has the defaults.
type Config struct {
	// ExactBytes is how much text of one request is counted; of what is beyond
	// it samples are. 0: 8 MiB.
	ExactBytes int
	// LargeBytes is how much text may be counted (not what is remembered) before
	// a request is large. Of large ones only LargeAtOnce are counted at a time.
	// 0: 256 KiB.
	LargeBytes int
	// LargeAtOnce is how many large requests are counted at a time. 0: half of
	// the cores, at least 1.
	LargeAtOnce int
	// LargeWait is how long a large request waits for its turn before it is
	// sampled instead. 0: 1 s.
	LargeWait time.Duration
	// CacheEntries is how many messages are remembered. 0: 16,384 (2 MB).
	CacheEntries int
	// LearnedModels bounds the models, and the pairs of team and model, that are
	// learned about. 0: DefaultOutput.
	LearnedModels int
}

func (c Config) withDefaults() Config {
	set := func(n *int, value int) {
		if *n <= 0 {
			*n = value
		}
	}
	set(&c.ExactBytes, 8<<20)
	set(&c.LargeBytes, 256<<10)
	set(&c.LargeAtOnce, max(1, runtime.GOMAXPROCS(0)/2))
	set(&c.CacheEntries, 16<<10)
	set(&c.LearnedModels, 4096)
	if c.LargeWait <= 0 {
		c.LargeWait = time.Second
	}
	return c
}

// Rules is what the configuration says of one model at one provider.
type Rules struct {
	Provider      string // its name
	ProviderModel string // the model as the provider names it; empty: Model
	Model         string // the model as clients name it; empty: the call's
	Dialect       string // of the provider
	Flavor        string // of the openai dialect
	// Encoding overrides what follows from the model's name.
	Encoding string
	// DefaultMaxOutput is reserved for a request that bounds nothing. 0: DefaultOutput.
	DefaultMaxOutput tokens.Count
	// MaxOutput is the most that is reserved for one choice. 0: no such bound.
	MaxOutput tokens.Count
	// Learned reserves what this team's answers really need, where that is
	// known and less (reserve_output: learned).
	Learned bool
	Team    string
}

// Estimate is what a request is expected to cost.
type Estimate struct {
	Input  tokens.Count // with the margin that learning asks for
	Output tokens.Count // reserved for all choices together
	Parts  Parts
	// MaxOutput is the most output that the request allows for one choice,
	// whatever answers were seen to need.
	MaxOutput tokens.Count
	// Sampled says that part of the text was extrapolated, not counted.
	Sampled bool
	// Allows is what the request may be billed for beyond plain tokens.
	Allows tokens.Allows

	base   tokens.Count // input before anything learned
	class  string       // of its text, where that matters
	hidden bool         // the model reads more than the body shows
	kinds  hiddenKinds
}

// Total is Input + Output.
func (e Estimate) Total() tokens.Count { return tokens.Add(e.Input, e.Output) }

// MarshalJSON gives the estimate the form that people are shown.
func (e Estimate) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Input   tokens.Count `json:"input_tokens"`
		Output  tokens.Count `json:"output_tokens"`
		Total   tokens.Count `json:"total_tokens"`
		Parts   Parts        `json:"parts"`
		Sampled bool         `json:"sampled,omitempty"`
	}{e.Input, e.Output, e.Total(), e.Parts, e.Sampled})
}

// teaches tells whether what was used says something about the text that was
// counted: not with media, or context that the provider adds.
func (e Estimate) teaches() bool {
	return !e.Sampled && !e.hidden && e.Parts.Images == 0 && e.Parts.Media == 0
}

// Parts is what an estimate is made of, in the model's own tokens. The input is
// ⌈(Text + Messages + Tools) × Factor⌉ + Images + Media + Hidden.
type Parts struct {
	Text     tokens.Count `json:"text"`     // of messages, names, calls and results
	Messages tokens.Count `json:"messages"` // what the chat format adds
	Tools    tokens.Count `json:"tools"`    // tools, functions and schemas
	Images   tokens.Count `json:"images"`
	Media    tokens.Count `json:"media"` // audio, video and files
	// Factor is what was learned of the model, with its margin: 1 for models
	// whose tokens we count exactly, and for those that are new.
	Factor float64 `json:"factor"`
	// Hidden is input that the provider is likely to add: stored conversations,
	// and what its tools find.
	Hidden tokens.Count `json:"hidden,omitempty"`
	Output tokens.Count `json:"output"` // for each choice
}

// input is the sum of the parts that are input.
func (p Parts) input() tokens.Count {
	text := scale(tokens.Add(tokens.Add(p.Text, p.Messages), p.Tools), p.Factor)
	return tokens.Add(text, tokens.Add(tokens.Add(p.Images, p.Media), p.Hidden))
}

// Estimator estimates requests. It is safe for concurrent use.
type Estimator struct {
	config  Config
	cache   *cache
	ratios  *ratios
	outputs *outputs
	hidden  *outputs // by the kinds of hidden input
	unseen  *unseens
	readers sync.Pool
	large   chan struct{} // holds a value for each large request being counted
	helpers chan struct{} // holds a value for each further core that counts
}

// New returns an Estimator that has learned nothing yet. It starts no
// goroutine. Encodings are built when first used; see Warm.
func New(c Config) *Estimator {
	c = c.withDefaults()
	return &Estimator{
		config:  c,
		cache:   newCache(c.CacheEntries),
		ratios:  newRatios(c.LearnedModels),
		outputs: newOutputs(c.LearnedModels),
		hidden:  newOutputs(c.LearnedModels),
		unseen:  newUnseens(c.LearnedModels),
		readers: sync.Pool{New: func() any { return new(reader) }},
		large:   make(chan struct{}, c.LargeAtOnce),
		helpers: make(chan struct{}, runtime.GOMAXPROCS(0)-1),
	}
}

// Warm builds encodings before they are needed: those of the names, or OpenAI's
// two current ones without any. It blocks for some tenths of a second; start it
// in a goroutine to let the program start meanwhile.
func (e *Estimator) Warm(encodings ...string) error {
	if len(encodings) == 0 {
		encodings = []string{"o200k_base", "cl100k_base"}
	}
	for _, name := range encodings {
		if _, err := bpe.Get(name); err != nil {
			return fmt.Errorf("warm up: %w", err)
		}
	}
	return nil
}

// Estimate says what a call is expected to cost under the rules of one model.
// It never panics, whatever the body, and counts what can be read of a broken
// one. The error is for an unknown encoding. A large request may wait for others.
func (e *Estimator) Estimate(c *dialect.Call, rules Rules) (Estimate, error) {
	m := resolve(c, rules)
	t, err := e.read(c, m)
	if err != nil {
		return Estimate{}, fmt.Errorf("estimate model %q: %w", m.name, err)
	}
	return e.priced(c, &rules, &m, &t), nil
}

// EstimateEach is Estimate under the rules of each of several models that may
// serve the call. The body is read once for all that count alike.
func (e *Estimator) EstimateEach(c *dialect.Call, rules []Rules) ([]Estimate, error) {
	models := make([]model, len(rules))
	for i, r := range rules {
		models[i] = resolve(c, r)
	}
	out := make([]Estimate, len(rules))
	done := make([]bool, len(rules))
	for i, m := range models {
		if done[i] {
			continue
		}
		for j := i + 1; j < len(models); j++ {
			if models[j].countsLike(&m) {
				m.exact = m.exact && models[j].exact
			}
		}
		if m.exact != models[i].exact {
			m.key ^= inexactKey
		}
		t, err := e.read(c, m)
		if err != nil {
			return nil, fmt.Errorf("estimate model %q: %w", m.name, err)
		}
		for j := i; j < len(models); j++ {
			if models[j].countsLike(&m) {
				out[j], done[j] = e.priced(c, &rules[j], &models[j], &t), true
			}
		}
	}
	return out, nil
}

// priced is the estimate of what was counted for a model.
func (e *Estimator) priced(c *dialect.Call, rules *Rules, m *model, t *tally) Estimate {
	parts := t.parts(m.factors.of(t.bytes))
	out := Estimate{Parts: parts, Sampled: t.sampled, Allows: allows(c, rules, t), base: parts.input(), hidden: t.hidden != 0, kinds: t.hidden}
	if !m.exact {
		out.class = dominant(t.bytes)
		factor := e.ratios.reserve(ratioKey{rules.Provider, m.name, out.class, rules.Team})
		out.Parts.Factor = math.Round(factor*1e4) / 1e4
	}
	out.Parts.Hidden = e.hiddenInput(rules.Team, rules.clientModel(c), t.hidden)
	out.Input = out.Parts.input()
	out.MaxOutput = rules.mostOutput(c, m.name)
	out.Parts.Output = out.MaxOutput
	if rules.Learned {
		if likely, ok := e.outputs.likely(outputKey{rules.Team, rules.clientModel(c), 0}, outputEnough); ok {
			out.Parts.Output = min(out.MaxOutput, likely)
		}
	}
	out.Output = tokens.Mul(out.Parts.Output, max(1, c.Choices))
	return out
}

// DefaultOutput is reserved when neither the request nor the rules say more.
const DefaultOutput tokens.Count = 4096

// mostOutput is the most output that a call allows for one choice of a model, as
// the provider names it.
func (r *Rules) mostOutput(c *dialect.Call, name string) tokens.Count {
	if c.NoOutput || c.RequestsOnly {
		return 0
	}
	bound := r.DefaultMaxOutput
	if bound <= 0 {
		bound = DefaultOutput
	}
	if c.Bounded(registry.Flavor(r.Dialect, r.Flavor)) {
		bound = max(0, c.MaxOutput)
	}
	if n, ok := ruledOutput(c, name); ok {
		bound = n
	}
	if r.MaxOutput > 0 {
		bound = min(bound, r.MaxOutput)
	}
	return bound
}

// ruledOutput is the output that a model has a rule for: that of pictures and of
// speech, where one is known.
func ruledOutput(c *dialect.Call, name string) (tokens.Count, bool) {
	switch c.Endpoint.Operation {
	case dialect.Images:
		return pictureOutput(name, c.Picture)
	case dialect.Speech:
		return speechOutput(name, c)
	}
	return 0, false
}

func (r Rules) clientModel(c *dialect.Call) string {
	if r.Model == "" && c != nil {
		return c.Model
	}
	return r.Model
}

// Counter returns a function that counts the tokens of what a model produced,
// with the factor of its text and what was learned, without margin.
// It is safe for concurrent use.
func (e *Estimator) Counter(rules Rules) dialect.Counter {
	c := &counter{estimator: e, model: resolve(nil, rules), provider: rules.Provider, team: rules.Team}
	return c.count
}

// counter counts the output of one model.
type counter struct {
	estimator      *Estimator
	model          model
	provider, team string
}

func (c *counter) count(text []byte) tokens.Count {
	if len(text) == 0 {
		return 0
	}
	m := &c.model
	enc, err := bpe.Get(m.encoding)
	if err != nil {
		return tokens.Count(len(text)+3) / 4 // an unknown encoding is refused long before
	}
	n := enc.Count(text)
	if m.exact {
		return tokens.Count(n)
	}
	var t tally
	t.classify(text)
	return scale(n, m.factors.of(t.bytes)*c.estimator.ratios.expect(ratioKey{c.provider, m.name, dominant(t.bytes), c.team}))
}
