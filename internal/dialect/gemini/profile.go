package gemini

import (
	"net/url"

	"llmgw/internal/dialect"
)

// Profile implements dialect.Dialect.
func (Dialect) Profile() *dialect.Profile { return &profile }

var profile = dialect.Profile{
	UsageFields: []string{"promptTokenCount", "candidatesTokenCount", "totalTokenCount"},
	Flavors:     []dialect.Flavor{{System: "gcp.gemini", Models: Name, Quota: dialect.Quota{Output: dialect.OutputFree}}},
	AnyModality: true,
	Signals: dialect.Signals{
		Refused:        []string{"API_KEY_INVALID", "API_KEY_EXPIRED", "CONSUMER_INVALID", "CONSUMER_SUSPENDED", "ACCESS_TOKEN_EXPIRED"},
		Spent:          []string{"BILLING_DISABLED"},
		RefusedPhrases: []dialect.Phrase{{Start: "API key expired"}, {Start: "API key not valid"}},
	},
	Listing: dialect.Listing{
		Paths: append([]string{"/v1beta/models", "/v1beta/models/*model", "/v1alpha/models", "/v1alpha/models/*model"}, dialect.SharedPaths...),
		Asks: func(h dialect.Header, query url.Values) bool {
			return h.Get("X-Goog-Api-Key") != "" || h.Get("X-Goog-Api-Client") != "" || query.Has("key")
		},
		Own: true,
		All: dialect.Page("models", listed, nil),
		One: listed,
	},
}

func listed(m dialect.Listed) any {
	shown := map[string]any{
		"name": "models/" + m.Name, "baseModelId": m.Name, "version": m.Name, "displayName": m.Name,
		"supportedGenerationMethods": methods,
	}
	if m.MaxOutput > 0 {
		shown["outputTokenLimit"] = m.MaxOutput
	}
	return shown
}

// methods are the names of actions.
var methods = func() []string {
	names := make([]string, len(actions))
	for i, a := range actions {
		names[i] = a.name
	}
	return names
}()
