package openai

import (
	"strings"
	"testing"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/dialecttest"
	"llmgw/internal/fault"
	"llmgw/internal/tokens"
)

func parse(t *testing.T, path, body string) (*dialect.Call, error) {
	t.Helper()
	return dialecttest.Parse(t, New(), path, body, dialect.Header{"Content-Type": {"application/json"}})
}

func mustParse(t *testing.T, path, body string) *dialect.Call {
	t.Helper()
	c, err := parse(t, path, body)
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return c
}

func TestB2TheLargestBoundOnOutputCounts(t *testing.T) {
	const chat, completions, responses = "/v1/chat/completions", "/v1/completions", "/v1/responses"
	for _, s := range []struct {
		path, members string
		bound         tokens.Count // 0: none
		choices       tokens.Count
	}{
		{chat, ``, 0, 1},
		{chat, `,"max_tokens":7`, 7, 1},
		{chat, `,"max_completion_tokens":7`, 7, 1},
		{chat, `,"max_tokens":1,"max_completion_tokens":10000`, 10000, 1},
		{chat, `,"max_tokens":10000,"max_completion_tokens":1`, 10000, 1},
		{chat, `,"max_tokens":1,"n_predict":50`, 50, 1}, // llama.cpp obeys it
		{chat, `,"max_tokens":null,"max_completion_tokens":null`, 0, 1},
		{chat, `,"max_tokens":1e3`, 1000, 1},
		{chat, `,"max_tokens":1000.0`, 1000, 1},
		{chat, `,"max_tokens":9007199254740992`, tokens.MaxCount, 1},
		{chat, `,"max\u005ftokens":5`, 5, 1},
		{chat, `,"n":3,"max_tokens":5`, 5, 3},
		{chat, `,"n":null`, 0, 1},
		{chat, `,"n":2,"best_of":5`, 0, 5},
		{chat, `,"x":{"max_tokens":9,"n":9}`, 0, 1}, // only the top level counts
		{completions, `,"prompt":"a"`, 16, 1},
		{completions, `,"prompt":"a","max_tokens":3`, 3, 1},
		{completions, `,"prompt":["a","b","c"],"max_tokens":3,"n":2`, 3, 6},
		{completions, `,"prompt":["a","b"],"best_of":4,"n":2`, 16, 8},
		{completions, `,"prompt":[1,2,3]`, 16, 1},
		{completions, `,"prompt":[[1,2],[3]]`, 16, 2},
		{completions, `,"prompt":[]`, 16, 1},
		{responses, `,"input":"a"`, 0, 1},
		{responses, `,"input":"a","max_output_tokens":64`, 64, 1},
		{responses, `,"input":"a","max_tokens":64`, 0, 1},
		{"/v1/images/generations", `,"prompt":"a","n":4`, 0, 4},
	} {
		c := mustParse(t, s.path, `{"model":"m"`+s.members+`}`)
		if c.HasMaxOutput != (s.bound > 0) || c.MaxOutput != s.bound || c.Choices != s.choices {
			t.Errorf("%s %s: got %d (%v) × %d, want %d × %d", s.path, s.members, c.MaxOutput, c.HasMaxOutput, c.Choices, s.bound, s.choices)
		}
	}
}

