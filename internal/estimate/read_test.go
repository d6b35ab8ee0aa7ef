package estimate

import (
	"fmt"
	"strings"
	"testing"

	"llmgw/internal/dialect"
	"llmgw/internal/estimate/bpe"
	"llmgw/internal/tokens"
)

// count is the number of tokens of a text in o200k_base.
func count(t testing.TB, text string) int {
	t.Helper()
	e, err := bpe.Get("o200k_base")
	if err != nil {
		t.Fatal(err)
	}
	return e.Count([]byte(text))
}

var long = strings.Repeat("A budget is a promise that somebody has to keep. ", 40) // long enough to be remembered

func TestWhatIsCountedOfABody(t *testing.T) {
	image := `data:image/png;base64,` + png(128, 64)
	for _, s := range []struct {
		what  string
		op    dialect.Operation
		model string
		body  string
		want  Parts
	}{
		{"a chat has three tokens a message, its role, and three to prime the answer", dialect.Chat, "gpt-4o",
			`{"model":"gpt-4o","messages":[{"role":"user","content":"hello"}]}`, Parts{Text: 1, Messages: 7}},
		{"escapes are decoded", dialect.Chat, "gpt-4o",
			`{"messages":[{"role":"user","content":"h\u0065llo"}]}`, Parts{Text: 1, Messages: 7}},
		{"surrogates are pairs", dialect.Chat, "gpt-4o",
			`{"messages":[{"role":"user","content":"\ud83d\ude00"}]}`, Parts{Text: tokens.Count(count(t, "😀")), Messages: 7}},
		{"of duplicate keys the last counts", dialect.Chat, "gpt-4o",
			`{"messages":[{"role":"user","content":"` + long + `","content":"hello"}]}`, Parts{Text: 1, Messages: 7}},
		{"in items too", dialect.Responses, "gpt-4o",
			`{"input":[{"type":"function_call_output","call_id":"c","output":"` + long + `","output":"hello"}]}`, Parts{Text: 1, Messages: 6}},
		{"keys are exact", dialect.Chat, "gpt-4o",
			`{"Messages":[{"role":"user","content":"hello"}],"messages":[]}`, Parts{Messages: 3}},
		{"escaped keys are keys", dialect.Chat, "gpt-4o",
			`{"messages":[{"role":"user","c\u006fntent":"hello"}]}`, Parts{Text: 1, Messages: 7}},
		{"special text is text", dialect.Completion, "gpt-4o",
			`{"prompt":"<|endoftext|>"}`, Parts{Text: tokens.Count(count(t, "<|endoftext|>"))}},
		{"tool calls count with name and arguments, not their ids", dialect.Chat, "gpt-4o",
			`{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"call_abcdefghij","type":"function","function":{"name":"add","arguments":"{\"a\":1}"}}]},{"role":"tool","tool_call_id":"call_abcdefghij","content":"2"}]}`,
			Parts{Text: tokens.Count(1 + count(t, `{"a":1}`) + 1), Messages: 3 + 4 + 3 + 4}},
		{"base64 is no text", dialect.Chat, "gpt-4o",
			`{"messages":[{"role":"user","content":[{"type":"text","text":"hello"},{"type":"image_url","image_url":{"url":"` + image + strings.Repeat("QUJD", 5000) + `"}}]}]}`,
			Parts{Text: 1, Messages: 7, Images: 255}},
		{"an image elsewhere has a usual size", dialect.Chat, "gpt-4o",
			`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]}]}`,
			Parts{Messages: 7, Images: 765}},
		{"sound is counted by its length", dialect.Chat, "gpt-4o",
			`{"messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"format":"pcm16","data":"` + strings.Repeat("AAAA", 48_000) + `"}}]}]}`,
			Parts{Messages: 7, Media: 30}},
		{"a prompt of token ids is exact", dialect.Completion, "davinci-002",
			`{"prompt":[1,2,3, 4 ,5]}`, Parts{Text: 5}},
		{"lists of ids too", dialect.Completion, "davinci-002",
			`{"prompt":[[1,2,3],[4,5]]}`, Parts{Text: 5}},
		{"strings are prompts of their own", dialect.Embeddings, "text-embedding-3-small",
			`{"input":["hello","hello world"]}`, Parts{Text: 3}},
		{"ids can be embedded", dialect.Embeddings, "text-embedding-3-small",
			`{"input":[[9906],[9906,1917]]}`, Parts{Text: 3}},
		{"instructions and items of a response", dialect.Responses, "gpt-4o",
			`{"instructions":"hello","input":[{"role":"user","content":[{"type":"input_text","text":"hello world"},{"type":"input_image","image_url":"` + image + `"}]},{"type":"function_call","call_id":"c1","name":"add","arguments":"{}"},{"type":"function_call_output","call_id":"c1","output":"hello"}]}`,
			Parts{Text: 1 + 2 + 1 + 1 + 1, Messages: 3 + 4 + 4 + (3 + 1 + 3) + 3, Images: 255}},
		{"a response to a string", dialect.Responses, "gpt-4o",
			`{"input":"hello world"}`, Parts{Text: 2, Messages: 7}},
		{"a schema for the answer", dialect.Chat, "gpt-4o",
			`{"messages":[],"response_format":{"type":"json_schema","json_schema":{"name":"hello","schema": {"type": "object"}}}}`,
			Parts{Messages: 3, Tools: tokens.Count(1 + count(t, `{"type":"object"}`) + schemaMargin)}},
		{"asking for JSON", dialect.Responses, "gpt-4o",
			`{"input":"","text":{"format":{"type":"json_object"}}}`, Parts{Messages: 7, Tools: jsonMargin}},
		{"of the text format nothing is counted", dialect.Chat, "gpt-4o",
			`{"messages":[],"response_format":{"type":"text"}}`, Parts{Messages: 3}},
		{"metadata is not read by the model", dialect.Chat, "gpt-4o",
			`{"metadata":{"a":"` + long + `"},"user":"` + long + `","messages":[{"role":"user","content":"hello"}]}`, Parts{Text: 1, Messages: 7}},
		{"Ollama's images are a list of base64", dialect.Completion, "gpt-oss:20b",
			`{"prompt":"hello","images":["` + png(128, 64) + `"]}`, Parts{Text: 1, Images: 255}},
		{"Cohere's documents are text", dialect.Chat, "gpt-oss",
			`{"messages":[],"documents":[{"id":"1","data":{"text":"hello"}},"hello"]}`, Parts{Text: 2, Messages: 2}},
		{"Bedrock's parts say by their key what they are", dialect.Chat, "gpt-oss",
			`{"system":[{"text":"hello"}],"messages":[{"role":"user","content":[{"text":"hello"},{"image":{"format":"png","source":{"bytes":"` + png(128, 64) + `"}}},{"document":{"format":"pdf","name":"hello","source":{"bytes":"AAAA"}}},{"toolResult":{"toolUseId":"x","content":[{"json":{"a":1}}]}}]}]}`,
			Parts{Text: tokens.Count(2 + count(t, `{"a":1}`)), Messages: 2 + 4, Images: 255, Media: openAIPage}},
		{"Ollama's context are ids", dialect.Completion, "gpt-oss:20b", `{"prompt":"hello","context":[1,2,3]}`, Parts{Text: 4}},
		{"batches hold requests", dialect.Embeddings, "gpt-oss",
			`{"requests":[{"content":{"parts":[{"text":"hello"}]}},{"content":{"parts":[{"text":"hello"}]}}]}`, Parts{Text: 2}},
		{"nothing is counted of what is no JSON", dialect.Chat, "gpt-4o", `hello`, Parts{}},
		{"nor of nothing", dialect.Chat, "gpt-4o", ``, Parts{}},
	} {
		got := estimated(t, New(Config{}), call(t, s.op, s.body), Rules{Model: s.model}).Parts
		s.want.Factor, s.want.Output = 1, got.Output
		if got != s.want {
			t.Errorf("%s: %+v, want %+v", s.what, got, s.want)
		}
	}
}

