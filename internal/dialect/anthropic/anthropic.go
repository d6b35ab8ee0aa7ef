// Package anthropic is the API of Anthropic's messages. It speaks no HTTP.
//
// This file has the Dialect with its requests, answers.go says how answers are
// read, and refuse.go writes the gateway's own answers.
package anthropic

import (
	"llmgw/internal/dialect"
	"llmgw/internal/dialect/request"
	"llmgw/internal/dialect/watch"
	"llmgw/internal/fault"
)

// Name is the dialect's name.
const Name = "anthropic"

// Dialect is Anthropic's API. The zero Dialect is ready to use.
type Dialect struct{}

// New returns the dialect.
func New() dialect.Dialect { return Dialect{} }

// Name implements dialect.Dialect.
func (Dialect) Name() string { return Name }

// The paths, which the official client joins to a base URL without a version.
const (
	pathMessages = "/v1/messages"
	pathCount    = "/v1/messages/count_tokens"
)

// Endpoints implements dialect.Dialect.
func (Dialect) Endpoints() []dialect.Endpoint {
	return []dialect.Endpoint{
		{Method: "POST", Pattern: pathMessages, Operation: dialect.Chat},
		{Method: "POST", Pattern: pathCount, Operation: dialect.CountTokens},
	}
}

// Parse implements dialect.Dialect.
func (Dialect) Parse(r dialect.Request) (*dialect.Call, error) {
	b, err := request.Read(r)
	if err != nil {
		return nil, err
	}
	c := &dialect.Call{Request: r, Dialect: Name, Choices: 1, BodyObject: b.Object, Members: b.Members}
	c.User, c.Session = b.User()
	if c.Model, c.ModelSpan, err = b.Model(); err != nil {
		return nil, err
	}
	if r.Endpoint.Operation == dialect.CountTokens {
		c.NoOutput, c.RequestsOnly = true, true
		return c, nil
	}
	if c.Stream, err = b.Stream(request.Off); err != nil {
		return nil, err
	}
	c.MaxOutputParam = "max_tokens"
	// A bound of 0 is allowed: it warms the cache and produces nothing.
	c.MaxOutput, c.HasMaxOutput, err = b.Number("max_tokens", request.FromZero)
	if err == nil && !c.HasMaxOutput {
		err = fault.Invalid("max_tokens", "max_tokens is required.")
	}
	return c, err
}

// defaultVersion is the version of the API for a client that names none.
const defaultVersion = "2023-06-01"

// Prepare implements dialect.Dialect.
func (Dialect) Prepare(c *dialect.Call, to dialect.Upstream) (dialect.Outbound, error) {
	header := request.Header(c.Request)
	if to.APIKey != "" {
		header.Set("X-Api-Key", to.APIKey)
	}
	if header.Get("Anthropic-Version") == "" {
		header.Set("Anthropic-Version", defaultVersion)
	}
	var edits []request.Edit
	if to.Model != "" && to.Model != c.Model {
		edits = append(edits, request.Edit{At: c.ModelSpan, Text: request.AppendString(nil, to.Model)})
	}
	return dialect.Outbound{
		Method: c.Endpoint.Method,
		URL:    request.URL(to.BaseURL, c.Endpoint.Pattern, request.Query(c.Query, "key")),
		Header: header,
		Body:   request.Splice(c.Request.Body, edits),
	}, nil
}

// Meter implements dialect.Dialect.
func (Dialect) Meter(c *dialect.Call, a dialect.Answer, o dialect.MeterOptions) dialect.Meter {
	if c.Endpoint.Operation == dialect.CountTokens {
		return watch.New(counted, c, a, o)
	}
	return watch.New(messages, c, a, o)
}
