package gemini

import (
	"cmp"
	"fmt"
	"net/url"
	"strconv"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/request"
	"llmgw/internal/fault"
	"llmgw/internal/jsonscan"
)

// passed are the parameters that are sent on: how an answer is framed, and laid
// out. Google takes others at every method, for credentials and for answers in a
// form that cannot be read here, or that shows less than its usage.
var passed = []string{"alt", "$alt", "prettyPrint", "$prettyPrint"}

// checkForm refuses a call for an answer that is no JSON: alt=proto, alt=media.
func checkForm(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return fault.Invalid("", "The query of the request's address cannot be read.")
	}
	for _, name := range [...]string{"alt", "$alt"} {
		for _, form := range values[name] {
			if form != "json" && form != "sse" {
				return fault.Invalid(name, fmt.Sprintf("%s must be json or sse, not %.32q.", name, form))
			}
		}
	}
	return nil
}

// Prepare implements dialect.Dialect.
func (Dialect) Prepare(c *dialect.Call, to dialect.Upstream) (dialect.Outbound, error) {
	header := request.Header(c.Request)
	header.Del("X-Goog-Fieldmask") // it is the parameter fields
	if to.APIKey != "" {
		header.Set("X-Goog-Api-Key", to.APIKey)
	}
	model := to.Model
	if model == "" {
		model = c.Model
	}
	version, _, action, _ := split(c.Path)
	var edits []request.Edit
	if model != c.Model {
		edits = rename(c, model)
	}
	if to.MaxOutput > 0 && !c.HasMaxOutput && c.MaxOutputParam != "" {
		edits = append(edits, bound(c, strconv.AppendInt(nil, int64(to.MaxOutput), 10)))
	}
	return dialect.Outbound{
		Method: c.Endpoint.Method,
		URL:    request.URL(to.BaseURL, cmp.Or(version, versions[0])+models+url.PathEscape(model)+":"+action, request.QueryOf(c.Query, passed...)),
		Header: header,
		Body:   request.Splice(c.Request.Body, edits),
	}, nil
}

// rename gives the model's name to the members of the body that repeat what
// the path says: Google refuses those that differ.
func rename(c *dialect.Call, model string) []request.Edit {
	body := c.Request.Body
	text := request.AppendString(nil, "models/"+model)
	var edits []request.Edit
	replace := func(object int) {
		if at, ok := jsonscan.Find(body, object, "model"); ok && at.KindOf(body) == jsonscan.String {
			edits = append(edits, request.Edit{At: at, Text: text})
		}
	}
	replace(c.BodyObject)
	if list, ok := jsonscan.Find(body, c.BodyObject, "requests"); ok {
		for e := jsonscan.ElementsAt(body, list.Start); e.Next(); {
			replace(e.Value().Start)
		}
	}
	if inner, ok := jsonscan.Find(body, c.BodyObject, "generateContentRequest"); ok {
		replace(inner.Start)
	}
	return edits
}

// bound writes a bound on output into the configuration that the client sent,
// or into one of its own.
func bound(c *dialect.Call, value []byte) request.Edit {
	for _, name := range configs {
		at, ok := jsonscan.Find(c.Request.Body, c.BodyObject, name)
		if !ok || at.KindOf(c.Request.Body) != jsonscan.Object {
			continue
		}
		key := "maxOutputTokens"
		if _, snake := jsonscan.Find(c.Request.Body, at.Start, "max_output_tokens"); snake {
			key = "max_output_tokens"
		}
		return request.MemberOf(c.Request.Body, at.Start, key, value)
	}
	return request.Member(c, configs[0], append(append([]byte(`{"maxOutputTokens":`), value...), '}'))
}