func TestAnthropicAndGeminiAreCountedInTheirOwnShapes(t *testing.T) {
	f := startFactors(model{family: claude}, "claude-sonnet-4-6")[latin]
	text := func(n int) tokens.Count { return scale(n, f) }
	for _, s := range []struct {
		what, model, body string
		want              Parts
	}{
		{"system and messages", "claude-sonnet-4-6",
			`{"system":[{"type":"text","text":"hello","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":"hello"}]}`,
			Parts{Text: text(2), Messages: 2 + 3}},
		{"tool use, its result, and the tools' own prompt", "claude-sonnet-4-6",
			`{"tools":[{"name":"x"}],"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"x","input":{ "a": 1 }}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"text","text":"hello"}]}]}]}`,
			Parts{Text: text(1 + count(t, `{"a":1}`) + 1), Messages: 2 + 3 + 12 + 3, Tools: text(count(t, `[{"name":"x"}]`)) + 497}},
		{"one of Bedrock's", "claude-sonnet-4-6",
			`{"toolConfig":{"tools":[{"name":"x"}],"toolChoice":{"any":{}}},"messages":[]}`,
			Parts{Messages: 2, Tools: text(count(t, `[{"name":"x"}]`)) + 589}},
		{"a tool that must be used", "claude-sonnet-4-6",
			`{"tools":[{"name":"x"}],"tool_choice":{"type":"any"},"messages":[]}`,
			Parts{Messages: 2, Tools: text(count(t, `[{"name":"x"}]`)) + 589}},
		{"images by their patches, documents by their pages", "claude-sonnet-4-6",
			`{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + png(280, 56) + `"}},{"type":"document","source":{"type":"url","url":"https://example.com/a.pdf"}},{"type":"document","source":{"type":"text","media_type":"text/plain","data":"hello"}}]}]}`,
			Parts{Text: text(1), Messages: 5, Images: 20, Media: remotePages * claudePage}},
		{"contents and what is inline", "gemini-2.0-flash",
			`{"systemInstruction":{"parts":[{"text":"hello"}]},"contents":[{"role":"user","parts":[{"text":"hello"},{"inlineData":{"mimeType":"image/png","data":"` + png(300, 200) + `"}},{"inlineData":{"mimeType":"audio/mp3","data":"` + strings.Repeat("AAAA", 16_000) + `"}}]}]}`,
			Parts{Text: 3, Messages: 1, Images: 258, Media: 64 * 32}},
		{"contents that are no list", "gemini-2.0-flash", `{"contents":{"role":"user","parts":{"text":"hello"}}}`, Parts{Text: 2, Messages: 1}},
		{"what is to be counted may be wrapped", "gemini-2.0-flash",
			`{"generateContentRequest":{"contents":[{"parts":[{"text":"hello"}]}]}}`, Parts{Text: 2, Messages: 1}},
	} {
		got := estimated(t, New(Config{}), call(t, dialect.Chat, s.body), Rules{Model: s.model}).Parts
		s.want.Factor, s.want.Output = 1, got.Output
		if got != s.want {
			t.Errorf("%s: %+v, want %+v", s.what, got, s.want)
		}
	}
}

