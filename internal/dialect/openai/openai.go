// Package openai is the API of OpenAI and of the many providers that follow it,
// whose differences are flavors. It speaks no HTTP.
//
// This file has the Dialect and its endpoints; parse.go and form.go read
// requests, prepare.go makes outbound ones, and azure.go those to Azure;
// answers.go says how answers are read; refuse.go writes the gateway's own;
// flavors.go says how other providers differ, profile.go what others must know.
package openai

import (
	"slices"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/watch"
)

// Name is the dialect's name.
const Name = "openai"

// Dialect is OpenAI's API. The zero Dialect is ready to use.
type Dialect struct{}

// New returns the dialect.
func New() dialect.Dialect { return Dialect{} }

// Name implements dialect.Dialect.
func (Dialect) Name() string { return Name }

// The paths below the version, as the official client joins them to its base
// URL.
const (
	pathChat        = "/chat/completions"
	pathCompletions = "/completions"
	pathResponses   = "/responses"
	pathCompact     = "/responses/compact"
	pathInputTokens = "/responses/input_tokens"
	pathEmbeddings  = "/embeddings"
	pathModerations = "/moderations"
	pathGenerations = "/images/generations"
	pathEdits       = "/images/edits"
	pathSpeech      = "/audio/speech"
	pathTranscribe  = "/audio/transcriptions"
	pathTranslate   = "/audio/translations"
	pathStored      = "/responses/:" + ParamResponse
)

// version is what clients have in their base URL.
const version = "/v1"

// ParamDeployment is the parameter of patterns that name the model, in dialects
// that have this API below such a path.
const ParamDeployment = "deployment"

// ParamResponse is the pattern's parameter that names a stored response.
const ParamResponse = "response_id"

// answered are the endpoints that a model answers, below the version.
var answered = []dialect.Endpoint{
	{Method: "POST", Pattern: pathChat, Operation: dialect.Chat},
	{Method: "POST", Pattern: pathCompletions, Operation: dialect.Completion},
	{Method: "POST", Pattern: pathResponses, Operation: dialect.Responses},
	{Method: "POST", Pattern: pathCompact, Operation: dialect.Responses},
	{Method: "POST", Pattern: pathEmbeddings, Operation: dialect.Embeddings},
	{Method: "POST", Pattern: pathModerations, Operation: dialect.Moderation},
	{Method: "POST", Pattern: pathGenerations, Operation: dialect.Images},
	{Method: "POST", Pattern: pathEdits, Operation: dialect.Images},
	{Method: "POST", Pattern: pathSpeech, Operation: dialect.Speech},
	{Method: "POST", Pattern: pathTranscribe, Operation: dialect.Transcribe},
	{Method: "POST", Pattern: pathTranslate, Operation: dialect.Transcribe},
	{Method: "POST", Pattern: pathInputTokens, Operation: dialect.CountTokens},
}

// stored are the endpoints of what the provider keeps, below the version.
var stored = []dialect.Endpoint{
	{Method: "GET", Pattern: pathStored, Operation: dialect.Stored},
	{Method: "DELETE", Pattern: pathStored, Operation: dialect.Stored},
	{Method: "POST", Pattern: pathStored + "/cancel", Operation: dialect.Stored},
	{Method: "GET", Pattern: pathStored + "/input_items", Operation: dialect.Stored},
}

// Answered returns the endpoints that a model answers, below a prefix.
func Answered(prefix string) []dialect.Endpoint { return under(prefix, answered) }

// Stored returns the endpoints of what the provider keeps, below a prefix.
func Stored(prefix string) []dialect.Endpoint { return under(prefix, stored) }

func under(prefix string, endpoints []dialect.Endpoint) []dialect.Endpoint {
	moved := slices.Clone(endpoints)
	for i := range moved {
		moved[i].Pattern = prefix + moved[i].Pattern
	}
	return moved
}

// Endpoints implements dialect.Dialect.
func (Dialect) Endpoints() []dialect.Endpoint {
	return append(Answered(version), Stored(version)...)
}

// Meter implements dialect.Dialect.
func (Dialect) Meter(c *dialect.Call, a dialect.Answer, o dialect.MeterOptions) dialect.Meter {
	return watch.New(apiOf(c, flavorOf(o.Flavor)), c, a, o)
}
