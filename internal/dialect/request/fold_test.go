package request

import (
	"testing"

	"llmgw/internal/dialect"
	"llmgw/internal/fault"
)

func TestANameThatFoldsToAKnownOneIsRefused(t *testing.T) {
	for _, key := range []string{"MODEL", "Model", "\u017ftream", "\\u017ftream", "OPTIONS", "Max_Tokens", "max_to\u212aens", "maxoutputtokens", "generationconfig", "STREAM_OPTIONS", "N"} {
		_, err := Read(dialect.Request{Body: []byte(`{"model":"m","` + key + `":1}`)})
		if f := fault.From(err); f == nil || f.Code != fault.InvalidRequest {
			t.Errorf("%s: got %v, want an invalid request", key, err)
		}
		b, err := Read(dialect.Request{Body: []byte(`{"model":"m","options":{"` + key + `":1}}`)})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := b.Within("options"); fault.From(err) == nil {
			t.Errorf("%s, one level below: got no error", key)
		}
	}
	for _, key := range []string{"maxTokens", "generationConfig", "X-Thing", "Temperatur", "strea\u0131m", "logit_bias", "toolChoice2"} {
		if _, err := Read(dialect.Request{Body: []byte(`{"model":"m","` + key + `":1}`)}); err != nil {
			t.Errorf("%s: got %v", key, err)
		}
	}
}

func TestANameThatFoldsIsRefusedWhereMembersOfValuesAreRead(t *testing.T) {
	for what, body := range map[string]string{
		"a message":                     `{"messages":[{"role":"user","Content":"x"}]}`,
		"a later message":               `{"messages":[{"role":"user","content":"x"},{"Role":"user","content":"x"}]}`,
		"a name with an escape":         `{"messages":[{"role":"user","\u0043ontent":"x"}]}`,
		"a name in an escaped one":      `{"m\u0065ssages":[{"role":"user","Content":"x"}]}`,
		"a part":                        `{"messages":[{"role":"user","content":[{"type":"text","TEXT":"x"}]}]}`,
		"a long s":                      "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\",\"\u017fource\":{}}]}]}",
		"an image":                      `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"Url":"x"}}]}]}`,
		"a part of a result":            `{"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"text","Text":"x"}]}]}]}`,
		"a call":                        `{"messages":[{"role":"assistant","tool_calls":[{"function":{"Arguments":"{}"}}]}]}`,
		"a tool":                        `{"tools":[{"type":"function","Function":{}}]}`,
		"a tool's function":             `{"tools":[{"type":"function","function":{"Parameters":{}}}]}`,
		"a function":                    `{"functions":[{"Name":"f"}]}`,
		"an item of Responses":          `{"input":[{"role":"user","content":[{"type":"input_text","Text":"x"}]}]}`,
		"Anthropic's system":            `{"system":[{"type":"text","text":"x","Cache_Control":{}}]}`,
		"Anthropic's tools":             `{"tools":[{"name":"f","Input_Schema":{}}]}`,
		"Anthropic's thinking":          `{"thinking":{"type":"enabled","Budget_Tokens":1}}`,
		"Gemini's contents":             `{"contents":[{"Parts":[{"text":"x"}]}]}`,
		"Gemini's parts":                `{"contents":[{"parts":[{"inlinedata":{}}]}]}`,
		"Gemini's system":               `{"system_instruction":{"parts":[{"Text":"x"}]}}`,
		"Gemini's declarations":         `{"tools":[{"functiondeclarations":[]}]}`,
		"Gemini's requests":             `{"requests":[{"MODEL":"x","content":{"parts":[{"text":"x"}]}}]}`,
		"Gemini's wrapped request":      `{"generateContentRequest":{"contents":[{"parts":[{"Text":"x"}]}]}}`,
		"Gemini's configuration":        `{"generationConfig":{"thinkingConfig":{"thinkingbudget":1}}}`,
		"Gemini's configuration, below": `{"generation_config":{"MaxOutputTokens":1}}`,
		"Bedrock's messages":            `{"messages":[{"role":"user","content":[{"toolResult":{"Content":[]}}]}]}`,
		"Bedrock's tools":               `{"toolConfig":{"tools":[{"toolspec":{}}]}}`,
		"Bedrock's counting":            `{"input":{"converse":{"messages":[{"Role":"user"}]}}}`,
		"Bedrock's bound":               `{"inferenceConfig":{"MaxTokens":1}}`,
		"a bound without Within":        `{"textGenerationConfig":{"maxtokencount":1}}`,
	} {
		_, err := Read(dialect.Request{Body: []byte(body)})
		if f := fault.From(err); f == nil || f.Code != fault.InvalidRequest || f.Param == "" {
			t.Errorf("%s, %s: got %v, want an invalid request", what, body, err)
		}
	}
}

