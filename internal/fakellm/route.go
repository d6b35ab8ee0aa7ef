package fakellm

import (
	"net/http"
	"strings"
)

// api is a family of endpoints that share their errors and headers.
type api int

const (
	openai api = iota
	anthropic
	gemini
	bedrock
	cohere
	ollama
)

// operation is what an endpoint does.
type operation int

const (
	chat operation = iota
	completion
	responses
	countResponse
	storedResponse
	cancelResponse
	embeddings
	moderations
	pictures
	speech
	transcripts
	listModels
	oneModel
	messages
	countMessages
	generate
	countGenerate
	embedContent
	batchEmbed
	converse
	invoke
	cohereChat
	cohereEmbed
	cohereRerank
	ollamaChat
	ollamaGenerate
	ollamaEmbed
)

// wire is how a stream is framed.
type wire int

const (
	serverSent wire = iota
	jsonArray
	jsonLines
	eventFrames // AWS's binary ones
)

// endpoint is an operation as one request addresses it.
type endpoint struct {
	api    api
	op     operation
	method string
	name   string // the model or id that stands in the path
	stream bool   // the path asks for a stream
	wire   wire   // of a stream
}

// fixed are the endpoints whose path has no variable part.
var fixed = map[string]endpoint{
	"/v1/chat/completions":       {op: chat, method: http.MethodPost},
	"/v1/completions":            {op: completion, method: http.MethodPost},
	"/v1/responses":              {op: responses, method: http.MethodPost},
	"/v1/responses/input_tokens": {op: countResponse, method: http.MethodPost},
	"/v1/embeddings":             {op: embeddings, method: http.MethodPost},
	"/v1/moderations":            {op: moderations, method: http.MethodPost},
	"/v1/images/generations":     {op: pictures, method: http.MethodPost},
	"/v1/images/edits":           {op: pictures, method: http.MethodPost},
	"/v1/audio/speech":           {op: speech, method: http.MethodPost},
	"/v1/audio/transcriptions":   {op: transcripts, method: http.MethodPost},
	"/v1/audio/translations":     {op: transcripts, method: http.MethodPost},
	"/v1/models":                 {op: listModels, method: http.MethodGet},
	"/v1/messages":               {api: anthropic, op: messages, method: http.MethodPost},
	"/v1/messages/count_tokens":  {api: anthropic, op: countMessages, method: http.MethodPost},
	"/v2/chat":                   {api: cohere, op: cohereChat, method: http.MethodPost},
	"/v2/embed":                  {api: cohere, op: cohereEmbed, method: http.MethodPost},
	"/v2/rerank":                 {api: cohere, op: cohereRerank, method: http.MethodPost},
	"/api/chat":                  {api: ollama, op: ollamaChat, method: http.MethodPost, stream: true, wire: jsonLines},
	"/api/generate":              {api: ollama, op: ollamaGenerate, method: http.MethodPost, stream: true, wire: jsonLines},
	"/api/embed":                 {api: ollama, op: ollamaEmbed, method: http.MethodPost},
}

// verbs are the endpoints of Gemini, by what follows the model's name.
var verbs = map[string]endpoint{
	"generateContent":       {api: gemini, op: generate, method: http.MethodPost},
	"streamGenerateContent": {api: gemini, op: generate, method: http.MethodPost, stream: true},
	"countTokens":           {api: gemini, op: countGenerate, method: http.MethodPost},
	"embedContent":          {api: gemini, op: embedContent, method: http.MethodPost},
	"batchEmbedContents":    {api: gemini, op: batchEmbed, method: http.MethodPost},
}

// actions are the endpoints of Bedrock, by what follows the model's id.
var actions = map[string]endpoint{
	"converse":                    {op: converse},
	"converse-stream":             {op: converse, stream: true, wire: eventFrames},
	"invoke":                      {op: invoke},
	"invoke-with-response-stream": {op: invoke, stream: true, wire: eventFrames},
}

// route finds the endpoint of r. The status is 200, 404 or 405.
func route(r *http.Request) (endpoint, int) {
	e, ok := find(r.URL.Path, r.Method)
	if !ok {
		return e, http.StatusNotFound
	}
	if e.method != r.Method {
		return e, http.StatusMethodNotAllowed
	}
	if e.api == gemini && e.stream && r.URL.Query().Get("alt") != "sse" {
		e.wire = jsonArray
	}
	return e, http.StatusOK
}

func find(path, method string) (endpoint, bool) {
	if e, ok := fixed[path]; ok {
		return e, true
	}
	if rest, ok := strings.CutPrefix(path, "/v1beta/models/"); ok {
		name, verb, _ := strings.Cut(rest, ":")
		e, known := verbs[verb]
		e.api, e.name = gemini, name
		return e, known && name != ""
	}
	if rest, ok := strings.CutPrefix(path, "/model/"); ok {
		i := max(strings.LastIndexByte(rest, '/'), 0)
		e, known := actions[strings.TrimPrefix(rest[i:], "/")]
		e.api, e.method, e.name = bedrock, http.MethodPost, rest[:i]
		return e, known && e.name != ""
	}
	if rest, ok := strings.CutPrefix(path, "/openai/deployments/"); ok {
		name, verb, _ := strings.Cut(rest, "/")
		e, known := fixed["/v1/"+verb]
		e.name = name
		return e, known && name != "" && e.api == openai
	}
	if rest, ok := strings.CutPrefix(path, "/openai/v1/"); ok {
		return find("/v1/"+rest, method)
	}
	if strings.HasPrefix(path, "/openai/responses") { // by a dated version
		return find("/v1"+strings.TrimPrefix(path, "/openai"), method)
	}
	if name, ok := strings.CutPrefix(path, "/v1/models/"); ok {
		return endpoint{op: oneModel, method: http.MethodGet, name: name}, name != ""
	}
	if rest, ok := strings.CutPrefix(path, "/v1/responses/"); ok {
		return stored(rest, method)
	}
	return endpoint{}, false
}

// stored is the endpoint of a stored response: its id, or its id and /cancel.
func stored(rest, method string) (endpoint, bool) {
	if id, ok := strings.CutSuffix(rest, "/cancel"); ok {
		return endpoint{op: cancelResponse, method: http.MethodPost, name: id}, id != ""
	}
	e := endpoint{op: storedResponse, method: http.MethodGet, name: rest}
	if method == http.MethodDelete {
		e.method = method
	}
	return e, rest != "" && !strings.Contains(rest, "/")
}

// key is the API key of a request, wherever the API's clients put it.
func key(r *http.Request) string {
	for _, name := range [...]string{"X-Api-Key", "Api-Key", "X-Goog-Api-Key"} {
		if k := r.Header.Get(name); k != "" {
			return k
		}
	}
	if k, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return k
	}
	if r.URL.RawQuery == "" {
		return ""
	}
	return r.URL.Query().Get("key")
}
