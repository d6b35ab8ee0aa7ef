package estimate

import (
	"fmt"
	"strings"
	"testing"

	"llmgw/internal/dialect"
	"llmgw/internal/tokens"
)

// one is the estimate of a user's message with this content in gpt-oss, which is
// counted exactly: beside its content it has 2 + 4 tokens.
func one(t *testing.T, content string) Parts {
	t.Helper()
	p := estimated(t, New(Config{}), call(t, dialect.Chat, `{"messages":[{"role":"user","content":`+content+`}]}`), Rules{Model: "gpt-oss"}).Parts
	p.Messages -= 6
	return p
}

func TestPartsOfAllAPIsAreCountedByWhatTheyMean(t *testing.T) {
	data := strings.Repeat("aB3/", 200) // looks like base64
	object := tokens.Count(count(t, `{"a":[1,2]}`))
	for _, s := range []struct {
		what, content string
		want          Parts
	}{
		{"a string", `"hello"`, Parts{Text: 1}},
		{"strings", `["hello","hello"]`, Parts{Text: 2}},
		{"a part that is not in a list", `{"type":"text","text":"hello"}`, Parts{Text: 1}},
		{"a refusal of the model", `[{"type":"refusal","refusal":"hello"}]`, Parts{Text: 1}},
		{"thinking", `[{"type":"thinking","thinking":"hello","signature":"` + data + `"}]`, Parts{Text: 1}},
		{"thinking that is hidden", `[{"type":"redacted_thinking","data":"` + data + `"}]`, Parts{}},
		{"a thought of Gemini's", `[{"text":"hello","thought":true,"thoughtSignature":"hello"}]`, Parts{Text: 1}},
		{"the model's code", `[{"executableCode":{"language":"hello","code":"hello"}}]`, Parts{Text: 2}},
		{"a transcript", `[{"type":"x","transcript":"hello"}]`, Parts{Text: 1}},
		{"queries", `[{"type":"search","queries":["hello","hello"],"query":"hello"}]`, Parts{Text: 3}},
		{"a title and context", `[{"title":"hello","context":"hello"}]`, Parts{Text: 2}},
		{"a call of Anthropic's, with text for input", `[{"type":"tool_use","id":"hello","name":"hello","input":"hello"}]`, Parts{Text: 2, Messages: 3}},
		{"a call of Anthropic's, with an object", `[{"type":"tool_use","id":"hello","name":"hello","input":{ "a": [1, 2] }}]`, Parts{Text: 1 + object, Messages: 3}},
		{"a call of Gemini's", `[{"functionCall":{"name":"hello","args":{"a":[1,2]}}}]`, Parts{Text: 1 + object, Messages: 3}},
		{"its result", `[{"functionResponse":{"name":"hello","response":{"a":[1,2]}}}]`, Parts{Text: 1 + object}},
		{"a call of Bedrock's", `[{"toolUse":{"toolUseId":"hello","name":"hello","input":{"a":[1,2]}}}]`, Parts{Text: 1 + object, Messages: 3}},
		{"its result of text", `[{"toolResult":{"toolUseId":"hello","content":[{"text":"hello"}],"status":"success"}}]`, Parts{Text: 1}},
		{"its result in a list", `[{"toolResult":{"content":[{"json":["hello"]}]}}]`, Parts{Text: 1}},
		{"a name alone is no call", `[{"name":"hello"}]`, Parts{Text: 1}},
		{"nor are arguments alone", `[{"arguments":"hello"}]`, Parts{Text: 1}},
		{"what the provider keeps for itself", `[{"type":"text","text":"hello","cache_control":{"type":"hello"},"citations":[{"cited_text":"hello"}],"annotations":["hello"]}]`, Parts{Text: 1}},
		{"what nobody knows is language", `[{"unheard_of":"hello"}]`, Parts{Text: 1}},
		{"or holds some", `[{"unheard_of":[{"text":"hello"}]}]`, Parts{Text: 1}},
		{"but no data", `[{"unheard_of":"` + data + `"}]`, Parts{}},
		{"a data URI is what it says", `[{"unheard_of":"data:application/pdf;base64,` + bytesOf(30_000) + `"}]`, Parts{Media: openAIPage}},
		{"an image tells by itself", `[{"type":"image_generation_call","result":"` + png(100, 100) + strings.Repeat("AAAA", 100) + `"}]`, Parts{Images: 255}},
		{"an image of a code's, by its address", `[{"outputs":[{"type":"image","url":"data:image/png;base64,` + png(100, 100) + `"}]}]`, Parts{Images: 255}},
		{"what a tool gave is text, whatever it looks like", `[{"type":"function_call_output","output":"` + data + `"}]`, Parts{Text: tokens.Count(count(t, data))}},
		{"a shell's output is text", `[{"output":[{"stdout":"hello","stderr":"hello"}]}]`, Parts{Text: 2}},
		{"and a screen's picture is none", `[{"type":"computer_call_output","output":{"type":"computer_screenshot","image_url":"data:image/png;base64,` + png(100, 100) + `"}}]`, Parts{Images: 255}},
		{"a result names the file that it is from", `[{"results":[{"file_id":"f","filename":"hello","text":"hello"}]}]`, Parts{Text: 2}},
		{"an image whose type nobody told", `[{"type":"image_url","image_url":{"url":"data:application/octet-stream;base64,` + png(100, 100) + `"}}]`, Parts{Images: 255}},
		{"of two members of a name the last counts", `[{"type":"text","text":"` + long + `","te\u0078t":"hello"}]`, Parts{Text: 1}},
		{"of two images too", `[{"type":"image_url","image_url":"https://a/b","image_url":{"url":"https://a/b","detail":"low"}}]`, Parts{Images: 85}},
		{"numbers and the like are nothing", `[1,true,null,{"unheard_of":7}]`, Parts{}},
		{"an image of OpenAI's, its detail beside it", `[{"type":"input_image","image_url":"data:image/png;base64,` + png(600, 600) + `","detail":"low"}]`, Parts{Images: 85}},
		{"or inside", `[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + png(600, 600) + `","detail":"low"}}]`, Parts{Images: 85}},
		{"which is nearer", `[{"type":"image_url","detail":"high","image_url":{"url":"x","detail":"low"}}]`, Parts{Images: 85}},
		{"an image in an object", `[{"image":{"url":"https://a/b.png"}}]`, Parts{Images: 765}},
		{"an image's data alone", `[{"image":"` + png(100, 100) + `"}]`, Parts{Images: 255}},
		{"several", `[{"images":["` + png(100, 100) + `",{"url":"https://a/b"}]}]`, Parts{Images: 255 + 765}},
		{"one where several may be", `[{"images":"` + png(100, 100) + `"}]`, Parts{Images: 255}},
		{"a document of text", `[{"type":"document","source":{"type":"text","media_type":"text/plain","data":"hello"}}]`, Parts{Text: 1}},
		{"a document of parts", `[{"type":"document","source":{"type":"content","content":[{"type":"text","text":"hello"}]}}]`, Parts{Text: 1}},
		{"a document of Bedrock's that is text in base64", `[{"document":{"format":"md","name":"hello","source":{"bytes":"` + bytesOf(300) + `"}}}]`, Parts{Media: 100}},
		{"a document of Bedrock's with text", `[{"document":{"format":"txt","name":"hello","source":{"text":"hello"}}}]`, Parts{Text: 1}},
		{"a source that is a string", `[{"type":"search_result","source":"hello"}]`, Parts{Text: 1}},
		{"a source with nothing in it", `[{"type":"image","source":{}}]`, Parts{}},
		{"a file that is its data", `[{"file_data":"` + bytesOf(30_000) + `"}]`, Parts{Media: openAIPage}},
		{"a video that is its data", `[{"video":"` + bytesOf(124_998) + `"}]`, Parts{Media: geminiVideo}},
	} {
		got := one(t, s.content)
		s.want.Factor, s.want.Output = 1, got.Output
		if got != s.want {
			t.Errorf("%s: %+v, want %+v", s.what, got, s.want)
		}
	}
}

func TestWhatIsVeryDeepCountsAsJSON(t *testing.T) {
	nested := func(depth int) string {
		return strings.Repeat(`[`, depth) + `{"type":"text","text":"hello"}` + strings.Repeat(`]`, depth)
	}
	if got := one(t, nested(maxDepth-1)).Text; got != 1 {
		t.Errorf("at the limit: %d tokens, want the text's 1", got)
	}
	if got, want := one(t, nested(maxDepth+1)).Text, tokens.Count(count(t, `{"type":"text","text":"hello"}`)); got != want {
		t.Errorf("below it: %d tokens, want the JSON's %d", got, want)
	}
	lists := strings.Repeat(`[`, maxDepth+3) + `"hello"` + strings.Repeat(`]`, maxDepth+3)
	if got, want := one(t, lists).Text, tokens.Count(count(t, `[["hello"]]`)); got != want {
		t.Errorf("lists: %d tokens, want the JSON's %d", got, want)
	}
	deep := strings.Repeat(`{"content":`, maxDepth+1) + `"hello"` + strings.Repeat(`}`, maxDepth+1)
	if got := one(t, deep).Text; got < 1 || got > 40 {
		t.Errorf("objects: %d tokens", got)
	}
}

func TestDataIsToldFromLanguage(t *testing.T) {
	mixed := strings.Repeat("aB3/", 64)
	for _, s := range []struct {
		what, text string
		want       bool
	}{
		{"mixed and long", mixed, true},
		{"a byte too short", mixed[:255], false},
		{"with a space in it", mixed[:100] + " " + mixed, false},
		{"with a space behind the beginning", mixed + " and language", true},
		{"of one case", strings.Repeat("ab3/", 64), false},
		{"without digits", strings.Repeat("aBc/", 64), false},
		{"in the other alphabet, padded", strings.Repeat("aB3-_", 60) + "==", true},
	} {
		if got := encoded([]byte(s.text)); got != s.want {
			t.Errorf("%s: %v, want %v", s.what, got, s.want)
		}
	}
	for uri, want := range map[string]bool{
		"data:image/png;base64,AA": true, "data:text/plain,hello": false, "data:" + strings.Repeat("a", 200) + ";base64,AA": false, "": false,
	} {
		if got := isDataURI([]byte(uri)); got != want {
			t.Errorf("%q: a data URI: %v, want %v", uri, got, want)
		}
	}
}

func TestTheSecondsOfSoundAndVideoThatCannotBeRead(t *testing.T) {
	for _, s := range []struct {
		f      family
		size   int
		format string
		want   int
	}{
		{openAI, 48_000, "wav", 640}, {openAI, 48_003, "pcm16", 11}, {openAI, 15_000, "mp3", 200}, {openAI, 3, "mp3", 1}, {openAI, 0, "wav", 600},
		{gemini, 48_000, "l16", 96}, {gemini, 15_000, "ogg", 640}, {gemini, 0, "", 60 * 32},
	} {
		r := reader{model: model{family: s.f}}
		if got := r.audioTokens([]byte(bytesOf(s.size)), s.format); got != s.want {
			t.Errorf("%d bytes of %q: %d, want %d", s.size, s.format, got, s.want)
		}
	}
	if got := Sound(90); got != 900 {
		t.Errorf("a minute and a half: %d, want 900", got)
	}
	for size, want := range map[int]int{0: 60 * 263, 3: 263, 124_998: 263, 125_001: 526} {
		r := reader{}
		if got := r.videoTokens([]byte(bytesOf(size))); got != want {
			t.Errorf("%d bytes of video: %d, want %d", size, got, want)
		}
	}
}

func TestThePagesOfADocument(t *testing.T) {
	for _, s := range []struct {
		model string
		size  int
		want  int
	}{
		{"gpt-4o", 3 * 15_999, openAIPage}, {"gpt-4o", 48_000, 2 * openAIPage}, {"gpt-4o", 3 * 60_000_000, maxFilePages * openAIPage},
		{"claude-sonnet-5", 48_000, 2 * claudePage}, {"gemini-2.5-flash", 48_000, 2 * geminiPage}, {"gemini-3-pro", 48_000, 2 * gemini3Page},
	} {
		r := reader{model: resolve(nil, Rules{Model: s.model})}
		r.pages([]byte(bytesOf(s.size)))
		if r.t.media != 0 {
			t.Errorf("%s: counting pages changes the tally", s.model)
		}
		if got := r.pages([]byte(bytesOf(s.size))); got != s.want {
			t.Errorf("%s: %d bytes have %d tokens, want %d", s.model, s.size, got, s.want)
		}
	}
}

func TestTextThatIsLongIsCountedOnTwoCoresWithTheSameResult(t *testing.T) {
	e := New(Config{LargeBytes: 4 << 20})
	e.helpers = make(chan struct{}, 1)
	words := strings.Repeat("some words that make a long text ", 6000) // 198 KB
	body := fmt.Sprintf(`{"messages":[{"role":"user","content":%q}]}`, words)
	want := tokens.Count(count(t, words))
	if got := estimated(t, e, call(t, dialect.Chat, body), Rules{Model: "gpt-4o"}).Parts.Text; got != want {
		t.Errorf("with a helper: %d, want %d", got, want)
	}
	busy := New(Config{LargeBytes: 4 << 20})
	busy.helpers = make(chan struct{}, 1)
	busy.helpers <- struct{}{}
	if got := estimated(t, busy, call(t, dialect.Chat, body), Rules{Model: "gpt-4o"}).Parts.Text; got != want {
		t.Errorf("while the helper is busy: %d, want %d", got, want)
	}
	if len(e.helpers) != 0 || len(busy.helpers) != 1 {
		t.Errorf("%d and %d helpers are held, want 0 and 1", len(e.helpers), len(busy.helpers))
	}
}

func TestMembersOfPartsByName(t *testing.T) {
	data := strings.Repeat("aB3/", 200)
	n := tokens.Count(count(t, data))
	for _, name := range []string{
		"text", "input_text", "output_text", "refusal", "thinking", "reasoning", "reasoning_content", "name", "title", "context",
		"code", "query", "transcript", "queries", "arguments", "input", "args", "response", "json",
	} {
		// What people write is text, even if it looks like data.
		if got := one(t, fmt.Sprintf(`[{%q:%q}]`, name, data)).Text; got != n {
			t.Errorf("%s: %d tokens, want %d", name, got, n)
		}
	}
	for _, name := range []string{
		"type", "id", "role", "index", "status", "call_id", "tool_call_id", "tool_use_id", "toolUseId", "detail", "cache_control", "cachePoint",
		"cache_breakpoint", "signature", "thoughtSignature", "thought_signature", "thought", "encrypted_content", "redactedContent", "media_type",
		"mimeType", "mime_type", "is_error", "format", "citations", "annotations", "logprobs", "created_by", "obfuscation", "phase", "model", "images_detail",
	} {
		if got := one(t, fmt.Sprintf(`[{%q:"hello"}]`, name)); got.Text != 0 || got.Images != 0 || got.Media != 0 || got.Messages != 0 {
			t.Errorf("%s: %+v, want nothing", name, got)
		}
	}
}
