package estimate

import (
	"fmt"
	"strings"
	"testing"

	"llmgw/internal/dialect"
)

func TestEverySectionOfABodyIsCounted(t *testing.T) {
	schema := `{"type":"object","properties":{"a":{"type":"string"}}}`
	for _, s := range []struct {
		body string
		want Parts
	}{
		{`"system":"hello"`, Parts{Text: 1}}, {`"systemInstruction":{"parts":[{"text":"hello"}]}`, Parts{Text: 1}},
		{`"system_instruction":{"parts":[{"text":"hello"}]}`, Parts{Text: 1}}, {`"suffix":"hello"`, Parts{Text: 1}},
		{`"message":"hello"`, Parts{Text: 1}}, {`"query":"hello"`, Parts{Text: 1}}, {`"documents":["hello","hello"]`, Parts{Text: 2}},
		{`"texts":["hello","hello"]`, Parts{Text: 2}}, {`"inputs":[{"content":[{"type":"text","text":"hello"}]}]`, Parts{Text: 1}},
		{`"inputText":"hello"`, Parts{Text: 1}}, {`"preamble":"hello"`, Parts{Text: 1}}, {`"title":"hello"`, Parts{Text: 1}},
		{`"template":"hello"`, Parts{Text: 1}}, {`"chat_history":[{"role":"USER","message":"hello"}]`, Parts{Text: 1}},
		{`"prompt":"hello"`, Parts{Text: 1}}, {`"input":"hello"`, Parts{Text: 1}}, {`"content":{"parts":[{"text":"hello"}]}`, Parts{Text: 1}},
		{`"messages":[]`, Parts{Messages: 2}}, {`"contents":[]`, Parts{Messages: 2}},
		{`"images":["` + png(100, 100) + `"]`, Parts{Images: 255}}, {`"image":"` + png(100, 100) + `"`, Parts{Images: 255}},
		{`"requests":[{"content":{"parts":[{"text":"hello"}]}}]`, Parts{Text: 1}},
		{`"format":` + schema, Parts{Tools: 0}},
		{`"instructions":"hello"`, Parts{Text: 1}},
		{`"user":"hello","metadata":{"a":"hello"},"model":"hello","stop":["hello"]`, Parts{}},
	} {
		got := estimated(t, New(Config{}), call(t, dialect.Embeddings, `{`+s.body+`}`), Rules{Model: "gpt-oss"}).Parts
		s.want.Factor, s.want.Output = 1, got.Output
		if strings.HasPrefix(s.body, `"format"`) {
			got.Tools = 0 // which TestSchemasForTheAnswerInEveryAPI counts
		}
		if got != s.want {
			t.Errorf("%s: %+v, want %+v", s.body, got, s.want)
		}
	}
}

func TestToolsInEverySectionAreCounted(t *testing.T) {
	list := int(estimated(t, New(Config{}), call(t, dialect.Chat, `{"tools":[`+tool+`]}`), Rules{Model: "gpt-oss"}).Parts.Tools)
	for _, body := range []string{
		`{"functions":[{"name":"hello"}]}`, `{"toolConfig":{"tools":[` + tool + `]}}`, `{"tool_config":{"tools":[` + tool + `]}}`,
	} {
		if got := int(estimated(t, New(Config{}), call(t, dialect.Chat, body), Rules{Model: "gpt-oss"}).Parts.Tools); got != list {
			t.Errorf("%s: %d, want %d", body, got, list)
		}
	}
	json := count(t, `[{"type":"x"}]`)
	for _, body := range []string{`{"toolConfig":{"tools":[{"type":"x"}]}}`, `{"tools":[ {"type": "x"} ]}`} {
		got := int(estimated(t, New(Config{}), call(t, dialect.Chat, body), Rules{Model: "qwen-plus", Encoding: "o200k_base"}).Parts.Tools)
		if want := int(scale(json, startFactors(model{family: qwen}, "")[latin])) + 92; got != want {
			t.Errorf("Qwen, %s: %d, want %d", body, got, want)
		}
	}
}

