package proxy

import (
	"time"

	"github.com/gin-gonic/gin"
)

// shape is how an API shows its models. Fields that only a provider knows are
// left out, or empty where clients want them.
type shape struct {
	dialect string // in which calls are refused
	own     bool   // only models that this dialect can call are shown
	all     func([]*Model) any
	one     func(*Model) any
}

var (
	openAIShape    = shape{"openai", false, list("data", openAIModel, gin.H{"object": "list"}), openAIModel}
	anthropicShape = shape{"anthropic", false, anthropicPage, anthropicModel}
	azureShape     = shape{"azure", true, list("data", azureModel, gin.H{"object": "list"}), azureModel}
	geminiShape    = shape{"gemini", true, list("models", geminiModel, nil), geminiModel}
	ollamaShape    = shape{"ollama", true, list("models", ollamaModel, nil), ollamaShown}
)

// list is a page that has its models under key, beside more.
func list(key string, one func(*Model) any, more gin.H) func([]*Model) any {
	return func(models []*Model) any {
		page, shown := gin.H{}, make([]any, len(models))
		for i, m := range models {
			shown[i] = one(m)
		}
		for k, v := range more {
			page[k] = v
		}
		page[key] = shown
		return page
	}
}

func openAIModel(m *Model) any {
	return gin.H{"id": m.Name, "object": "model", "created": m.Created, "owned_by": m.Targets[0].Provider.Name}
}

func anthropicPage(models []*Model) any {
	page := gin.H{"has_more": false, "first_id": nil, "last_id": nil}
	if n := len(models); n > 0 {
		page["first_id"], page["last_id"] = models[0].Name, models[n-1].Name
	}
	return list("data", anthropicModel, page)(models)
}

func anthropicModel(m *Model) any {
	return gin.H{"type": "model", "id": m.Name, "display_name": m.Name, "created_at": created(m)}
}

// azureModel is a model and a deployment at once: here they have one name.
func azureModel(m *Model) any {
	return gin.H{
		"id": m.Name, "model": m.Name, "object": "model", "status": "succeeded", "created_at": m.Created, "updated_at": m.Created,
		"lifecycle_status": "generally-available",
	}
}

func geminiModel(m *Model) any {
	shown := gin.H{
		"name": "models/" + m.Name, "baseModelId": m.Name, "version": m.Name, "displayName": m.Name,
		"supportedGenerationMethods": []string{"generateContent", "streamGenerateContent", "countTokens", "embedContent", "batchEmbedContents"},
	}
	if m.Rules.MaxOutput > 0 {
		shown["outputTokenLimit"] = m.Rules.MaxOutput
	}
	return shown
}

// ollamaVersion is the version of Ollama whose API is spoken: clients want one
// that is not too old.
const ollamaVersion = "0.12.6"

func ollamaModel(m *Model) any {
	return gin.H{"name": m.Name, "model": m.Name, "modified_at": created(m), "size": 0, "digest": "", "details": ollamaDetails()}
}

func ollamaShown(m *Model) any {
	return gin.H{
		"license": "", "modelfile": "", "parameters": "", "template": "", "details": ollamaDetails(), "model_info": gin.H{},
		"capabilities": []string{"completion", "tools"}, "modified_at": created(m),
	}
}

func ollamaDetails() gin.H {
	return gin.H{"parent_model": "", "format": "", "family": "", "families": []string{}, "parameter_size": "", "quantization_level": ""}
}

// created is when a model came into the configuration.
func created(m *Model) string { return time.Unix(m.Created, 0).UTC().Format(time.RFC3339) }