func TestB6ARequestThatIsOutOfRangeNamesItsField(t *testing.T) {
	const chat = "/v1/chat/completions"
	for _, s := range []struct{ path, body, param string }{
		{chat, `{"messages":[]}`, "model"},
		{chat, `{"model":null}`, "model"},
		{chat, `{"model":""}`, "model"},
		{chat, `{"model":7}`, "model"},
		{chat, `{"model":"a\u0000b"}`, "model"},
		{chat, `{"model":"` + strings.Repeat("m", 300) + `"}`, "model"},
		{chat, `{"Model":"m"}`, "model"},
		{chat, `{"model":"m","max_tokens":-5}`, "max_tokens"},
		{chat, `{"model":"m","max_tokens":0}`, "max_tokens"},
		{chat, `{"model":"m","max_tokens":1e30}`, "max_tokens"},
		{chat, `{"model":"m","max_tokens":9007199254740993}`, "max_tokens"},
		{chat, `{"model":"m","max_tokens":1.5}`, "max_tokens"},
		{chat, `{"model":"m","max_tokens":"12"}`, "max_tokens"},
		{chat, `{"model":"m","max_tokens":true}`, "max_tokens"},
		{chat, `{"model":"m","max_tokens":[5]}`, "max_tokens"},
		{chat, `{"model":"m","max_tokens":5,"max_completion_tokens":0}`, "max_completion_tokens"},
		{chat, `{"model":"m","n":0}`, "n"},
		{chat, `{"model":"m","n":-1}`, "n"},
		{chat, `{"model":"m","n":1.5}`, "n"},
		{chat, `{"model":"m","n":"2"}`, "n"},
		{chat, `{"model":"m","stream_options":[]}`, "stream_options"},
		{chat, `{"model":"m","stream":"true"}`, "stream"},
		{chat, `{"model":"m","stream_options":{"include_usage":1}}`, "stream_options.include_usage"},
		{chat, `{"model":"m","stream_options":{"include_usage":true,"include_usage":false}}`, "include_usage"},
		{chat, `{"model":"m","max_tokens":1,"max_tokens":2}`, "max_tokens"},
		{chat, `{"model":"m","mod\u0065l":"n"}`, "model"},
		{chat, `{"models":["a","b"]}`, "models"},
		{chat, `{"model":"a","models":["b"]}`, "models"},
		{"/v1/completions", `{"model":"m","best_of":0}`, "best_of"},
		{"/v1/responses", `{"model":"m","max_output_tokens":-1}`, "max_output_tokens"},
		{chat, ``, ""},
		{chat, `  `, ""},
		{chat, `[]`, ""},
		{chat, `"x"`, ""},
		{chat, `not json`, ""},
		{chat, `{"model":"m"`, ""},
		{chat, `{"model":"m"} {"model":"n"}`, ""},
		{chat, `{"model":"m",}`, ""},
		{chat, `{"model":"m","x":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`, ""},
	} {
		_, err := parse(t, s.path, s.body)
		f := fault.From(err)
		if f == nil || f.Code != fault.InvalidRequest || f.Param != s.param || !f.NoRetry {
			t.Errorf("%.80s: got %+v, want an invalid %q", s.body, f, s.param)
		}
		if f != nil && !strings.HasSuffix(f.Message, ".") {
			t.Errorf("%.80s: %q is no sentence", s.body, f.Message)
		}
	}
}

func TestABodyThatSaysItIsSomethingElseIsRefused(t *testing.T) {
	for contentType, accepted := range map[string]bool{
		"":                                  true,
		"application/json":                  true,
		"Application/JSON; charset=utf-8":   true,
		"application/vnd.api+json":          true,
		"text/plain":                        false,
		"application/x-www-form-urlencoded": false,
		"multipart/form-data; boundary=x":   false,
		"json":                              false,
	} {
		r, _ := dialecttest.Request(New(), "POST", "/v1/chat/completions", dialect.Header{"Content-Type": {contentType}}, []byte(`{"model":"m"}`))
		if _, err := New().Parse(r); (err == nil) != accepted {
			t.Errorf("%q: got %v, want accepted %v", contentType, err, accepted)
		}
	}
}

func TestTheUserIsReadFromTheBody(t *testing.T) {
	for members, want := range map[string]string{
		`"user":"u"`:                 "u",
		`"safety_identifier":"s"`:    "s",
		`"metadata":{"user_id":"m"}`: "m",
		`"metadata":{"user_id":"m"},"safety_identifier":"s","user":"u"`: "u",
		`"user":"","metadata":{"user_id":"m"}`:                          "m",
		`"user":7,"metadata":[1]`:                                       "",
		`"metadata":{"user_id":8}`:                                      "",
		`"metadata":null`:                                               "",
	} {
		if c := mustParse(t, "/v1/chat/completions", `{"model":"m",`+members+`}`); c.User != want {
			t.Errorf("%s: got %q, want %q", members, c.User, want)
		}
	}
}

