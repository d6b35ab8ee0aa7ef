// Package bedrock is the runtime API of Amazon Bedrock: its own Converse, and
// the vendors' own through Invoke. It sends nothing: net/http is here because
// AWS's signer wants a request to sign.
//
// This file has the Dialect and reads requests, prepare.go makes outbound ones
// and sign.go signs them, answers.go says how answers are read, and refuse.go
// writes the gateway's own answers.
package bedrock

import (
	"net/url"
	"strings"
	"time"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/request"
	"llmgw/internal/dialect/watch"
	"llmgw/internal/fault"
)

// Name is the dialect's name.
const Name = "bedrock"

// Dialect is Bedrock's API. New makes one.
type Dialect struct {
	now func() time.Time // a signature has a date
}

// New returns the dialect.
func New() dialect.Dialect { return Dialect{now: time.Now} }

// Name implements dialect.Dialect.
func (Dialect) Name() string { return Name }

const (
	prefix         = "/model/"
	converse       = "/converse"
	converseStream = "/converse-stream"
	invoke         = "/invoke"
	invokeStream   = "/invoke-with-response-stream"
	countTokens    = "/count-tokens"
)

// Endpoints implements dialect.Dialect. A model's id is escaped in the path and
// may hold slashes: routes are matched on the path as it was sent.
func (Dialect) Endpoints() []dialect.Endpoint {
	var all []dialect.Endpoint
	for _, action := range []string{converse, converseStream, invoke, invokeStream} {
		all = append(all, dialect.Endpoint{Method: "POST", Pattern: prefix + ":model" + action, Operation: dialect.Chat})
	}
	return append(all, dialect.Endpoint{Method: "POST", Pattern: prefix + ":model" + countTokens, Operation: dialect.CountTokens})
}

// action is what is done with the model: the last segment of the pattern.
func action(c *dialect.Call) string {
	return c.Endpoint.Pattern[strings.LastIndexByte(c.Endpoint.Pattern, '/'):]
}

// Parse implements dialect.Dialect.
func (Dialect) Parse(r dialect.Request) (*dialect.Call, error) {
	rest, _ := strings.CutPrefix(r.Path, prefix)
	model, err := url.PathUnescape(rest[:max(0, strings.LastIndexByte(rest, '/'))])
	if err != nil {
		return nil, fault.Invalid("model", "The model's id in the path cannot be read.")
	}
	if err := request.CheckModel(model); err != nil {
		return nil, err
	}
	b, err := request.Read(r)
	if err != nil {
		return nil, err
	}
	c := &dialect.Call{Request: r, Dialect: Name, Model: model, Choices: 1, BodyObject: b.Object, Members: b.Members}
	switch action(c) {
	case countTokens:
		c.NoOutput, c.RequestsOnly = true, true
		return c, nil
	case converse, converseStream:
		c.Stream = action(c) == converseStream
		c.MaxOutputParam = inference + ".maxTokens"
		return c, parseConverse(c, b)
	}
	c.Stream = action(c) == invokeStream
	return c, parseInvoke(c, b)
}

// inference is the member with Converse's bounds.
const inference = "inferenceConfig"

func parseConverse(c *dialect.Call, b request.Body) error {
	config, ok, err := b.Within(inference)
	if err != nil || !ok {
		return err
	}
	c.MaxOutput, c.HasMaxOutput, err = config.NumberAs("maxTokens", c.MaxOutputParam, request.FromOne)
	return err
}

// parseInvoke reads the bounds of all vendors: the largest counts.
func parseInvoke(c *dialect.Call, b request.Body) error {
	c.User, c.Session = b.User()
	if o := kindOf(c.Model, b); o != dialect.Chat {
		c.Endpoint.Operation, c.NoOutput = o, true
		return nil
	}
	c.MaxOutputParam = boundParam(b)
	least := request.FromOne
	if _, ok := b.Find("anthropic_version"); ok {
		least = request.FromZero // it warms the cache
	}
	if err := widen(c, b, least, "max_tokens", "max_completion_tokens", "max_gen_len", "max_tokens_to_sample", "max_new_tokens", "maxTokens"); err != nil {
		return err
	}
	for _, nested := range [...]struct{ within, key string }{{titan, "maxTokenCount"}, {inference, "maxTokens"}, {inference, "max_new_tokens"}} {
		config, ok, err := b.Within(nested.within)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if err := widen(c, config, least, nested.key); err != nil {
			return err
		}
	}
	return nil
}

// kindOf is what a request asks for, by what vendors' models of that kind need in
// its body. What may produce text is Chat. A model's name says nothing, but of
// Titan, whose shortest body is the same for both kinds.
func kindOf(model string, b request.Body) dialect.Operation {
	has := func(keys ...string) bool {
		for _, key := range keys {
			if _, ok := b.Find(key); !ok {
				return false
			}
		}
		return true
	}
	for _, key := range [...]string{"messages", "prompt", "message", inference, titan, "anthropic_version", "system", "chat_history"} {
		if has(key) {
			return dialect.Chat
		}
	}
	switch {
	case has("texts", "input_type"), has("images", "input_type"), has("inputs", "input_type"), // Cohere
		has("inputText", "dimensions"), has("inputText", "normalize"), has("inputText", "embeddingTypes"), has("inputImage"), // Amazon Titan
		has("inputText") && strings.Contains(model, "titan-embed"),
		has("taskType", "singleEmbeddingParams"), has("taskType", "segmentedEmbeddingParams"): // Amazon Nova
		return dialect.Embeddings
	case has("query", "documents"): // Cohere, Amazon
		return dialect.Rerank
	}
	return dialect.Chat
}

// titan is the member with the bounds of Amazon Titan.
const titan = "textGenerationConfig"

// boundParam is the member that bounds the output of the vendor whose body this
// is; empty if that cannot be seen.
func boundParam(b request.Body) string {
	for _, vendor := range [...]struct{ key, param string }{
		{"anthropic_version", "max_tokens"}, {inference, inference + ".maxTokens"}, {titan, titan + ".maxTokenCount"}, {"inputText", titan + ".maxTokenCount"},
	} {
		if _, ok := b.Find(vendor.key); ok {
			return vendor.param
		}
	}
	return ""
}

// widen raises the call's bound to the largest of some members.
func widen(c *dialect.Call, b request.Body, least request.Least, keys ...string) error {
	n, ok, err := b.Largest(least, keys...)
	if ok {
		c.MaxOutput, c.HasMaxOutput = max(c.MaxOutput, n), true
	}
	return err
}

// Meter implements dialect.Dialect.
func (Dialect) Meter(c *dialect.Call, a dialect.Answer, o dialect.MeterOptions) dialect.Meter {
	switch action(c) {
	case countTokens:
		return watch.New(counted, c, a, o)
	case converse, converseStream:
		return watch.New(conversed, c, a, o)
	}
	return watch.New(invoked, c, a, o)
}
