package estimate

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"llmgw/internal/dialect"
	"llmgw/internal/tokens"
)

func TestChatsCostWhatTheirFormatAdds(t *testing.T) {
	hello := `{"role":"user","content":"hello"}`
	for _, s := range []struct {
		what, model, body string
		want              tokens.Count
	}{
		{"one message", "gpt-3.5-turbo", `"messages":[` + hello + `]`, 8},
		{"and another", "gpt-4", `"messages":[` + hello + `,` + hello + `]`, 13},
		{"none", "gpt-4o", `"messages":[]`, 3},
		{"a name costs its tokens and one", "gpt-4o", `"messages":[{"role":"user","name":"hello","content":"hello"}]`, 10},
		{"the first model had four a message, and names for nothing", "gpt-3.5-turbo-0301", `"messages":[{"role":"user","name":"hello","content":"hello"}]`, 9},
		{"reasoning models are primed with two", "o3-mini", `"messages":[` + hello + `]`, 7},
		{"gpt-5 too", "gpt-5-mini", `"messages":[` + hello + `]`, 7},
		{"and gpt-oss wherever it runs", "gpt-oss:120b", `"messages":[` + hello + `]`, 7},
		{"Qwen has five around a message", "qwen3", `"messages":[` + hello + `]`, 9},
		{"DeepSeek marks", "deepseek-chat", `"messages":[` + hello + `]`, 5},
		{"Mistral brackets", "open-mistral-nemo", `"messages":[` + hello + `]`, 4},
		{"Llama has headers", "llama-3.3-70b", `"messages":[` + hello + `]`, 11},
		{"a developer is a role", "gpt-4o", `"messages":[{"role":"developer","content":"hello"}]`, 8},
		{"a role unheard of costs no more", "gpt-4o", `"messages":[{"role":"critic","content":"hello"}]`, 8},
		{"but one of a thousand words does", "gpt-4o", `"messages":[{"role":"` + strings.Repeat("hello ", 1000) + `","content":"hello"}]`, 3 + 3 + 1 + 1001},
		{"a legacy function's result costs two less", "gpt-3.5-turbo", `"messages":[{"role":"function","name":"hello","content":"hello"}]`, 8},
		{"a legacy call three more", "gpt-3.5-turbo", `"messages":[{"role":"assistant","content":null,"function_call":{"name":"hello","arguments":"hello"}}]`, 3 + 4 + 2 + 3},
		{"parts cost their text", "gpt-4o", `"messages":[{"role":"user","content":[{"type":"text","text":"hello"},{"type":"text","text":"hello"}]}]`, 9},
		{"null is no text", "gpt-4o", `"messages":[{"role":"user","content":null}]`, 7},
		{"a refusal is text", "gpt-4o", `"messages":[{"role":"assistant","refusal":"hello"}]`, 8},
		{"reasoning that is sent back is text", "gpt-4o", `"messages":[{"role":"assistant","reasoning_content":"hello","content":"hello"}]`, 9},
		{"what is encrypted is not", "gpt-4o", `"messages":[{"type":"reasoning","encrypted_content":"` + strings.Repeat("gAAAAA", 500) + `"}]`, 6},
		{"a message that is a string is its text", "gpt-4o", `"messages":["hello"]`, 4},
		{"messages that are no list are nothing", "gpt-4o", `"messages":"hello"`, 0},
	} {
		if got := estimated(t, New(Config{}), call(t, dialect.Chat, `{`+s.body+`}`), Rules{Model: s.model}); got.Input != s.want {
			t.Errorf("%s: %d, want %d: %+v", s.what, got.Input, s.want, got.Parts)
		}
	}
}

const tool = `{"type":"function","function":{"name":"hello"}}`

func TestToolsCostTheirDeclarationsAndNine(t *testing.T) {
	declared := count(t, "namespace functions {\n\ntype hello = () => any;\n\n} // namespace functions")
	twice := count(t, "namespace functions {\n\ntype hello = () => any;\n\ntype hello = () => any;\n\n} // namespace functions")
	for _, s := range []struct {
		what, model, body string
		want              int
	}{
		{"a tool", "gpt-4o", `"tools":[` + tool + `]`, declared + 9},
		{"two of them", "gpt-4o", `"tools":[` + tool + `,` + tool + `]`, twice + 9},
		{"a function, as it was once", "gpt-4o", `"functions":[{"name":"hello"}]`, declared + 9},
		{"a tool of the Responses API has no function inside", "gpt-4o", `"tools":[{"type":"function","name":"hello"}]`, declared + 9},
		{"none of them", "gpt-4o", `"tools":[` + tool + `],"tool_choice":"none"`, declared + 9 + 1},
		{"whichever", "gpt-4o", `"tools":[` + tool + `],"tool_choice":"auto"`, declared + 9},
		{"this one", "gpt-4o", `"tools":[` + tool + `],"tool_choice":{"type":"function","function":{"name":"hello"}}`, declared + 9 + 1 + 7},
		{"this one, in the Responses API", "gpt-4o", `"tools":[` + tool + `],"tool_choice":{"type":"function","name":"hello"}`, declared + 9 + 1 + 7},
		{"this function", "gpt-4o", `"functions":[{"name":"hello"}],"function_call":{"name":"hello"}`, declared + 9 + 1 + 4},
		{"beside a system message", "gpt-4o", `"tools":[` + tool + `],"messages":[{"role":"system","content":"hello"}]`, declared + 9 - 4 + 1},
		{"whose line feed joins its full stop", "gpt-4o", `"tools":[` + tool + `],"messages":[{"role":"system","content":"hello."}]`, declared + 9 - 4},
		{"only the first one gets it", "gpt-4o", `"tools":[` + tool + `],"messages":[{"role":"system","content":"hello."},{"role":"system","content":"hello"}]`, declared + 9 - 4},
		{"a long one too", "gpt-4o", fmt.Sprintf(`"tools":[`+tool+`],"messages":[{"role":"system","content":%q}]`, long+"hello"), declared + 9 - 4 + 1},
		{"reasoning models have more around them", "o4-mini", `"tools":[` + tool + `]`, declared + 12},
		{"gpt-5", "gpt-5", `"tools":[` + tool + `]`, declared + 17},
		{"and its successors most", "gpt-5.1", `"tools":[` + tool + `]`, declared + 96},
		{"an empty list is nothing", "gpt-4o", `"tools":[]`, 0},
		{"nor is null", "gpt-4o", `"tools":null`, 0},
		{"tools that are built in count as JSON", "gpt-4o", `"tools":[{"type":"web_search"}]`, count(t, `{"type":"web_search"}`) + 9},
		{"Gemini sees JSON", "gemini-2.5-flash", `"tools":[ ` + tool + ` ]`, int(scale(count(t, "["+tool+"]"), startFactors(model{family: gemini}, "")[latin]))},
	} {
		got := estimated(t, New(Config{}), call(t, dialect.Chat, `{`+s.body+`}`), Rules{Model: s.model})
		if int(got.Parts.Tools) != s.want {
			t.Errorf("%s: %d, want %d", s.what, got.Parts.Tools, s.want)
		}
	}
}