func TestToolsOf20KBAreCountedNearlyWhole(t *testing.T) {
	var tools []string
	for i := range 60 {
		tools = append(tools, fmt.Sprintf(`{"type":"function","function":{"name":"tool_%d","description":"Looks up record number %d in the archive and returns all of its fields.","parameters":{"type":"object","properties":{"id":{"type":"integer","description":"The record's number."},"fields":{"type":"array","items":{"type":"string"}}},"required":["id"]}}}`, i, i))
	}
	list := "[" + strings.Join(tools, ",") + "]"
	got := estimated(t, New(Config{}), call(t, dialect.Chat, `{"tools":`+list+`,"messages":[{"role":"user","content":"hi"}]}`), Rules{Model: "gpt-4o"})
	if whole := count(t, list); int(got.Parts.Tools)*10 < whole*5 || int(got.Parts.Tools) > whole {
		t.Errorf("tools %d, their JSON has %d", got.Parts.Tools, whole)
	}
}

const weather = `{"name":"weather","description":"Tells\nthe weather.","parameters":{"type":"object","required":["place"],"properties":{
	"place":{"type":"string","description":"A town"},"unit":{"type":"string","enum":["C","F"]},"days":{"type":["integer","null"]},
	"near":{"type":"object","properties":{"km":{"type":"number"},"of":{"type":"string"}}},
	"at":{"type":"object","required":["x"],"properties":{"x":{"type":"number","description":"East"}}},
	"tags":{"type":"array","items":{"type":"string"}},"any":{},"none":{"type":"null"},
	"either":{"anyOf":[{"type":"boolean"},{"type":"integer","enum":[1,2]}]},"list":{"type":"array"}}}}`

