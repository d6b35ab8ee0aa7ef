// Package gemini is the API of Google's Gemini. It speaks no HTTP.
//
// This file has the Dialect and reads requests, prepare.go makes outbound ones,
// answers.go says how answers are read, and refuse.go writes the gateway's own
// answers.
package gemini

import (
	"net/url"
	"strings"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/request"
	"llmgw/internal/dialect/watch"
	"llmgw/internal/fault"
	"llmgw/internal/tokens"
)

// Name is the dialect's name.
const Name = "gemini"

// Dialect is Gemini's API. The zero Dialect is ready to use.
type Dialect struct{}

// New returns the dialect.
func New() dialect.Dialect { return Dialect{} }

// Name implements dialect.Dialect.
func (Dialect) Name() string { return Name }

// models is the part of a path before a model and its action, behind a version.
const models = "/models/"

// versions are those that clients have in front of it. The first is what goes to
// a provider where the client sent none.
var versions = []string{"/v1beta", "/v1alpha", "/v1", ""}

// Endpoints implements dialect.Dialect.
func (Dialect) Endpoints() []dialect.Endpoint {
	var all []dialect.Endpoint
	for i, version := range versions {
		for _, e := range actions {
			all = append(all, dialect.Endpoint{Method: "POST", Pattern: version + models + ":model:" + e.name, Operation: e.operation, Alias: i > 0})
		}
	}
	return all
}

// The actions of a model that produce text.
const (
	generate       = "generateContent"
	streamGenerate = "streamGenerateContent"
)

// actions are what is done with a model: they stand behind it in the last
// segment of a path.
var actions = []struct {
	name      string
	operation dialect.Operation
}{
	{generate, dialect.Chat},
	{streamGenerate, dialect.Chat},
	{"countTokens", dialect.CountTokens},
	{"embedContent", dialect.Embeddings},
	{"batchEmbedContents", dialect.Embeddings},
}

// split takes a path apart into its version, its model, decoded, and action.
func split(path string) (version, model, action string, ok bool) {
	version, rest, ok := strings.Cut(path, models)
	if !ok {
		return "", "", "", false
	}
	// Some clients escape the colon.
	plain, err := url.PathUnescape(rest)
	if err != nil {
		return "", "", "", false
	}
	i := strings.LastIndexByte(plain, ':')
	if i < 0 {
		return "", "", "", false
	}
	return version, plain[:i], plain[i+1:], true
}

// Parse implements dialect.Dialect.
func (Dialect) Parse(r dialect.Request) (*dialect.Call, error) {
	_, model, action, ok := split(r.Path)
	if !ok {
		return nil, &fault.Error{Code: fault.NotFound, Message: "The path names no model and what to do with it.", NoRetry: true}
	}
	if err := request.CheckModel(model); err != nil {
		return nil, err
	}
	if err := checkForm(r.Query); err != nil {
		return nil, err
	}
	b, err := request.Read(r)
	if err != nil {
		return nil, err
	}
	c := &dialect.Call{Request: r, Dialect: Name, Model: model, Choices: 1, BodyObject: b.Object, Members: b.Members}
	switch r.Endpoint.Operation {
	case dialect.CountTokens:
		c.NoOutput, c.RequestsOnly = true, true
	case dialect.Embeddings:
		c.NoOutput = true
	default:
		c.Stream = action == streamGenerate
		c.MaxOutputParam = "generationConfig.maxOutputTokens"
		err = parseConfig(c, b)
	}
	return c, err
}

// configs are the two names that the JSON of protocol buffers has for one
// field; both count, as do both of each field within.
var configs = [...]string{"generationConfig", "generation_config"}

func parseConfig(c *dialect.Call, b request.Body) error {
	for _, name := range configs {
		config, ok, err := b.Within(name)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		most, bounded, err := largest(config, name, "maxOutputTokens", "max_output_tokens")
		if err != nil {
			return err
		}
		if bounded {
			c.MaxOutput, c.HasMaxOutput = max(c.MaxOutput, most), true
		}
		n, several, err := largest(config, name, "candidateCount", "candidate_count")
		if err != nil {
			return err
		}
		if several {
			c.Choices = max(c.Choices, n)
		}
	}
	return nil
}

func largest(b request.Body, within string, keys ...string) (n tokens.Count, ok bool, err error) {
	for _, key := range keys {
		v, has, err := b.NumberAs(key, within+"."+key, request.FromOne)
		if err != nil {
			return 0, false, err
		}
		if has {
			n, ok = max(n, v), true
		}
	}
	return n, ok, nil
}

// Meter implements dialect.Dialect.
func (Dialect) Meter(c *dialect.Call, a dialect.Answer, o dialect.MeterOptions) dialect.Meter {
	if c.Endpoint.Operation == dialect.CountTokens {
		return watch.New(counted, c, a, o)
	}
	return watch.New(generated, c, a, o)
}