func TestSchemasForTheAnswerInEveryAPI(t *testing.T) {
	schema := `{"type":"object","properties":{"a":{"type":"string"}}}`
	n := count(t, schema)
	for _, s := range []struct {
		what, model, body string
		want              int
	}{
		{"OpenAI's chats", "gpt-4o", `"response_format":{"type":"json_schema","json_schema":{"name":"hello","description":"hello","schema":` + schema + `}}`, n + 2 + schemaMargin},
		{"OpenAI's responses", "gpt-4o", `"text":{"format":{"type":"json_schema","name":"hello","schema":` + schema + `}}`, n + 1 + schemaMargin},
		{"Anthropic's", "gpt-oss", `"output_config":{"format":{"type":"json_schema","schema":` + schema + `}}`, n + schemaMargin},
		{"Ollama's", "gpt-oss", `"format":` + schema, n + schemaMargin},
		{"or one without a type", "gpt-oss", `"format":{"properties":{}}`, count(t, `{"properties":{}}`) + schemaMargin},
		{"Gemini's", "gpt-oss", `"generationConfig":{"responseSchema":` + schema + `}`, n + schemaMargin},
		{"Gemini's as its older clients write it", "gpt-oss", `"generation_config":{"response_schema":` + schema + `}`, n + schemaMargin},
		{"Gemini's JSON schema", "gpt-oss", `"generationConfig":{"responseJsonSchema":` + schema + `}`, n + schemaMargin},
		{"and before that had its name", "gpt-oss", `"generationConfig":{"_responseJsonSchema":` + schema + `}`, n + schemaMargin},
		{"a schema that is no object", "gpt-oss", `"generationConfig":{"responseSchema":"hello"}`, 0},
		{"Cohere's JSON has a form", "gpt-oss", `"response_format":{"type":"json_object","json_schema":` + schema + `}`, n + jsonMargin},
		{"Together's too", "gpt-oss", `"response_format":{"type":"json_object","schema":` + schema + `}`, n + jsonMargin},
		{"JSON of any form", "gpt-oss", `"response_format":{"type":"json_object"}`, 10},
		{"a schema by alternatives", "gpt-oss", `"format":{"anyOf":[]}`, count(t, `{"anyOf":[]}`) + 15},
		{"or by reference", "gpt-oss", `"format":{"$ref":"#/a"}`, count(t, `{"$ref":"#/a"}`) + 15},
		{"Ollama's word for JSON costs nothing", "gpt-oss", `"format":"json"`, 0},
		{"effort is no schema", "gpt-oss", `"output_config":{"effort":"high"}`, 0},
	} {
		got := estimated(t, New(Config{}), call(t, dialect.Chat, `{`+s.body+`}`), Rules{Model: s.model})
		if int(got.Parts.Tools) != s.want {
			t.Errorf("%s: %d, want %d", s.what, got.Parts.Tools, s.want)
		}
	}
}

func TestNoTextHasMoreTokensThanBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(71, 72))
	e := warm(t)
	for range 300 {
		text := make([]rune, r.IntN(300))
		for i := range text {
			text[i] = rune(r.IntN(0x3000))
		}
		body := fmt.Sprintf(`{"prompt":%q}`, strings.ToValidUTF8(string(text), ""))
		if got := estimated(t, e, call(t, dialect.Completion, body), Rules{Model: "gpt-4o"}); int(got.Input) > len(string(text)) {
			t.Fatalf("%q: %d tokens for %d bytes", string(text), got.Input, len(string(text)))
		}
	}
}

func TestEveryFurtherMessageCostsMore(t *testing.T) {
	e := warm(t)
	for _, model := range []string{"gpt-4o", "o3", "claude-opus-4-7", "gemini-3-pro", "llama-3.3", "qwen3"} {
		var last tokens.Count
		for i, body := range turns(15) {
			got := estimated(t, e, call(t, dialect.Chat, body), Rules{Model: model})
			if got.Input <= last {
				t.Errorf("%s: turn %d has %d tokens, the one before %d", model, i, got.Input, last)
			}
			last = got.Input
		}
	}
}
