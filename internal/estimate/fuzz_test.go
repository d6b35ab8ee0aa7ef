package estimate

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"llmgw/internal/dialect"
	"llmgw/internal/jsonscan"
	"llmgw/internal/testenv"
	"llmgw/internal/tokens"
)

// FuzzBodies feeds bodies that may be anything, as members of a call and as a
// whole: no estimate panics, is negative, or differs the second time
// or beside another model's.
func FuzzBodies(f *testing.F) {
	for _, body := range []string{
		``, `{`, `{}`, `[]`, `"`, `{"messages":`, `{"messages":[{"role":"user","content":"\ud800"}]}`,
		`{"messages":[{"role":"system","content":"hello"},{"content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo"}}]}],"tools":[{"type":"function","function":{"name":"x","parameters":{"properties":{"a":{"anyOf":[{},{"enum":[]}]}},"required":["a",1]}}}]}`,
		`{"input":[1,[2,"x"],{"type":"message"}],"prompt":[[]],"images":[""],"tool_choice":{"function":{}}}`,
		`{"contents":[{"parts":[{"inlineData":{"data":"AAAA"}},{"functionCall":{"name":"f","args":{"a":[1]}}}]}],"generationConfig":{"responseSchema":{}}}`,
		`{"system":[[[[[[[["deep"]]]]]]]],"messages":[{"content":{"source":{"type":"text","data":1}}}]}`,
		`{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{}"}},{"function":{}}]},{"role":"tool","content":"é\ud83d\ude00"},{"role":"tool","content":["x"]}]}`,
		"\ufeff{\"messages\":[\"\xff\"]}", `{"messages":[{"role":}]}`, `{"messages":[{"content":"` + long + `"`,
	} {
		f.Add([]byte(body), uint8(0))
	}
	for _, path := range fixtures {
		if text, err := os.ReadFile(path); err == nil {
			f.Add(text, uint8(3))
		}
	}
	models := []string{"gpt-4o", "gpt-3.5-turbo-0301", "claude-opus-4-7", "gemini-3-pro", "llava", "gpt-4.1-mini", "gpt-5.6", "qwen3:8b", "deepseek-chat", "mistral-nemo"}
	operations := []dialect.Operation{dialect.Chat, dialect.Responses, dialect.Embeddings, dialect.Completion, dialect.Transcribe}
	e, tight := New(Config{}), New(Config{ExactBytes: 40, LargeBytes: 100})
	f.Fuzz(func(t *testing.T, body []byte, which uint8) {
		rules := Rules{Provider: "p", Model: models[int(which)%len(models)]}
		c := &dialect.Call{Request: dialect.Request{Body: body}}
		c.Endpoint.Operation = operations[int(which/8)%len(operations)]
		for m := jsonscan.MembersAt(body, jsonscan.Start(body)); which%2 == 0 && m.Next(); {
			v := m.Value()
			c.Members = append(c.Members, dialect.Member{Key: string(m.Key()), Value: v})
		}
		first := estimated(t, e, c, rules)
		if first.Input < 0 || first.Output < 0 || first.Input > tokens.MaxCount || math.IsNaN(first.Parts.Factor) {
			t.Fatalf("%q: %+v", body, first)
		}
		if second := estimated(t, e, c, rules); second != first {
			t.Fatalf("%q: %+v, then %+v", body, first, second)
		}
		other := Rules{Provider: "q", Model: models[int(which/2)%len(models)]}
		if each, err := e.EstimateEach(c, []Rules{other, rules, rules}); err != nil || each[1] != first || each[2] != first {
			t.Fatalf("%q: %+v, but beside another model %+v, %v", body, first, each, err)
		}
		estimated(t, tight, c, rules)
	})
}

// fixtures are the captured requests that LLMGW_SHARED names, or none.
var fixtures = func() []string {
	dir, _ := testenv.Shared("fixtures")
	if dir == "" {
		return nil
	}
	paths, _ := filepath.Glob(filepath.Join(dir, "*.req.json")) // the pattern is right
	return paths
}()

func TestRequestsOfRealClientsAreCounted(t *testing.T) {
	if len(fixtures) == 0 {
		t.Skip("the captured requests are not part of the repository: LLMGW_SHARED names their directory")
	}
	for _, path := range fixtures {
		body, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := jsonscan.Document(body); err != nil {
			continue // a trap for parsers
		}
		got := estimated(t, New(Config{}), call(t, dialect.Chat, string(body)), Rules{Model: "gpt-4o"}).Shown()
		if got.Input < 1 || got.Input > 16_000 { // a video behind an address is the most
			t.Errorf("%s: %d tokens for %d bytes", filepath.Base(path), got.Input, len(body))
		}
	}
}
