// Package ollama is the native API of Ollama. It speaks no HTTP.
//
// This file has the Dialect with its requests, answers.go says how answers are
// read and how the gateway's own are written.
package ollama

import (
	"strconv"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/request"
	"llmgw/internal/dialect/watch"
)

// Name is the dialect's name.
const Name = "ollama"

// Dialect is Ollama's API. The zero Dialect is ready to use.
type Dialect struct{}

// New returns the dialect.
func New() dialect.Dialect { return Dialect{} }

// Name implements dialect.Dialect.
func (Dialect) Name() string { return Name }

// Endpoints implements dialect.Dialect.
func (Dialect) Endpoints() []dialect.Endpoint {
	return []dialect.Endpoint{
		{Method: "POST", Pattern: "/api/chat", Operation: dialect.Chat},
		{Method: "POST", Pattern: "/api/generate", Operation: dialect.Completion},
		{Method: "POST", Pattern: "/api/embed", Operation: dialect.Embeddings},
		{Method: "POST", Pattern: "/api/embeddings", Operation: dialect.Embeddings}, // older clients'
	}
}

const (
	options = "options"
	predict = "num_predict"
)

// Parse implements dialect.Dialect.
func (Dialect) Parse(r dialect.Request) (*dialect.Call, error) {
	b, err := request.Read(r)
	if err != nil {
		return nil, err
	}
	c := &dialect.Call{Request: r, Dialect: Name, Choices: 1, BodyObject: b.Object, Members: b.Members}
	if c.Model, c.ModelSpan, err = b.Model(); err != nil {
		return nil, err
	}
	if r.Endpoint.Operation == dialect.Embeddings {
		c.NoOutput = true
		return c, nil
	}
	if c.Stream, err = b.Stream(request.On); err != nil { // the API's own default
		return nil, err
	}
	c.MaxOutputParam = options + "." + predict
	return c, parseBound(c, b)
}

// parseBound reads num_predict, where -1 (without end) and -2 (until the context
// is full) stand for no bound.
func parseBound(c *dialect.Call, b request.Body) error {
	inner, ok, err := b.Within(options)
	if err != nil || !ok {
		return err
	}
	if at, ok := inner.Find(predict); ok {
		if text := string(inner.Bytes(at)); text == "-1" || text == "-2" {
			return nil
		}
	}
	c.MaxOutput, c.HasMaxOutput, err = inner.NumberAs(predict, c.MaxOutputParam, request.FromOne)
	return err
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
		edits = append(edits, bound(c, strconv.AppendInt(nil, int64(to.MaxOutput), 10)))
	}
	return dialect.Outbound{
		Method: c.Endpoint.Method,
		URL:    request.URL(to.BaseURL, c.Endpoint.Pattern, request.Query(c.Query, "key")),
		Header: header,
		Body:   request.Splice(c.Request.Body, edits),
	}, nil
}

// bound writes a bound on output into the options that the client sent, or into
// ones of its own.
func bound(c *dialect.Call, value []byte) request.Edit {
	body := c.Request.Body
	for _, m := range c.Members {
		if m.Key == options && body[m.Value.Start] == '{' {
			return request.MemberOf(body, m.Value.Start, predict, value)
		}
	}
	return request.Member(c, options, append(append([]byte(`{"num_predict":`), value...), '}'))
}

// Meter implements dialect.Dialect.
func (Dialect) Meter(c *dialect.Call, a dialect.Answer, o dialect.MeterOptions) dialect.Meter {
	return watch.New(answer, c, a, o)
}
