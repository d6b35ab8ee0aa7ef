package gemini

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/dialecttest"
	"llmgw/internal/fault"
	"llmgw/internal/tokens"
)

func suite() dialecttest.Suite {
	return dialecttest.Suite{
		Dialect: New(),
		Answers: map[string]dialecttest.Source{
			"gemini.generate": {Operation: dialect.Chat}, "gemini.error": {Operation: dialect.Chat}, "gemini.count_tokens": {Operation: dialect.CountTokens},
		},
		Requests:   []string{"gemini.generate", "gemini.count_tokens", "gemini.embed"},
		Elsewhere:  []string{"gemini-vertex.req.json"}, // Vertex's paths are no endpoints of this gateway
		StreamType: "text/event-stream",
	}
}

func TestTheDialectPassesItsSuite(t *testing.T) { dialecttest.Run(t, suite()) }

func FuzzMeter(f *testing.F) { dialecttest.Fuzz(f, suite()) }

func parse(t *testing.T, target, body string) (*dialect.Call, error) {
	t.Helper()
	return dialecttest.Parse(t, New(), target, body, dialect.Header{})
}

func TestAnActionIsKnownByItsPath(t *testing.T) {
	for _, s := range []struct {
		path, pattern string
		operation     dialect.Operation
		ok            bool
	}{
		{"/v1beta/models/gemini-2.5-pro:generateContent", "/v1beta/models/:model:generateContent", dialect.Chat, true},
		{"/v1beta/models/tuned%2Fmine%3AcountTokens", "/v1beta/models/:model:countTokens", dialect.CountTokens, true},
		{"/v1beta/models/gemini-2.5-pro:tuneModel", "", "", false},
		{"/v1beta/models/gemini-2.5-pro", "", "", false},
		{"/v1beta/models/%zz:generateContent", "", "", false},
	} {
		r, ok := dialecttest.Request(New(), "POST", s.path, nil, nil)
		if e := r.Endpoint; ok != s.ok || e.Pattern != s.pattern || e.Operation != s.operation {
			t.Errorf("%s: got %+v, %v", s.path, e, ok)
		}
	}
}

func TestBoundsCountUnderBothTheirNames(t *testing.T) {
	for _, s := range []struct {
		body    string
		bound   tokens.Count
		choices tokens.Count
		param   string
	}{
		{`{}`, 0, 1, ""},
		{`{"generationConfig":{"maxOutputTokens":5,"candidateCount":2}}`, 5, 2, ""},
		{`{"generation_config":{"max_output_tokens":5,"candidate_count":2}}`, 5, 2, ""},
		{`{"generationConfig":{"max_output_tokens":5},"generation_config":{"maxOutputTokens":9}}`, 9, 1, ""},
		{`{"generationConfig":{"maxOutputTokens":1,"max_output_tokens":9}}`, 9, 1, ""},
		{`{"generationConfig":null}`, 0, 1, ""},
		{`{"maxOutputTokens":7,"contents":[{"generationConfig":{"maxOutputTokens":8}}]}`, 0, 1, ""},
		{`{"generationConfig":{"maxOutputTokens":0}}`, 0, 0, "generationConfig.maxOutputTokens"},
		{`{"generationConfig":{"maxOutputTokens":"5"}}`, 0, 0, "generationConfig.maxOutputTokens"},
		{`{"generation_config":{"candidate_count":-1}}`, 0, 0, "generation_config.candidate_count"},
		{`{"generationConfig":[]}`, 0, 0, "generationConfig"},
		{`{"generationConfig":{"maxOutputTokens":1,"maxOutputTokens":9}}`, 0, 0, "maxOutputTokens"},
	} {
		c, err := parse(t, "/v1beta/models/gemini-2.5-pro:generateContent", s.body)
		if s.param != "" {
			if f := fault.From(err); f == nil || f.Param != s.param {
				t.Errorf("%s: got %v, want an invalid %s", s.body, err, s.param)
			}
			continue
		}
		if err != nil || c.MaxOutput != s.bound || c.HasMaxOutput != (s.bound > 0) || c.Choices != s.choices {
			t.Errorf("%s: got %+v, %v", s.body, c, err)
		}
	}
}

