package ollama

import (
	"bytes"
	"testing"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/dialecttest"
	"llmgw/internal/fault"
	"llmgw/internal/tokens"
)

func suite() dialecttest.Suite {
	return dialecttest.Suite{
		Dialect: New(),
		Answers: map[string]dialecttest.Source{
			"ollama.chat": {Operation: dialect.Chat}, "ollama.generate": {Operation: dialect.Completion}, "ollama.embed": {Operation: dialect.Embeddings}, "ollama.error": {Operation: dialect.Chat},
		},
		Requests:   []string{"ollama.chat", "ollama.generate"},
		StreamType: "application/x-ndjson",
	}
}

func TestTheDialectPassesItsSuite(t *testing.T) { dialecttest.Run(t, suite()) }

func FuzzMeter(f *testing.F) { dialecttest.Fuzz(f, suite()) }

func parse(t *testing.T, path, body string) (*dialect.Call, error) {
	t.Helper()
	return dialecttest.Parse(t, New(), path, body, dialect.Header{})
}

func TestRequestsAreRead(t *testing.T) {
	for _, s := range []struct {
		path, body string
		stream     bool
		bound      tokens.Count
		param      string
	}{
		{"/api/chat", `{"model":"m"}`, true, 0, ""},
		{"/api/generate", `{"model":"m","stream":null}`, true, 0, ""},
		{"/api/chat", `{"model":"m","stream":false,"options":{"num_predict":5}}`, false, 5, ""},
		{"/api/chat", `{"model":"m","options":{"num_predict":-1}}`, true, 0, ""},
		{"/api/chat", `{"model":"m","options":{"num_predict":-2,"num_ctx":100}}`, true, 0, ""},
		{"/api/chat", `{"model":"m","options":null,"num_predict":7}`, true, 0, ""},
		{"/api/embed", `{"model":"m"}`, false, 0, ""},
		{"/api/chat", `{"model":"m","options":{"num_predict":-3}}`, false, 0, "options.num_predict"},
		{"/api/chat", `{"model":"m","options":{"num_predict":0}}`, false, 0, "options.num_predict"},
		{"/api/chat", `{"model":"m","options":{"num_predict":1.5}}`, false, 0, "options.num_predict"},
		{"/api/chat", `{"model":"m","options":7}`, false, 0, "options"},
		{"/api/chat", `{"model":"m","stream":"no"}`, false, 0, "stream"},
		{"/api/chat", `{}`, false, 0, "model"},
	} {
		c, err := parse(t, s.path, s.body)
		if s.param != "" {
			if f := fault.From(err); f == nil || f.Param != s.param {
				t.Errorf("%s: got %v, want an invalid %s", s.body, err, s.param)
			}
			continue
		}
		if err != nil || c.Stream != s.stream || c.MaxOutput != s.bound || c.HasMaxOutput != (s.bound > 0) {
			t.Errorf("%s: got %+v, %v", s.body, c, err)
		}
	}
}

func TestABoundIsWrittenAmongTheOptions(t *testing.T) {
	for body, want := range map[string]string{
		`{"model":"m"}`:                                          `{"options":{"num_predict":9},"model":"up"}`,
		`{"model":"m","options":{"seed":1}}`:                     `{"model":"up","options":{"num_predict":9,"seed":1}}`,
		`{"model":"m","options":{"num_predict":-1}}`:             `{"model":"up","options":{"num_predict":9}}`,
		`{"model":"m","options":null}`:                           `{"model":"up","options":{"num_predict":9}}`,
		`{"model":"m","options":{"num_predict":5,"num_ctx":10}}`: `{"model":"up","options":{"num_predict":5,"num_ctx":10}}`,
	} {
		c, err := parse(t, "/api/chat", body)
		if err != nil {
			t.Fatal(err)
		}
		out, err := New().Prepare(c, dialect.Upstream{BaseURL: "http://o:11434", APIKey: "k", Model: "up", MaxOutput: 9})
		if got := string(bytes.Join(out.Body, nil)); err != nil || got != want || out.URL != "http://o:11434/api/chat" {
			t.Errorf("%s: got %s to %s, want %s", body, got, out.URL, want)
		}
	}
}

func TestARefusalIsAString(t *testing.T) {
	e := fault.New(fault.RateLimitExceeded, "Wait.")
	if got := string(New().Refusal(e, "r").Body); got != "{\"error\":\"Wait.\"}\n" || string(New().ErrorEvent(e, "r")) != got {
		t.Errorf("got %q", got)
	}
}

func TestAStreamIsCompleteAtItsLastLine(t *testing.T) {
	const word = `{"model":"m","message":{"role":"assistant","content":"word "},"done":false}` + "\n"
	for _, s := range []struct {
		what, answer  string
		want          tokens.Usage
		input, output bool
		complete      bool
	}{
		{"cut", word + word, tokens.Usage{}, false, false, false},
		{"cut within a line", word + `{"model":"m","done":true,"prompt_eval_count":5`, tokens.Usage{}, false, false, false},
		{"the last line", word + `{"model":"m","message":{"content":""},"done":true,"done_reason":"stop","prompt_eval_count":5,"eval_count":2}` + "\n", tokens.Usage{Input: 5, Output: 2}, true, true, true},
		{"the last line without its end", word + `{"done":true,"done_reason":"stop","prompt_eval_count":5,"eval_count":2}`, tokens.Usage{Input: 5, Output: 2}, true, true, true},
		{"a cached prompt", word + `{"done":true,"done_reason":"stop","eval_count":2}` + "\n", tokens.Usage{Output: 2}, false, true, true},
		{"no counts for text that came", word + `{"done":true,"done_reason":"stop"}` + "\n", tokens.Usage{}, false, false, true},
		{"nothing but loading", `{"message":{"content":""},"done":true,"done_reason":"load"}` + "\n", tokens.Usage{}, true, true, true},
		{"an error", word + `{"error":"no"}` + "\n", tokens.Usage{}, false, false, false},
	} {
		c := &dialect.Call{Request: dialect.Request{Endpoint: dialect.Endpoint{Operation: dialect.Chat}}, Stream: true}
		m := New().Meter(c, dialect.Answer{Status: 200, Header: dialect.Header{"Content-Type": {"application/x-ndjson"}}}, dialect.MeterOptions{Count: dialecttest.Bytes})
		out := string(m.Feed([]byte(s.answer))) + string(m.End())
		if r := m.Report(); out != s.answer || r.Usage != s.want || r.InputKnown != s.input || r.OutputKnown != s.output || r.Complete != s.complete {
			t.Errorf("%s: got %+v", s.what, r)
		}
	}
}

func TestCountsThatAreLeftOutAreZeroOnlyWhereTheAnswerIsDone(t *testing.T) {
	for body, want := range map[string]bool{
		`{"model":"m","done":true,"done_reason":"load"}`: true,
		`{"model":"m","done":false}`:                     false,
		`{}`:                                             false,
	} {
		c := &dialect.Call{Request: dialect.Request{Endpoint: dialect.Endpoint{Operation: dialect.Chat}}, Choices: 1}
		m := New().Meter(c, dialect.Answer{Status: 200, Header: dialect.Header{"Content-Type": {"application/json"}}}, dialect.MeterOptions{Count: dialecttest.Bytes})
		m.Feed([]byte(body))
		early := m.Report()
		m.End()
		for _, r := range []dialect.Report{early, m.Report()} {
			if r.InputKnown != want {
				t.Errorf("%s: input known is %v, want %v", body, r.InputKnown, want)
			}
		}
	}
}
