package blackbox

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"llmgw/internal/dialect/dialecttest"
	"llmgw/internal/gatewaytest"
	"llmgw/internal/testenv"
)

// fixtures is where the recordings are: the whole collection that LLMGW_SHARED
// names, else the part that is in this repository.
func fixtures() string {
	if whole, ok := testenv.Shared("fixtures"); ok {
		return whole
	}
	return "../dialect/testdata"
}

// source is how a recorded answer is asked for.
type source struct {
	dialect, flavor string
	path            string // {} stands for the model
	streamPath      string // of a stream, where it has another; "": the same
	body            string // {} stands for the model, {stream} for whether
}

const chatMessages = `"messages":[{"role":"user","content":"hi"}]`

// sources are by the recordings' names of APIs. What is not here are native
// APIs of LM Studio, llama.cpp and Gemini that the gateway does not have.
var sources = func() map[string]source {
	chatBody := `{"model":"{}","max_tokens":50,"stream":{stream},` + chatMessages + `}`
	openai := func(flavor string) source {
		return source{dialect: "openai", flavor: flavor, path: chat, body: chatBody}
	}
	at := func(path, body string) source { return source{dialect: "openai", path: path, body: body} }
	of := func(dialect, path, streamPath, body string) source {
		return source{dialect: dialect, path: path, streamPath: streamPath, body: body}
	}
	anthropic := of("anthropic", "/v1/messages", "", `{"model":"{}","max_tokens":50,"stream":{stream},`+chatMessages+`}`)
	gemini := of("gemini", "/v1beta/models/{}:generateContent", "/v1beta/models/{}:streamGenerateContent", geminiBody)
	converse := of("bedrock", "/model/{}/converse", "/model/{}/converse-stream", `{"messages":[{"role":"user","content":[{"text":"hi"}]}]}`)
	cohere := of("cohere", "/v2/chat", "", chatBody)
	ollama := of("ollama", "/api/chat", "", `{"model":"{}","stream":{stream},`+chatMessages+`}`)
	azure := of("azure", "/openai/deployments/{}/chat/completions?api-version=2024-10-21", "", `{"stream":{stream},`+chatMessages+`}`)
	all := map[string]source{
		"anthropic.messages": anthropic, "anthropic.error": anthropic,
		"anthropic.count_tokens": of("anthropic", "/v1/messages/count_tokens", "", `{"model":"{}",`+chatMessages+`}`),
		"azure.chat":             azure, "azure.error": azure,
		"bedrock.converse": converse, "bedrock.error": converse,
		"bedrock.invoke": of("bedrock", "/model/{}/invoke", "/model/{}/invoke-with-response-stream", `{"anthropic_version":"bedrock-2023-05-31","max_tokens":50,`+chatMessages+`}`),
		"cohere.chat":    cohere, "cohere.error": cohere,
		"cohere.embed":    of("cohere", "/v2/embed", "", `{"model":"{}","texts":["a"],"input_type":"search_query"}`),
		"cohere.rerank":   of("cohere", "/v2/rerank", "", `{"model":"{}","query":"q","documents":["a"]}`),
		"gemini.generate": gemini, "gemini.error": gemini,
		"gemini.count_tokens": of("gemini", "/v1beta/models/{}:countTokens", "", `{"contents":[{"parts":[{"text":"hi"}]}]}`),
		"ollama.chat":         ollama, "ollama.error": ollama,
		"ollama.generate":             of("ollama", "/api/generate", "", `{"model":"{}","stream":{stream},"prompt":"hi"}`),
		"ollama.embed":                of("ollama", "/api/embed", "", `{"model":"{}","input":"hi"}`),
		"openai.completions":          at("/v1/completions", `{"model":"{}","max_tokens":50,"stream":{stream},"prompt":"hi"}`),
		"openai.responses":            at("/v1/responses", `{"model":"{}","max_output_tokens":50,"stream":{stream},"input":"hi"}`),
		"openai.embeddings":           at("/v1/embeddings", `{"model":"{}","input":"hi"}`),
		"openai.moderations":          at("/v1/moderations", `{"model":"{}","input":"hi"}`),
		"openai.images":               at("/v1/images/generations", `{"model":"{}","prompt":"hi","stream":{stream}}`),
		"openai.audio.speech":         at("/v1/audio/speech", `{"model":"{}","input":"hi","voice":"alloy","stream_format":"sse"}`),
		"openai.audio.transcriptions": at("/v1/audio/transcriptions", "multipart"),
	}
	for _, flavor := range []string{"openai", "mistral", "deepseek", "groq", "openrouter", "together", "fireworks", "xai", "perplexity", "vllm", "llamacpp", "lmstudio"} {
		all[flavor+".chat"], all[flavor+".error"] = openai(flavor), openai(flavor)
	}
	return all
}()

