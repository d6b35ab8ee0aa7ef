package azure

import (
	"regexp"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/openai"
)

// Profile implements dialect.Dialect.
func (Dialect) Profile() *dialect.Profile { return &profile }

var profile = dialect.Profile{
	Flavors: []dialect.Flavor{{System: "azure.ai.openai", Models: "gpt", Quota: dialect.Quota{KeepsBound: true}, DefaultBound: true}},
	Accepts: []string{openai.Name},
	APIVersion: dialect.Setting{ // dated, or the undated surface
		Form: regexp.MustCompile(`^(v1|preview|latest|\d{4}-\d{2}-\d{2}(-preview)?)$`), Example: "2024-10-21 or v1",
	},
	Listing: dialect.Listing{
		Paths: []string{"/openai/models", "/openai/models/:model", "/openai/deployments", "/openai/deployments/:model"},
		Own:   true,
		All:   dialect.Page("data", listed, map[string]any{"object": "list"}),
		One:   listed,
	},
}

// listed is a model and a deployment at once: here they have one name.
func listed(m dialect.Listed) any {
	return map[string]any{
		"id": m.Name, "model": m.Name, "object": "model", "status": "succeeded", "created_at": m.Created.Unix(), "updated_at": m.Created.Unix(),
		"lifecycle_status": "generally-available",
	}
}
