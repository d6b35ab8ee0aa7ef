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

// prefix is the path before a model and its action.
const prefix = "/v1beta/models/"

// Endpoints implements dialect.Dialect.
func (Dialect) Endpoints() []dialect.Endpoint {
	return []dialect.Endpoint{
		of(generate, dialect.Chat),
		of(streamGenerate, dialect.Chat),
		of("countTokens", dialect.CountTokens),
		of("embedContent", dialect.Embeddings),
		of("batchEmbedContents", dialect.Embeddings),
	}
}

// The actions of a model that produce text.
const (
	generate       = "generateContent"
	streamGenerate = "streamGenerateContent"
)

// of is the endpoint of an action, which stands in the last segment, behind the
// model.
func of(action string, o dialect.Operation) dialect.Endpoint {
	return dialect.Endpoint{Method: "POST", Pattern: prefix + ":model:" + action, Operation: o}
}

// split takes a path apart into its model, decoded, and action.
func split(path string) (model, action string, ok bool) {
	rest, ok := strings.CutPrefix(path, prefix)
	if !ok {
		return "", "", false
	}
	// Some clients escape the colon.
	plain, err := url.PathUnescape(rest)
	if err != nil {
		return "", "", false
	}
	i := strings.LastIndexByte(plain, ':')
	if i < 0 {
		return "", "", false
	}
	return plain[:i], plain[i+1:], true
}

// Parse implements dialect.Dialect.
func (Dialect) Parse(r dialect.Request) (*dialect.Call, error) {
	model, action, ok := split(r.Path)
	if !ok {
		return nil, &fault.Error{Code: fault.NotFound, Message: "The path names no model and what to do with it.", NoRetry: true}
	}
	if err := request.CheckModel(model); err != nil {
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
