// Package cohere is the second version of Cohere's API. It speaks no HTTP.
//
// This file has the Dialect with its requests, answers.go says how answers are
// read, and refuse.go writes the gateway's own answers.
package cohere

import (
	"strconv"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/request"
	"llmgw/internal/dialect/watch"
)

// Name is the dialect's name.
const Name = "cohere"

// Dialect is Cohere's API. The zero Dialect is ready to use.
type Dialect struct{}

// New returns the dialect.
func New() dialect.Dialect { return Dialect{} }

// Name implements dialect.Dialect.
func (Dialect) Name() string { return Name }

// Endpoints implements dialect.Dialect. The official client joins the paths to
// a base URL without a version.
func (Dialect) Endpoints() []dialect.Endpoint {
	return []dialect.Endpoint{
		{Method: "POST", Pattern: "/v2/chat", Operation: dialect.Chat},
		{Method: "POST", Pattern: "/v2/embed", Operation: dialect.Embeddings},
		{Method: "POST", Pattern: "/v2/rerank", Operation: dialect.Rerank},
	}
}

// bound is the member that bounds output.
const bound = "max_tokens"

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
	if r.Endpoint.Operation != dialect.Chat {
		c.NoOutput = true
		return c, nil
	}
	if c.Stream, err = b.Stream(request.Off); err != nil {
		return nil, err
	}
	c.MaxOutputParam = bound
	c.MaxOutput, c.HasMaxOutput, err = b.Number(bound, request.FromOne)
	return c, err
}

// Prepare implements dialect.Dialect.
func (Dialect) Prepare(c *dialect.Call, to dialect.Upstream) (dialect.Outbound, error) {
	header := request.Header(c.Request)
	if to.APIKey != "" {
		header.Set("Authorization", "Bearer "+to.APIKey)
	}
	var edits []request.Edit
	if to.Model != "" && to.Model != c.Model {
		edits = append(edits, request.Edit{At: c.ModelSpan, Text: request.AppendString(nil, to.Model)})
	}
	if to.MaxOutput > 0 && !c.HasMaxOutput && c.MaxOutputParam != "" {
		edits = append(edits, request.Member(c, bound, strconv.AppendInt(nil, int64(to.MaxOutput), 10)))
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
	if c.Endpoint.Operation == dialect.Chat {
		return watch.New(chat, c, a, o)
	}
	return watch.New(billed, c, a, o)
}