func TestContextThatTheBodyDoesNotShowTeachesNothing(t *testing.T) {
	for _, member := range []string{"previous_response_id", "conversation", "cachedContent", "cached_content", "container", "mcp_servers", "web_search_options"} {
		for value, want := range map[string]bool{`"x"`: false, `{"a":1}`: false, `null`: true} {
			got := estimated(t, New(Config{}), call(t, dialect.Chat, fmt.Sprintf(`{"messages":[],%q:%s}`, member, value)), Rules{Model: "claude-x"})
			if got.teaches() != want {
				t.Errorf("%s: %s: teaches %v, want %v", member, value, got.teaches(), want)
			}
		}
	}
	for tool, want := range map[string]bool{
		`{"name":"f","input_schema":{}}`: true, `{"type":"custom","name":"f"}`: true, tool: true, `{"toolSpec":{"name":"f"}}`: true, `{"cachePoint":{}}`: true,
		`{"functionDeclarations":[]}`: true, `{"function_declarations":[]}`: true,
		`{"type":"web_search_20250305","name":"web_search"}`: false, `{"type":"bash_20250124","name":"bash"}`: false, `{"type":"mcp"}`: false,
		`{"googleSearch":{}}`: false, `{"code_execution":{}}`: false,
	} {
		for _, model := range []string{"claude-x", "my-deployment"} {
			e, c := New(Config{}), call(t, dialect.Chat, fmt.Sprintf(`{"messages":[],"tools":[{"name":"a","description":%q},%s,{"name":"z"}]}`, long, tool))
			got := estimated(t, e, c, Rules{Model: model})
			if again := estimated(t, e, c, Rules{Model: model}); got.teaches() != want || again != got {
				t.Errorf("%s with the tool %s: teaches %v, want %v", model, tool, got.teaches(), want)
			}
		}
	}
	if estimated(t, New(Config{}), call(t, dialect.Responses, `{"prompt":{"id":"pmpt_1","variables":{"a":"hello"}},"input":"x"}`), Rules{Model: "claude-x"}).teaches() {
		t.Error("a stored prompt teaches")
	}
}

func TestSchemasAreRenderedDownToADepth(t *testing.T) {
	nested := func(n int) []byte {
		return []byte(strings.Repeat(`{"type":"array","items":`, n) + `{"type":"string"}` + strings.Repeat(`}`, n))
	}
	for n, want := range map[int]string{0: "string", 12: "string" + strings.Repeat("[]", 12), 13: `{"type":"string"}` + strings.Repeat("[]", 13), 40: string(nested(27)) + strings.Repeat("[]", 13)} {
		var d declarations
		d.schema(nested(n), 0, 0)
		if got := string(d.out); got != want {
			t.Errorf("%d arrays: %s, want %s", n, got, want)
		}
	}
	for kind, want := range map[string]string{
		`{"type":"integer"}`: "number", `{"type":"number"}`: "number", `{"type":"boolean"}`: "boolean", `{"type":"null"}`: "null", `{"type":"STRING"}`: "string",
		`{"type":"array"}`: "any[]", `{"type":"array","items":[]}`: "any[]", `{}`: "any", `{"type":"file"}`: "any", `{"type":7}`: "any",
		`{"type":["string","null"]}`: "string | null", `{"anyOf":[{"type":"string"},{"type":"integer"}]}`: "string | number",
		`{"type":"string","enum":["a","b"]}`: `"a" | "b"`, `{"type":"integer","enum":[1,2]}`: "1 | 2", `{"type":"string","enum":[]}`: "string",
		`{"anyOf":{}}`: "any{}", `{"oneOf":[{"type":"string"},{}]}`: "string | any", `{"allOf":[{"$ref":"#/$defs/a"}]}`: `any"#/$defs/a"`,
		`{"enum":["a",1,null]}`: `"a" | 1 | null`, `{"const":"a"}`: `any"a"`, `{"title":"A","default":1,"description":"hello"}`: "any",
		`{"properties":{"a":{"type":"string"}},"required":["a"]}`: "{\n  a: string,\n}",
	} {
		var d declarations
		d.schema([]byte(kind), 0, 0)
		if got := string(d.out); got != want {
			t.Errorf("%s: %s, want %s", kind, got, want)
		}
	}
}
