// Package azure is OpenAI's API as Azure has it: by deployments, or by its v1
// surface. What is the same comes from package openai. It speaks no HTTP.
//
// This file has the Dialect with its requests, refuse.go writes the gateway's
// own answers.
package azure

import (
	"net/url"
	"strings"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/openai"
	"llmgw/internal/dialect/request"
	"llmgw/internal/fault"
)

// Name is the dialect's name.
const Name = "azure"

// Dialect is Azure's API. The zero Dialect is ready to use.
type Dialect struct{}

// New returns the dialect.
func New() dialect.Dialect { return Dialect{} }

// Name implements dialect.Dialect.
func (Dialect) Name() string { return Name }

const (
	prefixDeployments = "/openai/deployments/"
	prefixV1          = "/openai/v1"
	prefixDated       = "/openai"
	// versionV1 is the api_version that stands for the v1 surface.
	versionV1 = "v1"
)

// Endpoints implements dialect.Dialect. What is not of one model has no path
// below a deployment.
func (Dialect) Endpoints() []dialect.Endpoint {
	all := append(openai.Answered(prefixV1), openai.Stored(prefixV1)...)
	for _, e := range openai.Answered(prefixDeployments + ":" + openai.ParamDeployment) {
		switch e.Operation {
		case dialect.Responses, dialect.CountTokens, dialect.Moderation:
		default:
			all = append(all, e)
		}
	}
	return all
}

// Parse implements dialect.Dialect. The deployment in the path is the model.
func (Dialect) Parse(r dialect.Request) (*dialect.Call, error) {
	deployment := ""
	if rest, ok := strings.CutPrefix(r.Path, prefixDeployments); ok {
		escaped, _, _ := strings.Cut(rest, "/")
		plain, err := url.PathUnescape(escaped)
		if err != nil || plain == "" {
			return nil, fault.Invalid(openai.ParamDeployment, "The deployment's name in the path cannot be read.")
		}
		deployment = plain
	}
	return openai.Parse(Name, deployment, r)
}

// Prepare implements dialect.Dialect. It takes calls of the OpenAI dialect too.
func (Dialect) Prepare(c *dialect.Call, to dialect.Upstream) (dialect.Outbound, error) {
	path, version := openai.Path(c), apiVersion(c, to)
	query := request.Query(c.Query, "key", "api-version")
	out := dialect.Outbound{Method: c.Endpoint.Method, Header: header(c, to)}
	if version == versionV1 {
		out.URL = request.URL(to.BaseURL, prefixV1+path, query)
		out.Body, out.Injected = openai.Body(c, to)
		return out, nil
	}
	query = strings.TrimSuffix("api-version="+url.QueryEscape(version)+"&"+query, "&")
	if !ofDeployment(c.Endpoint.Operation) {
		out.URL = request.URL(to.BaseURL, prefixDated+path, query)
		out.Body, out.Injected = openai.Body(c, to)
		return out, nil
	}
	deployment := to.Model
	if deployment == "" {
		deployment = c.Model
	}
	out.URL = request.URL(to.BaseURL, prefixDeployments+url.PathEscape(deployment)+path, query)
	to.Model = "" // the path says it, what the body says is not read
	out.Body, out.Injected = openai.Body(c, to)
	return out, nil
}

// apiVersion is the configured version, else the client's own, else v1.
func apiVersion(c *dialect.Call, to dialect.Upstream) string {
	if to.APIVersion != "" {
		return to.APIVersion
	}
	query, err := url.ParseQuery(c.Query)
	if sent := query.Get("api-version"); err == nil && sent != "" && sent != "preview" {
		return sent
	}
	return versionV1
}

func ofDeployment(o dialect.Operation) bool {
	return o != dialect.Responses && o != dialect.Stored && o != dialect.CountTokens && o != dialect.Moderation
}

// header keeps to the few custom headers that Azure takes: more than ten are an
// error, and the clients' own telemetry is most of them.
func header(c *dialect.Call, to dialect.Upstream) dialect.Header {
	h := openai.Header(c)
	for name := range h {
		if strings.HasPrefix(name, "X-Stainless-") {
			delete(h, name)
		}
	}
	if to.APIKey != "" {
		h.Set("Api-Key", to.APIKey)
	}
	return h
}

// Meter implements dialect.Dialect.
func (Dialect) Meter(c *dialect.Call, a dialect.Answer, o dialect.MeterOptions) dialect.Meter {
	return openai.New().Meter(c, a, o)
}
