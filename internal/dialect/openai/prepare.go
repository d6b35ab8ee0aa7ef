package openai

import (
	"strconv"
	"strings"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/request"
)

// Prepare implements dialect.Dialect. It takes calls of the azure dialect too,
// and goes to its providers.
func (Dialect) Prepare(c *dialect.Call, to dialect.Upstream) (dialect.Outbound, error) {
	if to.Dialect == Azure {
		return prepareAzure(c, to)
	}
	path := pathOf(c)
	header := headerOf(c)
	header.Set("Authorization", "Bearer "+to.APIKey)
	if to.APIKey == "" {
		header.Del("Authorization") // a server of one's own may want none
	}
	body, injected := bodyOf(c, to)
	return dialect.Outbound{
		Method:   c.Endpoint.Method,
		URL:      request.URL(to.BaseURL, path, request.Query(c.Query, "key", "api-version")),
		Header:   header,
		Body:     body,
		Injected: injected,
	}, nil
}

// pathOf is the path of a call below the version, made anew from its endpoint so
// that nothing else can be reached.
func pathOf(c *dialect.Call) string {
	for _, list := range [...][]dialect.Endpoint{answered, stored} {
		for _, e := range list { // chat's path comes before the one that it ends with
			if strings.HasSuffix(c.Endpoint.Pattern, e.Pattern) {
				return strings.Replace(e.Pattern, ":"+ParamResponse, c.Params[ParamResponse], 1)
			}
		}
	}
	return c.Endpoint.Pattern
}

// headerOf is what is passed on of the client's headers. A stream from which
// usage must be taken must not be compressed.
func headerOf(c *dialect.Call) dialect.Header {
	header := request.Header(c.Request)
	if c.Stream && !c.WantsUsage && canInject(c) {
		header.Set("Accept-Encoding", "identity")
	}
	return header
}

func canInject(c *dialect.Call) bool {
	return c.Endpoint.Operation == dialect.Chat || c.Endpoint.Operation == dialect.Completion
}

// bodyOf is the body of a call to one upstream: as the client sent it, but for
// the model's name, the wish for usage and a bound on output where these are
// the gateway's to set. injected says that usage was asked for.
func bodyOf(c *dialect.Call, to dialect.Upstream) (body [][]byte, injected bool) {
	if len(c.Request.Body) == 0 {
		return nil, false
	}
	if c.Endpoint.Operation == dialect.Stored {
		return [][]byte{c.Request.Body}, false // it was not read
	}
	if boundary, ok := multipart(c.Header); ok {
		return formBody(c, to, boundary), false
	}
	f := flavorOf(to.Flavor)
	var edits []request.Edit
	if to.Model != "" && (to.Model != c.Model || inPath(c)) {
		edits = append(edits, request.Member(c, "model", request.AppendString(nil, to.Model)))
	}
	if to.InjectUsage && c.Stream && !c.WantsUsage && canInject(c) && !f.reports {
		edits = append(edits, inject(c))
		injected = true
	}
	if to.MaxOutput > 0 && !c.Bounded(&f.Flavor) && c.MaxOutputParam != "" {
		value := strconv.AppendInt(nil, int64(to.MaxOutput), 10)
		edits = append(edits, request.Member(c, boundParam(c, f), value))
	}
	return request.Splice(c.Request.Body, edits), injected
}

// inPath tells whether the call's model stands in its path, and what the body
// says of it, if anything, has no effect.
func inPath(c *dialect.Call) bool { return len(c.Params[ParamDeployment]) > 0 }

// inject asks for usage within what the client sent.
func inject(c *dialect.Call) request.Edit {
	body := c.Request.Body
	switch {
	case !c.IncludeUsage.Empty():
		return request.Edit{At: c.IncludeUsage, Text: []byte("true")}
	case c.StreamOptions.Empty() || body[c.StreamOptions.Start] != '{':
		return request.Member(c, "stream_options", []byte(`{"include_usage":true}`))
	}
	return request.MemberOf(body, c.StreamOptions.Start, "include_usage", []byte("true"))
}

// boundParam is the member that bounds a call's output.
func boundParam(c *dialect.Call, f *flavor) string {
	if c.Endpoint.Operation == dialect.Chat && f.bound != "" {
		return f.bound
	}
	return c.MaxOutputParam
}