// replay serves the recorded answer that a request's X-Fixture names.
type replay map[string]dialecttest.Answer

func (all replay) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a, ok := all[r.Header.Get("X-Fixture")]
	if _, err := io.Copy(io.Discard, r.Body); err != nil || !ok {
		http.Error(w, "no such fixture", http.StatusTeapot)
		return
	}
	w.Header().Set("Content-Type", a.HTTP.ContentType)
	for name, value := range a.HTTP.Headers {
		w.Header().Set(name, value)
	}
	w.WriteHeader(a.HTTP.Status)
	if _, err := w.Write(a.Body); err != nil {
		panic(http.ErrAbortHandler) // the gateway left
	}
}

// model is the name by which a recording is asked for.
func model(file string) string { return strings.ReplaceAll("fx-"+file, ".", "-") }

// wants is what providers of some dialects must have besides.
var wants = map[string]string{"bedrock": ", region: us-east-1", "azure": ", api_version: \"2024-10-21\""}

// onReplay starts a gateway before a server of recordings, each of which has a
// provider of its own: what one says of its limits is nothing to the others.
func onReplay(t *testing.T, all replay) *world {
	t.Helper()
	server := httptest.NewServer(all)
	t.Cleanup(server.Close)
	set := setup{limits: monthly("tokens", "tokens", 1_000_000_000)}
	for file, a := range all {
		s := sources[a.Dialect]
		base, more := server.URL, wants[s.dialect]
		if s.dialect == "openai" {
			base += "/v1"
		}
		if s.flavor != "" {
			more += ", flavor: " + s.flavor
		}
		set.providers += fmt.Sprintf("{name: %s, dialect: %s%s, base_url: %s, api_keys: [sk-p], retries: {attempts: 0}}\n", model(file), s.dialect, more, base)
		set.models += fmt.Sprintf("{name: %s, targets: [{provider: %s}]}\n", model(file), model(file))
	}
	return start(t, set)
}

// askFor asks for a recorded answer.
func (w *world) askFor(a dialecttest.Answer, usage string) (gatewaytest.Answer, error) {
	s := sources[a.Dialect]
	path, body, kind := s.path, s.body, "application/json"
	if a.Stream && s.streamPath != "" {
		path = s.streamPath
		if strings.HasPrefix(a.HTTP.ContentType, "text/event-stream") {
			path += "?alt=sse"
		}
	}
	path, body = strings.ReplaceAll(path, "{}", model(a.File)), strings.ReplaceAll(body, "{}", model(a.File))
	body = strings.ReplaceAll(body, "{stream}", fmt.Sprint(a.Stream))
	if a.Stream && usage != "" {
		body = strings.Replace(body, `"stream":true`, `"stream":true,`+usage, 1)
	}
	if body == "multipart" {
		body, kind = form(model(a.File), a.Stream), "multipart/form-data; boundary=zzz"
	}
	return w.Try(secret, path, body, "X-Fixture", a.File, "Content-Type", kind)
}

// form is a transcription's body, with the file before the model.
func form(model string, stream bool) string {
	return "--zzz\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\nContent-Type: audio/wav\r\n\r\nRIFF\x00\x01--zz\r\n" +
		"--zzz\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n" + model + "\r\n" +
		fmt.Sprintf("--zzz\r\nContent-Disposition: form-data; name=\"stream\"\r\n\r\n%v\r\n", stream) + "--zzz--\r\n"
}

const askUsage = `"stream_options":{"include_usage":true}`
