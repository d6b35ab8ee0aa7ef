package fakellm

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
)

// request is what a Provider reads of a request.
type request struct {
	endpoint
	model  string
	script *Script
	prompt int64 // bytes of what the model reads
	items  int64 // inputs of an embedding or moderation; ≥ 1
	output int64 // the most output tokens of one choice, or -1
	n      int64 // choices, ≥ 1

	wantUsage  bool // a stream shall report usage
	options    bool // stream_options is there
	base64     bool // embeddings as base64
	dimensions int64
	background bool
	calls      map[string]string // Options.Calls
	tool       string            // the name of the tool to call: one of calls, else the first
	result     bool              // a tool's result is there
	gzip       bool              // the client takes compressed answers
}

// readRequest reads body, a request to e. A fault with a status means that it
// is not one.
func readRequest(e endpoint, body []byte, calls map[string]string) (*request, fault) {
	q := &request{endpoint: e, model: e.name, output: -1, n: 1, items: 1, calls: calls}
	if len(body) == 0 && e.method != http.MethodPost {
		return q, fault{}
	}
	if len(body) == 0 && e.op == cancelResponse {
		return q, fault{}
	}
	read := func(body []byte) error { return members(body, q.member) }
	if bytes.HasPrefix(body, []byte("--")) && (e.op == pictures || e.op == transcripts) {
		read = q.form
	}
	if err := read(body); err != nil {
		return q, fault{status: http.StatusBadRequest, message: "We could not parse the JSON body of your request."}
	}
	if q.model == "" && e.op == moderations {
		q.model = "omni-moderation-latest" // the API's own default
	}
	switch {
	case q.model == "":
		return q, fault{status: http.StatusBadRequest, param: "model", message: "you must provide a model parameter"}
	case e.op == messages && q.output < 0:
		return q, fault{status: http.StatusBadRequest, param: "max_tokens", message: "max_tokens: Field required"}
	case e.op == completion && q.output < 0:
		q.output = 16 // the API's own default
	}
	return q, fault{}
}

// member takes one top-level member of the body.
func (q *request) member(key string, value []byte) {
	switch key {
	case "model":
		if q.name == "" {
			q.model = unquote(value)
		}
	case "messages", "prompt", "contents", "content", "system", "systemInstruction", "system_instruction", "instructions", "functions", "query":
		q.prompt += int64(len(value))
		q.result = q.result || holdsResult(value)
	case "input", "requests", "texts", "documents":
		q.prompt += int64(len(value))
		q.items = elements(value)
		q.result = q.result || holdsResult(value)
	case "tools":
		q.prompt += int64(len(value))
		q.tool = q.choose(value)
	case "stream":
		q.stream = string(value) == "true" || q.stream && string(value) != "false"
	case "stream_options":
		q.options = string(value) != "null"
		var o struct {
			IncludeUsage bool `json:"include_usage"`
		}
		q.wantUsage = json.Unmarshal(value, &o) == nil && o.IncludeUsage
	case "max_tokens", "max_completion_tokens", "max_output_tokens":
		if n, err := strconv.ParseInt(string(value), 10, 64); err == nil {
			q.output = max(q.output, n)
		}
	case "generationConfig", "generation_config":
		q.generationConfig(value)
	case "inferenceConfig", "options":
		q.inferenceConfig(value)
	case "toolConfig":
		q.prompt += int64(len(value))
		var c struct{ Tools json.RawMessage }
		if json.Unmarshal(value, &c) == nil && len(c.Tools) > 0 { // Gemini's has none
			q.tool = q.choose(c.Tools)
		}
	case "n":
		if n, err := strconv.ParseInt(string(value), 10, 64); err == nil {
			q.n = min(max(n, 1), 128)
		}
	case "dimensions":
		q.dimensions, _ = strconv.ParseInt(string(value), 10, 32) // not a number: the default
	case "encoding_format":
		q.base64 = string(value) == `"base64"`
	case "background":
		q.background = string(value) == "true"
	}
}