func TestVeryLargeToolsAreCountedAsJSON(t *testing.T) {
	list := `[{"type":"function","function":{"name":"f","description":"` + strings.Repeat("hello ", renderedBytes/6) + `"}}]`
	got := estimated(t, New(Config{}), call(t, dialect.Chat, `{"messages":[],"tools":`+list+`}`), Rules{Model: "gpt-4o"})
	if want := tokens.Count(count(t, list) + 9); got.Parts.Tools != want {
		t.Errorf("%d tokens, want %d", got.Parts.Tools, want)
	}
}

func TestFunctionsAreDeclaredWithIndent(t *testing.T) {
	d := declarations{layout: functionsLayout}
	d.open()
	d.function([]byte(weather))
	d.function([]byte(`{"name":"now"}`))
	d.close()
	want := `namespace functions {

// Tells
the weather.
type weather = (_: {
// A town
place: string,
unit?: "C" | "F",
days?: number | null,
near?: {
  km?: number,
  of?: string,
},
at?: {
  x: number,
},
tags?: string[],
any?: any,
none?: null,
either?: boolean | 1 | 2,
list?: any[],
}) => any;

type now = () => any;

} // namespace functions`
	if got := string(d.out); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestWhatAToolsParametersReferToIsCounted(t *testing.T) {
	const start = `{"name":"f","parameters":{"type":"object",`
	for what, s := range map[string]struct{ function, want string }{
		"definitions":                 {start + `"properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A": {"enum":["x"]}}}}`, "type f = (_: { a?: any\"#/$defs/A\" }) => any;\n\n{\"A\":{\"enum\":[\"x\"]}}"},
		"by their older name":         {start + `"definitions":{"A":{}}}}`, "type f = () => any;\n\n{\"A\":{}}"},
		"alternatives for all of it":  {start + `"oneOf":[{"type":"object"}]}}`, "type f = () => any;\n\n[{\"type\":\"object\"}]"},
		"no definitions are no bytes": {start + `"$defs":{}}}`, "type f = () => any;\n\n"},
	} {
		d := declarations{layout: toolsLayout}
		d.function([]byte(s.function))
		if got := string(d.out); got != s.want {
			t.Errorf("%s: got %q, want %q", what, got, s.want)
		}
	}
}

func TestToolsAreDeclaredWithAllDescriptionsOrOnOneLine(t *testing.T) {
	d := declarations{layout: toolsLayout}
	d.open()
	d.function([]byte(weather))
	d.function([]byte(`{"name":"plain","parameters":{"properties":{"a":{"type":"string"},"b":{"type":"object"}},"required":["b"]}}`))
	d.close()
	want := `namespace functions {

// Tells
the weather.
type weather = (_: {
// A town
place: string,
unit?: "C" | "F",
days?: number | null,
near?: { km?: number, of?: string },
at?: {
// East
x: number,
},
tags?: string[],
any?: any,
none?: null,
either?: boolean | 1 | 2,
list?: any[],
}) => any;

type plain = (_: { a?: string, b: {  } }) => any;

} // namespace functions`
	if got := string(d.out); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestOutputIsTheMostThatTheRequestAllows(t *testing.T) {
	rules := Rules{DefaultMaxOutput: 1000, MaxOutput: 2000}
	for _, s := range []struct {
		what  string
		call  dialect.Call
		rules Rules
		want  tokens.Count
	}{
		{"its bound", dialect.Call{HasMaxOutput: true, MaxOutput: 300}, rules, 300},
		{"for each choice", dialect.Call{HasMaxOutput: true, MaxOutput: 300, Choices: 3}, rules, 900},
		{"never more than the model's", dialect.Call{HasMaxOutput: true, MaxOutput: 9000}, rules, 2000},
		{"the model's default without a bound", dialect.Call{}, rules, 1000},
		{"which the model's most bounds too", dialect.Call{}, Rules{DefaultMaxOutput: 5000, MaxOutput: 2000}, 2000},
		{"the product's default without any", dialect.Call{}, Rules{}, 4096},
		{"nothing where the request asks for nothing", dialect.Call{HasMaxOutput: true}, rules, 0},
		{"nothing where nothing is produced", dialect.Call{NoOutput: true, Choices: 5}, rules, 0},
		{"nothing for counting", dialect.Call{RequestsOnly: true}, rules, 0},
		{"no more than can be counted", dialect.Call{HasMaxOutput: true, MaxOutput: tokens.MaxCount, Choices: 128}, Rules{}, tokens.MaxCount},
	} {
		c := s.call
		c.Body = []byte(`{}`)
		if got := estimated(t, New(Config{}), &c, s.rules); got.Output != s.want {
			t.Errorf("%s: %d, want %d", s.what, got.Output, s.want)
		}
	}
}

func TestAnUnknownEncodingIsAnError(t *testing.T) {
	if _, err := New(Config{}).Estimate(call(t, dialect.Chat, `{}`), Rules{Encoding: "o300k"}); err == nil {
		t.Error("no error")
	}
}

func TestAnEstimateShowsItsParts(t *testing.T) {
	e := estimated(t, New(Config{}), call(t, dialect.Chat, `{"messages":[{"role":"user","content":"hello"}]}`), Rules{Model: "gpt-4o", DefaultMaxOutput: 100})
	text, err := e.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"input_tokens":8,"output_tokens":100,"total_tokens":108,"parts":{"text":1,"messages":7,"tools":0,"images":0,"media":0,"factor":1,"output":100}}`
	if string(text) != want {
		t.Errorf("%s, want %s", text, want)
	}
}

func TestABodyWithoutMembersIsReadByItself(t *testing.T) {
	c := call(t, dialect.Chat, "\ufeff "+`{"messages":[{"role":"user","content":"hello"}]}`)
	c.Members = nil
	if got := estimated(t, New(Config{}), c, Rules{Model: "gpt-4o"}); got.Input != 8 {
		t.Errorf("%d tokens, want 8", got.Input)
	}
}

func TestWhatIsWrappedIsUnwrappedOnce(t *testing.T) {
	inner := `{"contents":[{"parts":[{"text":"hello"}]}]}`
	for body, want := range map[string]tokens.Count{
		`{"requests":[` + inner + `]}`:                          1,
		`{"generateContentRequest":` + inner + `}`:              1,
		`{"requests":[{"requests":[` + inner + `]}]}`:           0,
		`{"generateContentRequest":{"requests":` + inner + `}}`: 0,
	} {
		if got := estimated(t, New(Config{}), call(t, dialect.Chat, body), Rules{Model: "gpt-4o"}).Parts.Text; got != want {
			t.Errorf("%s: %d tokens of text, want %d", body, got, want)
		}
	}
}

func TestDepthCostsNothing(t *testing.T) {
	for _, deep := range []string{strings.Repeat("[", 1000) + strings.Repeat("]", 1000), strings.Repeat(`{"content":`, 1000) + `"x"` + strings.Repeat("}", 1000)} {
		body := `{"messages":[{"role":"user","content":[` + strings.TrimSuffix(strings.Repeat(deep+",", 500), ",") + `]}],"tools":` + deep + `}`
		got := estimated(t, New(Config{}), call(t, dialect.Chat, body), Rules{Model: "gpt-4o"})
		if got.Input <= 0 || got.Input > tokens.Count(len(body)) {
			t.Errorf("%d tokens for %d bytes", got.Input, len(body))
		}
	}
}
