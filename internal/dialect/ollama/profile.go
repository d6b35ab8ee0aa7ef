package ollama

import (
	"time"

	"llmgw/internal/dialect"
)

// Profile implements dialect.Dialect.
func (Dialect) Profile() *dialect.Profile { return &profile }

var profile = dialect.Profile{
	UsageFields:   []string{"prompt_eval_count", "eval_count"},
	UsageInAnswer: true,
	Flavors:       []dialect.Flavor{{System: Name}},
	Listing: dialect.Listing{
		Paths:  []string{"/api/tags"},
		Own:    true,
		All:    dialect.Page("models", listed, nil),
		One:    shown,
		Show:   "/api/show",
		Pages:  map[string]any{"/api/ps": map[string]any{"models": []any{}}}, // no model is loaded here
		Public: map[string]any{"/api/version": map[string]any{"version": spokenVersion}},
	},
}

// spokenVersion is the version of Ollama whose API is spoken: clients want one
// that is not too old.
const spokenVersion = "0.12.6"

// Fields that only a provider knows are left out, or empty where clients want
// them.
func listed(m dialect.Listed) any {
	return map[string]any{"name": m.Name, "model": m.Name, "modified_at": m.Created.Format(time.RFC3339), "size": 0, "digest": "", "details": details()}
}

func shown(m dialect.Listed) any {
	return map[string]any{
		"license": "", "modelfile": "", "parameters": "", "template": "", "details": details(), "model_info": map[string]any{},
		"capabilities": []string{"completion", "tools"}, "modified_at": m.Created.Format(time.RFC3339),
	}
}

func details() map[string]any {
	return map[string]any{"parent_model": "", "format": "", "family": "", "families": []string{}, "parameter_size": "", "quantization_level": ""}
}
