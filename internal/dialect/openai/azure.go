package openai

import (
	"net/url"
	"strings"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/request"
)

// Azure is the dialect of a provider that has this API in Azure's way.
const Azure = "azure"

// The paths before those of this API on Azure.
const (
	AzureDeployments = "/openai/deployments/"
	AzureV1          = "/openai/v1"
	AzureDated       = "/openai"
)

// azureVersionV1 is the api_version that stands for the v1 surface.
const azureVersionV1 = "v1"

// prepareAzure makes the outbound request of a call to Azure: by the v1 surface,
// or by a deployment and a dated version.
func prepareAzure(c *dialect.Call, to dialect.Upstream) (dialect.Outbound, error) {
	path, version := pathOf(c), apiVersion(c, to)
	query := request.Query(c.Query, "key", "api-version")
	out := dialect.Outbound{Method: c.Endpoint.Method, Header: azureHeader(c, to)}
	if version == azureVersionV1 {
		out.URL = request.URL(to.BaseURL, AzureV1+path, query)
		out.Body, out.Injected = bodyOf(c, to)
		return out, nil
	}
	query = strings.TrimSuffix("api-version="+url.QueryEscape(version)+"&"+query, "&")
	if !ofDeployment(c.Endpoint.Operation) {
		out.URL = request.URL(to.BaseURL, AzureDated+path, query)
		out.Body, out.Injected = bodyOf(c, to)
		return out, nil
	}
	deployment := to.Model
	if deployment == "" {
		deployment = c.Model
	}
	out.URL = request.URL(to.BaseURL, AzureDeployments+url.PathEscape(deployment)+path, query)
	to.Model = "" // the path says it, what the body says is not read
	out.Body, out.Injected = bodyOf(c, to)
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
	return azureVersionV1
}

func ofDeployment(o dialect.Operation) bool {
	return o != dialect.Responses && o != dialect.Stored && o != dialect.CountTokens && o != dialect.Moderation
}

// azureHeader keeps to the few custom headers that Azure takes: more than ten
// are an error, and the clients' own telemetry is most of them.
func azureHeader(c *dialect.Call, to dialect.Upstream) dialect.Header {
	h := headerOf(c)
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