func TestTheActionSaysWhatTheCallIs(t *testing.T) {
	for action, want := range map[string]dialect.Call{
		"generateContent":       {},
		"streamGenerateContent": {Stream: true},
		"countTokens":           {NoOutput: true, RequestsOnly: true},
		"embedContent":          {NoOutput: true},
		"batchEmbedContents":    {NoOutput: true},
	} {
		c, err := parse(t, "/v1beta/models/m:"+action, `{}`)
		if err != nil || c.Stream != want.Stream || c.NoOutput != want.NoOutput || c.RequestsOnly != want.RequestsOnly || c.Model != "m" || !strings.HasSuffix(c.Endpoint.Pattern, action) {
			t.Errorf("%s: got %+v, %v", action, c, err)
		}
	}
	if c, err := parse(t, "/v1beta/models/gemini%2D2%3AgenerateContent", `{}`); err != nil || c.Model != "gemini-2" {
		t.Errorf("an escaped path: got %+v, %v", c, err)
	}
	for _, path := range []string{"/v1beta/models/m", "/v1beta/models/%zz:generateContent"} {
		if _, err := New().Parse(dialect.Request{Path: path, Body: []byte(`{}`)}); fault.From(err) == nil || fault.From(err).Code != fault.NotFound {
			t.Errorf("%s: got %v, want not found", path, err)
		}
	}
	if _, err := parse(t, "/v1beta/models/:generateContent", `{}`); fault.From(err) == nil || fault.From(err).Param != "model" {
		t.Errorf("no model: got %v", err)
	}
}

// F9: an answer in another form than JSON could not be metered.
func TestAnAnswerThatIsNoJSONCannotBeAskedFor(t *testing.T) {
	for query, want := range map[string]string{
		"alt=proto": "alt", "alt=media": "alt", "alt=sse&alt=proto": "alt", "%61lt=proto": "alt", "alt=": "alt", "$alt=proto": "$alt", "%24alt=proto": "$alt",
		"": "", "alt=sse": "", "alt=json&prettyPrint=false": "", "$alt=sse": "", "ALT=proto": "", // a name that Google does not know stays here
	} {
		_, err := parse(t, "/v1beta/models/m:streamGenerateContent?"+query, `{"contents":[]}`)
		if f := fault.From(err); want == "" && err != nil || want != "" && (err == nil || f.Code != fault.InvalidRequest || f.Param != want) {
			t.Errorf("%s: got %v, want an invalid %q", query, err, want)
		}
	}
}

