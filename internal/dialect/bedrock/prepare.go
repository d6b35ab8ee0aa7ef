package bedrock

import (
	"net/url"
	"strconv"
	"strings"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/request"
	"llmgw/internal/jsonscan"
)

// Prepare implements dialect.Dialect.
func (d Dialect) Prepare(c *dialect.Call, to dialect.Upstream) (dialect.Outbound, error) {
	model := to.Model
	if model == "" {
		model = c.Model
	}
	out := dialect.Outbound{
		Method: c.Endpoint.Method,
		URL:    request.URL(to.BaseURL, prefix+escape(model)+action(c), request.Query(c.Query, "key")),
		Header: request.Header(c.Request),
		Body:   request.Splice(c.Request.Body, edits(c, to)),
	}
	return out, d.Sign(out, to)
}

// Sign gives an outbound call the provider's key: a bearer key, or
// access-key:secret[:session-token] to sign with. It must be called again if
// out is changed.
func (d Dialect) Sign(out dialect.Outbound, to dialect.Upstream) error {
	access, secret, signed := strings.Cut(to.APIKey, ":")
	if !signed {
		if to.APIKey != "" {
			out.Header.Set("Authorization", "Bearer "+to.APIKey)
		}
		return nil
	}
	secret, session, _ := strings.Cut(secret, ":")
	return sign(out, credentials{access: access, secret: secret, session: session, region: to.Region}, d.now())
}

// escape escapes all but what AWS leaves unescaped in a segment of a path.
func escape(model string) string {
	return strings.ReplaceAll(url.QueryEscape(model), "+", "%20")
}

// edits writes the bound on output where the call is to have one.
func edits(c *dialect.Call, to dialect.Upstream) []request.Edit {
	if to.MaxOutput <= 0 || c.HasMaxOutput || c.MaxOutputParam == "" {
		return nil
	}
	value := strconv.AppendInt(nil, int64(to.MaxOutput), 10)
	within, key, nested := strings.Cut(c.MaxOutputParam, ".")
	if !nested {
		return []request.Edit{request.Member(c, within, value)}
	}
	if at, ok := jsonscan.Find(c.Request.Body, c.BodyObject, within); ok && at.KindOf(c.Request.Body) == jsonscan.Object {
		return []request.Edit{request.MemberOf(c.Request.Body, at.Start, key, value)}
	}
	object := append([]byte{'{'}, request.AppendString(nil, key)...)
	object = append(append(object, ':'), value...)
	return []request.Edit{request.Member(c, within, append(object, '}'))}
}