func (q *request) generationConfig(value []byte) {
	var c struct {
		Max   *int64 `json:"maxOutputTokens"`
		Max2  *int64 `json:"max_output_tokens"`
		Count int64  `json:"candidateCount"`
	}
	if json.Unmarshal(value, &c) != nil {
		return
	}
	for _, m := range [...]*int64{c.Max, c.Max2} {
		if m != nil {
			q.output = max(q.output, *m)
		}
	}
	q.n = min(max(c.Count, 1), 8)
}

// inferenceConfig reads the bounds of Bedrock and of Ollama, where those below 0
// are none.
func (q *request) inferenceConfig(value []byte) {
	var c struct {
		Max     *int64 `json:"maxTokens"`
		Predict *int64 `json:"num_predict"`
	}
	if json.Unmarshal(value, &c) != nil {
		return
	}
	for _, m := range [...]*int64{c.Max, c.Predict} {
		if m != nil {
			q.output = max(q.output, *m)
		}
	}
}

// input is the number of tokens that the prompt counts as.
func (q *request) input() int64 {
	if q.script != nil && q.script.Input >= 0 {
		return q.script.Input
	}
	return max(ceilDiv(q.prompt, 4), 1)
}

// cost is what q counts against the provider's limit of tokens as it arrives.
func (q *request) cost(o Options) int64 {
	switch q.op {
	case chat, completion, responses, messages, generate, converse, invoke, cohereChat, ollamaChat, ollamaGenerate:
	case embeddings, embedContent, batchEmbed, cohereEmbed, ollamaEmbed, pictures, speech, transcripts:
		return q.input()
	default:
		return 0
	}
	if o.TokenCost == CostInput {
		return q.input()
	}
	output := q.output
	if output < 0 {
		output = o.DefaultMaxOutput
	}
	return q.input() + min(output, maxTokens)*q.n
}

// elements is how many inputs value holds: those of an array of strings or of
// arrays, else one.
func elements(value []byte) int64 {
	var list []json.RawMessage
	if len(value) == 0 || value[0] != '[' || json.Unmarshal(value, &list) != nil || len(list) == 0 {
		return 1
	}
	if c := list[0][0]; c != '"' && c != '[' && c != '{' {
		return 1 // token ids
	}
	return int64(len(list))
}

// resultMarks are what a tool's result begins with in the APIs, without spaces.
var resultMarks = [][]byte{[]byte(`"role":"tool"`), []byte(`"type":"tool_result"`), []byte(`"type":"function_call_output"`), []byte(`"functionResponse":`), []byte(`"toolResult":`)}

// holdsResult reports whether messages, as clients write them without spaces,
// hold a tool's result.
func holdsResult(messages []byte) bool {
	return slices.ContainsFunc(resultMarks, func(mark []byte) bool { return bytes.Contains(messages, mark) })
}

// choose returns the name of the tool to call of any API's list: one with
// arguments in q.calls, else the first.
func (q *request) choose(value []byte) string {
	names := toolNames(value)
	if len(names) == 0 {
		return ""
	}
	for _, name := range names {
		if q.calls[name] != "" {
			return name
		}
	}
	return names[0]
}

// toolNames are the tools in any API's list of them.
func toolNames(value []byte) []string {
	type named struct {
		Name string `json:"name"`
	}
	var tools []struct {
		named
		Function     named   `json:"function"`
		Spec         named   `json:"toolSpec"`
		Declarations []named `json:"functionDeclarations"`
		Snake        []named `json:"function_declarations"`
	}
	if json.Unmarshal(value, &tools) != nil {
		return nil
	}
	var names []string
	for _, t := range tools {
		for _, one := range slices.Concat([]named{t.named, t.Function, t.Spec}, t.Declarations, t.Snake) {
			if one.Name != "" {
				names = append(names, one.Name)
			}
		}
	}
	return names
}
