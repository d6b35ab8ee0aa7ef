// Package azure is OpenAI's API as Azure has it: by deployments, or by its v1
// surface. What is the same comes from package openai, which also knows the way
// to Azure, as its own clients go there too. It speaks no HTTP.
//
// This file has the Dialect with its requests, refuse.go writes the gateway's
// own answers.
package azure

import (
	"net/url"
	"strings"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/openai"
	"llmgw/internal/fault"
)

// Name is the dialect's name.
const Name = openai.Azure

// Dialect is Azure's API. The zero Dialect is ready to use.
type Dialect struct{}

// New returns the dialect.
func New() dialect.Dialect { return Dialect{} }

// Name implements dialect.Dialect.
func (Dialect) Name() string { return Name }

// Endpoints implements dialect.Dialect. What is not of one model has no path
// below a deployment; of that, clients of a dated version have responses.
func (Dialect) Endpoints() []dialect.Endpoint {
	all := append(openai.Answered(openai.AzureV1), openai.Stored(openai.AzureV1)...)
	for _, e := range openai.Answered(openai.AzureDeployments + ":" + openai.ParamDeployment) {
		switch e.Operation {
		case dialect.Responses, dialect.CountTokens, dialect.Moderation:
		default:
			all = append(all, e)
		}
	}
	for _, e := range openai.Answered(openai.AzureDated) {
		if e.Operation == dialect.Responses || e.Operation == dialect.CountTokens {
			all = append(all, e)
		}
	}
	return append(all, openai.Stored(openai.AzureDated)...)
}

// Parse implements dialect.Dialect. The deployment in the path is the model.
func (Dialect) Parse(r dialect.Request) (*dialect.Call, error) {
	deployment := ""
	if rest, ok := strings.CutPrefix(r.Path, openai.AzureDeployments); ok {
		escaped, _, _ := strings.Cut(rest, "/")
		plain, err := url.PathUnescape(escaped)
		if err != nil || plain == "" {
			return nil, fault.Invalid(openai.ParamDeployment, "The deployment's name in the path cannot be read.")
		}
		deployment = plain
	}
	return openai.Parse(Name, deployment, r)
}

// Prepare implements dialect.Dialect. A call goes to a provider of the OpenAI
// dialect too.
func (Dialect) Prepare(c *dialect.Call, to dialect.Upstream) (dialect.Outbound, error) {
	if to.Dialect == "" {
		to.Dialect = Name
	}
	return openai.New().Prepare(c, to)
}

// Meter implements dialect.Dialect.
func (Dialect) Meter(c *dialect.Call, a dialect.Answer, o dialect.MeterOptions) dialect.Meter {
	return openai.New().Meter(c, a, o)
}