func TestSpansStandWhereTheirValuesStand(t *testing.T) {
	body := "\ufeff { \"stream\":true, \"stream_options\" : {\"include_usage\": false } ,\"mod\\u0065l\": \"gpt\\u002d4o\"}"
	c := mustParse(t, "/v1/chat/completions", body)
	at := func(s dialect.Span) string { return body[s.Start:s.End] }
	if c.Model != "gpt-4o" || at(c.ModelSpan) != `"gpt\u002d4o"` {
		t.Errorf("model is %q at %q", c.Model, at(c.ModelSpan))
	}
	if at(c.StreamOptions) != `{"include_usage": false }` || at(c.IncludeUsage) != "false" || c.WantsUsage {
		t.Errorf("stream options are at %q and %q", at(c.StreamOptions), at(c.IncludeUsage))
	}
	if body[c.BodyObject] != '{' || c.BodyObject != 4 || len(c.Members) != 3 || c.Members[2].Key != "model" {
		t.Errorf("the object is at %d with %d members", c.BodyObject, len(c.Members))
	}
}

func TestCallsWithoutOutputSaySo(t *testing.T) {
	for path, want := range map[string][2]bool{ // no output, requests only
		"/v1/embeddings":             {true, false},
		"/v1/moderations":            {true, false},
		"/v1/responses/input_tokens": {true, true},
		"/v1/responses":              {false, false},
		"/v1/audio/speech":           {false, false},
	} {
		c := mustParse(t, path, `{"model":"m","input":"a"}`)
		if got := [2]bool{c.NoOutput, c.RequestsOnly}; got != want {
			t.Errorf("%s: got %v, want %v", path, got, want)
		}
	}
	if c := mustParse(t, "/v1/moderations", `{"input":"a"}`); c.Model != moderationDefault {
		t.Errorf("moderations without a model are of %q", c.Model)
	}
}

func TestAResponseInTheBackgroundOutlivesItsClient(t *testing.T) {
	for body, want := range map[string]bool{
		`{"model":"m","input":"a"}`:                        false,
		`{"model":"m","input":"a","background":false}`:     false,
		`{"model":"m","input":"a","background":null}`:      false,
		`{"model":"m","input":"a","background":true}`:      true,
		`{"model":"m","input":"a","\u0062ackground":true}`: true,
	} {
		if c := mustParse(t, "/v1/responses", body); c.Detached != want {
			t.Errorf("%s: got %v", body, c.Detached)
		}
		if c := mustParse(t, "/v1/embeddings", body); c.Detached {
			t.Errorf("%s: an embedding outlives its client", body)
		}
	}
}

func TestAStoredResponseIsNamedPlainly(t *testing.T) {
	for path, ok := range map[string]bool{
		"/v1/responses/resp_68af0b-X":   true,
		"/v1/responses/resp%2F..%2Fx":   false,
		"/v1/responses/..":              false,
		"/v1/responses/a%3Fkey=1":       false,
		"/v1/responses/resp_1/":         false,
		"/v1/responses/resp_1%0d%0aX:1": false,
	} {
		r, found := dialecttest.Request(New(), "GET", path, dialect.Header{}, nil)
		if !found {
			if ok {
				t.Errorf("%s is no endpoint", path)
			}
			continue
		}
		if _, err := New().Parse(r); (err == nil) != ok {
			t.Errorf("%s: got %v, want accepted %v", path, err, ok)
		}
	}
}

func joined(segments [][]byte) string {
	var b strings.Builder
	for _, s := range segments {
		b.Write(s)
	}
	return b.String()
}

func FuzzParse(f *testing.F) {
	f.Add(`{"model":"m","max_tokens":5,"stream":true,"stream_options":{"include_usage":false}}`, true)
	f.Add(`{"model":"m","prompt":[[1]],"n":2,"metadata":{"user_id":"x"}}`, false)
	f.Fuzz(func(t *testing.T, body string, chat bool) {
		path := "/v1/completions"
		if chat {
			path = "/v1/chat/completions"
		}
		c, err := parse(t, path, body)
		if err != nil {
			if f := fault.From(err); f.Code != fault.InvalidRequest {
				t.Fatalf("%q: %v", body, err)
			}
			return
		}
		out, err := New().Prepare(c, dialect.Upstream{BaseURL: "https://x/v1", Model: "other", InjectUsage: true, MaxOutput: 99})
		if err != nil {
			t.Fatal(err)
		}
		again, err := parse(t, path, joined(out.Body))
		if err != nil {
			t.Fatalf("%q became %q: %v", body, joined(out.Body), err)
		}
		if again.Model != "other" || !again.HasMaxOutput || c.Stream && !again.WantsUsage {
			t.Fatalf("%q became %q", body, joined(out.Body))
		}
	})
}