func TestACallGoesOutUnderItsModel(t *testing.T) {
	for _, s := range []struct{ what, target, body, url, sent string }{
		{"without what hides usage", "/v1beta/models/m:streamGenerateContent?fields=candidates&alt=sse&%24fields=candidates&$httpHeaders=x&access_token=s&callback=f&x=y", `{"contents":[]}`, "/v1beta/models/up:streamGenerateContent?alt=sse", `{"generationConfig":{"maxOutputTokens":9},"contents":[]}`},
		{"as it came", "/v1beta/models/m:streamGenerateContent?alt=sse&key=s", `{"contents":[]}`, "/v1beta/models/up:streamGenerateContent?alt=sse", `{"generationConfig":{"maxOutputTokens":9},"contents":[]}`},
		{"a bound in its place", "/v1beta/models/m:generateContent", `{"generationConfig":{"topK":1}}`, "/v1beta/models/up:generateContent", `{"generationConfig":{"maxOutputTokens":9,"topK":1}}`},
		{"a bound by its other name", "/v1beta/models/m:generateContent", `{"generation_config":{"max_output_tokens":null}}`, "/v1beta/models/up:generateContent", `{"generation_config":{"max_output_tokens":9}}`},
		{"the names in a batch", "/v1beta/models/m:batchEmbedContents", `{"requests":[{"model":"models/m"},{"x":1},{"model":"models/m"}]}`, "/v1beta/models/up:batchEmbedContents", `{"requests":[{"model":"models/up"},{"x":1},{"model":"models/up"}]}`},
		{"the name in a count", "/v1beta/models/m:countTokens", `{"generateContentRequest":{"model":"models/m"}}`, "/v1beta/models/up:countTokens", `{"generateContentRequest":{"model":"models/up"}}`},
	} {
		c, err := parse(t, s.target, s.body)
		if err != nil {
			t.Fatal(err)
		}
		c.Header = dialect.Header{"X-Goog-Fieldmask": {"candidates"}, "X-Goog-Api-Client": {"x"}}
		out, err := New().Prepare(c, dialect.Upstream{BaseURL: "https://g", APIKey: "k", Model: "up", MaxOutput: 9})
		if err != nil {
			t.Fatal(err)
		}
		if out.URL != "https://g"+s.url || string(bytes.Join(out.Body, nil)) != s.sent || out.Header.Get("X-Goog-Api-Key") != "k" || out.Header["X-Goog-Fieldmask"] != nil || out.Header["X-Goog-Api-Client"] == nil {
			t.Errorf("%s: got %s %s, want %s %s", s.what, out.URL, bytes.Join(out.Body, nil), s.url, s.sent)
		}
	}
}

func TestARefusalHasGooglesDetails(t *testing.T) {
	limit := &fault.Limit{Scope: "team", Name: "tpm", Unit: "tokens", Amount: 100, Per: "minute", Remaining: 5, Requested: 31}
	e := &fault.Error{Code: fault.RateLimitExceeded, Message: "Wait.", Limit: limit, Wait: 6399*time.Millisecond + 1}
	want := `{"error":{"code":429,"message":"Wait.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"rate_limit_exceeded",` +
		`"domain":"llmgw","metadata":{"request_id":"r","limit":"{\"scope\":\"team\",\"name\":\"tpm\",\"unit\":\"tokens\",\"amount\":100,\"per\":\"minute\",\"remaining\":5,\"requested\":31,\"retry_after_ms\":6400}"}},` +
		`{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"6.400s"}]}}`
	if got := string(New().Refusal(e, "r").Body); got != want+"\n" {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	e.NoRetry, e.Wait = true, time.Hour
	if got := string(New().Refusal(e, "r").Body); !strings.Contains(got, `"retryDelay":"3600.000s"`) {
		t.Errorf("got %s: without its long delay Gemini CLI retries for minutes", got)
	}
	e.Wait = 0
	if got := string(New().ErrorEvent(e, "r")); strings.Contains(got, "RetryInfo") || !strings.HasPrefix(got, "data: {") || !strings.HasSuffix(got, "\r\n\r\n") {
		t.Errorf("got %q", got)
	}
}

func TestAnErrorInThePlaceOfAnArrayIsOne(t *testing.T) {
	stream := dialect.Endpoint{Pattern: "/v1beta/models/:model:streamGenerateContent"}
	whole := dialect.Endpoint{Pattern: "/v1beta/models/:model:generateContent"}
	for _, s := range []struct {
		endpoint dialect.Endpoint
		query    string
		array    bool
	}{
		{stream, "", true}, {stream, "alt=json&key=k", true}, {stream, "alt=sse", false}, {stream, "key=k&alt=sse", false}, {stream, "%zz", true}, {whole, "", false},
	} {
		d := Dialect{}.For(s.endpoint, s.query)
		body := string(d.Refusal(fault.New(fault.Internal, "No."), "r").Body)
		if got := strings.HasPrefix(body, `[{"error":{`) && strings.HasSuffix(body, "}}]\n"); got != s.array || !json.Valid([]byte(body)) || d.Name() != Name {
			t.Errorf("%s?%s: got %s", s.endpoint.Pattern, s.query, body)
		}
	}
}