func TestANameWithinAClientsOwnDataIsItsOwn(t *testing.T) {
	for what, body := range map[string]string{
		"metadata":              `{"metadata":{"Model":"x","User":"y"}}`,
		"a schema":              `{"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"Name":{"type":"string"},"URL":{},"Model":{"Type":1}}}}}]}`,
		"a schema of Anthropic": `{"tools":[{"name":"f","input_schema":{"properties":{"Input":{}}}}]}`,
		"a schema of Gemini":    `{"tools":[{"functionDeclarations":[{"name":"f","parameters":{"properties":{"Text":{}}}}]}],"generationConfig":{"responseSchema":{"properties":{"Text":{}}}}}`,
		"a schema of Bedrock":   `{"toolConfig":{"tools":[{"toolSpec":{"name":"f","inputSchema":{"json":{"properties":{"Text":{}}}}}}]}}`,
		"a schema of an answer": `{"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"properties":{"Content":{}}}}}}`,
		"a schema of Responses": `{"text":{"format":{"type":"json_schema","schema":{"properties":{"Content":{}}}}}}`,
		"a schema of Ollama":    `{"format":{"type":"object","properties":{"Content":{}}}}`,
		"arguments of Ollama":   `{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{"Name":"x"}}}]}]}`,
		"arguments in a string": `{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{\"Name\":1}"}}]}]}`,
		"input of Anthropic":    `{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{"Text":"x","Input":[{"Type":1}]}}]}]}`,
		"arguments of Gemini":   `{"contents":[{"parts":[{"functionCall":{"name":"f","args":{"Text":"x"}}},{"functionResponse":{"name":"f","response":{"Content":"x"}}}]}]}`,
		"arguments of Bedrock":  `{"messages":[{"role":"assistant","content":[{"toolUse":{"name":"f","input":{"Text":1}}},{"toolResult":{"content":[{"json":{"Text":1}}]}}]}]}`,
		"headers of a server":   `{"tools":[{"type":"mcp","headers":{"Text":"x","User":"y"}}]}`,
		"variables of a prompt": `{"prompt":{"id":"x","variables":{"Name":"x"}}}`,
		"documents of Cohere":   `{"documents":[{"Text":"x","Title":"y"}]}`,
		"text":                  `{"messages":[{"role":"user","content":"{\"Content\":1}"}]}`,
		"other names":           `{"messages":[{"role":"user","content":[{"type":"text","text":"x","Other":{"Text":1}}]}]}`,
	} {
		if _, err := Read(dialect.Request{Body: []byte(body)}); err != nil {
			t.Errorf("%s, %s: got %v", what, body, err)
		}
	}
}

func TestABrokenBodyIsNamedBeforeItsNames(t *testing.T) {
	_, err := Read(dialect.Request{Body: []byte(`{"messages":[{"Role":"user"}]`)})
	if f := fault.From(err); f == nil || f.Param != "" {
		t.Errorf("got %v, want what is wrong with the JSON", err)
	}
}
