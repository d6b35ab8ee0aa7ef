package openai

import (
	"fmt"
	"mime"
	"regexp"
	"strings"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/request"
	"llmgw/internal/fault"
	"llmgw/internal/jsonscan"
	"llmgw/internal/tokens"
)

// completionDefault is the bound of /completions if a request sets none.
const completionDefault = 16

// moderationDefault is the model of /moderations if a request names none.
const moderationDefault = "omni-moderation-latest"

// Parse implements dialect.Dialect.
func (Dialect) Parse(r dialect.Request) (*dialect.Call, error) {
	return Parse(Name, "", r)
}

// Parse reads a request to one of this package's paths for a dialect that has
// them too. If model is not empty the path names the model, and what the body
// says of it has no effect.
func Parse(name, model string, r dialect.Request) (*dialect.Call, error) {
	c := &dialect.Call{Request: r, Dialect: name, Model: model, Choices: 1}
	switch r.Endpoint.Operation {
	case dialect.Stored:
		return c, parseStored(c)
	case dialect.Images, dialect.Transcribe:
		if boundary, ok := multipart(r.Header); ok {
			return c, parseForm(c, boundary)
		}
	}
	b, err := request.Read(r)
	if err != nil {
		return nil, err
	}
	c.BodyObject, c.Members = b.Object, b.Members
	if err := parseModel(c, b); err != nil {
		return nil, err
	}
	if err := parseStream(c, b); err != nil {
		return nil, err
	}
	return c, parseOperation(c, b)
}

// multipart returns the boundary of a form.
func multipart(h dialect.Header) (boundary string, ok bool) {
	value := h.Get("Content-Type")
	if !strings.Contains(value, ";") { // there is no boundary
		return "", strings.EqualFold(strings.TrimSpace(value), "multipart/form-data")
	}
	kind, params, err := mime.ParseMediaType(value)
	return params["boundary"], err == nil && kind == "multipart/form-data"
}

var responseID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,256}$`)

func parseStored(c *dialect.Call) error {
	c.RequestsOnly = true // the response itself, which may have gone on until now, is another's to charge
	id := c.Params[ParamResponse]
	for _, fixed := range []string{pathCompact, pathInputTokens} {
		if strings.HasSuffix(fixed, "/"+id) {
			return &fault.Error{Code: fault.MethodNotAllowed, Message: fmt.Sprintf("%s is no response: it takes POST alone.", id), NoRetry: true}
		}
	}
	if !responseID.MatchString(id) {
		return fault.Invalid(ParamResponse, "The id of a response has only letters, digits, _ and -.")
	}
	return nil
}

func parseModel(c *dialect.Call, b request.Body) (err error) {
	if at, ok := b.Find("models"); ok && b.Kind(at) == jsonscan.Array {
		return fault.Invalid("models", "models is not supported here, as what it leads to could not be charged: name one model in model.")
	}
	if c.Model != "" {
		return request.CheckModel(c.Model)
	}
	if _, named := b.Find("model"); !named && c.Endpoint.Operation == dialect.Moderation {
		c.Model = moderationDefault
		return nil
	}
	c.Model, c.ModelSpan, err = b.Model()
	return err
}

func parseStream(c *dialect.Call, b request.Body) (err error) {
	c.User, c.Session = b.User()
	if c.Stream, err = b.Stream(request.Off); err != nil {
		return err
	}
	return parseStreamOptions(c, b)
}

func parseStreamOptions(c *dialect.Call, b request.Body) error {
	for _, m := range b.Members {
		if m.Key == "stream_options" {
			c.StreamOptions = m.Value
		}
	}
	options, ok, err := b.Within("stream_options")
	if err != nil || !ok {
		return err
	}
	for _, m := range options.Members {
		if m.Key == "include_usage" {
			c.IncludeUsage = m.Value
		}
	}
	wants, err := options.Switch("include_usage", request.Off)
	if err != nil {
		return fault.Invalid("stream_options.include_usage", "stream_options.include_usage must be true or false.")
	}
	c.WantsUsage = bool(wants)
	return nil
}

// parseOperation reads what bounds the output of each operation.
func parseOperation(c *dialect.Call, b request.Body) (err error) {
	switch c.Endpoint.Operation {
	case dialect.Chat:
		c.MaxOutputParam = "max_completion_tokens"
		if err := bound(c, b, "max_completion_tokens", "max_tokens", "n_predict"); err != nil {
			return err
		}
		c.Choices, err = choices(b, 1)
	case dialect.Completion:
		c.MaxOutputParam = "max_tokens"
		if err := bound(c, b, "max_tokens", "max_completion_tokens", "n_predict"); err != nil {
			return err
		}
		if !c.HasMaxOutput {
			c.MaxOutput, c.HasMaxOutput, c.UnsetOutput = completionDefault, true, true
		}
		c.Choices, err = choices(b, prompts(b))
	case dialect.Responses:
		if strings.HasSuffix(c.Endpoint.Pattern, pathCompact) {
			return nil // it takes no bound
		}
		c.MaxOutputParam = "max_output_tokens"
		background, err := b.Switch("background", request.Off)
		if err != nil {
			return err
		}
		c.Detached = bool(background)
		return bound(c, b, "max_output_tokens")
	case dialect.Images:
		if c.Choices, err = choices(b, 1); err != nil {
			return err
		}
		c.Picture, err = picture(b)
	case dialect.Embeddings, dialect.Moderation:
		c.NoOutput = true
	case dialect.CountTokens:
		c.NoOutput, c.RequestsOnly = true, true
	}
	return err
}

func bound(c *dialect.Call, b request.Body, keys ...string) (err error) {
	c.MaxOutput, c.HasMaxOutput, err = b.Largest(request.FromOne, keys...)
	return err
}

// choices is how many answers are generated for so many prompts: n, or the
// best_of that are thrown away but for n (n_cmpl is llama.cpp's name of n).
func choices(b request.Body, prompts tokens.Count) (tokens.Count, error) {
	n, ok, err := b.Largest(request.FromOne, "n", "best_of", "n_cmpl")
	if err != nil {
		return 0, err
	}
	if !ok {
		n = 1
	}
	return tokens.Mul(n, prompts), nil
}

// picture is what a body asks for. What is no text is the provider's to refuse,
// and the largest picture until then.
func picture(b request.Body) (p dialect.Picture, err error) {
	text := func(key string) string {
		at, ok := b.Find(key)
		if !ok || b.Kind(at) != jsonscan.String || at.End-at.Start > maxField {
			return ""
		}
		return string(jsonscan.Text(b.Data[at.Start:at.End], nil))
	}
	p.Size, p.Quality = text("size"), text("quality")
	p.Partial, _, err = b.Largest(request.FromZero, "partial_images")
	return p, err
}

// prompts is how many prompts a completion has: a list of numbers is one.
func prompts(b request.Body) tokens.Count {
	at, ok := b.Find("prompt")
	if !ok || b.Kind(at) != jsonscan.Array {
		return 1
	}
	e := jsonscan.ElementsAt(b.Data, at.Start)
	if !e.Next() || e.Kind() == jsonscan.Number {
		return 1
	}
	return b.Length(at)
}
