package bedrock

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/dialecttest"
	"llmgw/internal/dialect/stream"
	"llmgw/internal/fault"
	"llmgw/internal/tokens"
)

func suite() dialecttest.Suite {
	of := func(action string) dialecttest.Source {
		return dialecttest.Source{Operation: dialect.Chat, Pattern: prefix + ":model" + action}
	}
	return dialecttest.Suite{
		Dialect:       New(),
		Answers:       map[string]dialecttest.Source{"bedrock.converse": of(converse), "bedrock.invoke": of(invoke), "bedrock.error": of(converse)},
		Requests:      []string{"bedrock.converse", "bedrock.invoke"},
		StreamType:    "application/vnd.amazon.eventstream",
		StreamPattern: prefix + ":model" + converseStream,
	}
}

func TestTheDialectPassesItsSuite(t *testing.T) { dialecttest.Run(t, suite()) }

func FuzzMeter(f *testing.F) { dialecttest.Fuzz(f, suite()) }

func parse(t *testing.T, path, body string) (*dialect.Call, error) {
	t.Helper()
	return dialecttest.Parse(t, New(), path, body, dialect.Header{})
}

func TestTheBoundsOfAllVendorsCount(t *testing.T) {
	for _, s := range []struct {
		path, body string
		bound      tokens.Count
		param      string
	}{
		{"/model/m/converse", `{"inferenceConfig":{"maxTokens":5}}`, 5, ""},
		{"/model/m/converse-stream", `{"inferenceConfig":{}}`, 0, ""},
		{"/model/m/converse", `{"maxTokens":5}`, 0, ""},
		{"/model/m/converse", `{"inferenceConfig":{"maxTokens":0}}`, 0, "inferenceConfig.maxTokens"},
		{"/model/m/converse", `{"inferenceConfig":[]}`, 0, "inferenceConfig"},
		{"/model/m/invoke", `{"max_tokens":5}`, 5, ""},
		{"/model/m/invoke", `{"max_gen_len":6,"max_tokens":5}`, 6, ""},
		{"/model/m/invoke", `{"textGenerationConfig":{"maxTokenCount":7}}`, 7, ""},
		{"/model/m/invoke-with-response-stream", `{"inferenceConfig":{"max_new_tokens":8}}`, 8, ""},
		{"/model/m/invoke", `{"max_tokens":-1}`, 0, "max_tokens"},
		{"/model/m/invoke", `{"max_tokens":0}`, 0, "max_tokens"},
		{"/model/m/invoke", `{"textGenerationConfig":7}`, 0, "textGenerationConfig"},
		{"/model/m/invoke", `{"textGenerationConfig":{"maxTokenCount":"7"}}`, 0, "maxTokenCount"},
		{"/model/%zz/invoke", `{}`, 0, "model"},
		{"/model/%00/converse", `{}`, 0, "model"},
	} {
		c, err := parse(t, s.path, s.body)
		if s.param != "" {
			if f := fault.From(err); f == nil || f.Param != s.param {
				t.Errorf("%s: got %v, want an invalid %s", s.body, err, s.param)
			}
			continue
		}
		if err != nil || c.MaxOutput != s.bound || c.HasMaxOutput != (s.bound > 0) || c.Stream != strings.HasSuffix(s.path, "stream") {
			t.Errorf("%s: got %+v, %v", s.body, c, err)
		}
	}
	c, err := parse(t, "/model/anthropic.claude/invoke", `{"anthropic_version":"bedrock-2023-05-31","max_tokens":0}`)
	if err != nil || !c.HasMaxOutput || c.MaxOutput != 0 {
		t.Errorf("a bound of 0 for Anthropic: got %+v, %v", c, err)
	}
	c, err = parse(t, "/model/amazon.titan-embed-text-v2%3A0/invoke", `{"inputText":"a"}`)
	if err != nil || !c.NoOutput || c.Model != "amazon.titan-embed-text-v2:0" {
		t.Errorf("embeddings: got %+v, %v", c, err)
	}
}

func TestABoundIsWrittenIntoConverse(t *testing.T) {
	for body, want := range map[string]string{
		`{"messages":[]}`:                        `{"inferenceConfig":{"maxTokens":9},"messages":[]}`,
		`{"inferenceConfig":{"topP":1}}`:         `{"inferenceConfig":{"maxTokens":9,"topP":1}}`,
		`{"inferenceConfig":{"maxTokens":null}}`: `{"inferenceConfig":{"maxTokens":9}}`,
		`{"inferenceConfig":null}`:               `{"inferenceConfig":{"maxTokens":9}}`,
		`{"inferenceConfig":{"maxTokens":5}}`:    `{"inferenceConfig":{"maxTokens":5}}`,
	} {
		c, err := parse(t, "/model/m/converse", body)
		if err != nil {
			t.Fatal(err)
		}
		out, err := New().Prepare(c, dialect.Upstream{BaseURL: "https://b", MaxOutput: 9})
		if got := string(bytes.Join(out.Body, nil)); err != nil || got != want || out.URL != "https://b/model/m/converse" || out.Header.Get("Authorization") != "" {
			t.Errorf("%s: got %s, %v, want %s", body, got, err, want)
		}
	}
	c, err := parse(t, "/model/m/invoke", `{"prompt":"a"}`)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := New().Prepare(c, dialect.Upstream{BaseURL: "https://b", MaxOutput: 9}); err != nil || string(bytes.Join(out.Body, nil)) != `{"prompt":"a"}` {
		t.Errorf("a vendor's body was changed to %s, %v", bytes.Join(out.Body, nil), err)
	}
}

func TestACallThatCannotBeSignedIsAnError(t *testing.T) {
	c, err := parse(t, "/model/m/converse", `{}`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New().Prepare(c, dialect.Upstream{BaseURL: "://nowhere", APIKey: "a:b"}); err == nil {
		t.Error("no error")
	}
}

func TestACallWithABearerKeyIsNotSigned(t *testing.T) {
	c, err := parse(t, "/model/m/converse", `{"messages":[]}`)
	if err != nil {
		t.Fatal(err)
	}
	out, err := New().Prepare(c, dialect.Upstream{BaseURL: "https://b", APIKey: "bearer", Model: "a:b/c d", MaxOutput: 9})
	if err != nil || out.Header.Get("Authorization") != "Bearer bearer" || out.Header.Get("X-Amz-Date") != "" {
		t.Errorf("got %v, %v", out.Header, err)
	}
	if out.URL != "https://b/model/a%3Ab%2Fc%20d/converse" || string(bytes.Join(out.Body, nil)) != `{"inferenceConfig":{"maxTokens":9},"messages":[]}` {
		t.Errorf("got %s %s", out.URL, bytes.Join(out.Body, nil))
	}
}

// TestTheSignatureIsThatOfItsDefinition compares with signature version 4 as
// AWS's documentation writes it down.
func TestTheSignatureIsThatOfItsDefinition(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 30, 0, 0, time.UTC)
	c, err := parse(t, "/model/us.anthropic.claude-v1%3A0/converse", `{"messages":[]}`)
	if err != nil {
		t.Fatal(err)
	}
	c.Header = dialect.Header{"Content-Type": {"application/json"}, "User-Agent": {"x"}, "X-Amz-User-Agent": {"aws-sdk-js/3"}, "X-Amzn-Trace-Id": {"y"}}
	d := Dialect{now: func() time.Time { return now }}
	out, err := d.Prepare(c, dialect.Upstream{BaseURL: "https://bedrock-runtime.us-east-1.amazonaws.com", APIKey: "AKID:secret/+:to:ken", Region: "us-east-1", Model: c.Model})
	if err != nil {
		t.Fatal(err)
	}
	mac := func(key []byte, text string) []byte {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(text))
		return h.Sum(nil)
	}
	sum := func(text string) string {
		h := sha256.Sum256([]byte(text))
		return hex.EncodeToString(h[:])
	}
	const names = "content-type;host;x-amz-content-sha256;x-amz-date;x-amz-security-token;x-amz-user-agent"
	canonical := strings.Join([]string{
		"POST", "/model/us.anthropic.claude-v1%253A0/converse", "",
		"content-type:application/json", "host:bedrock-runtime.us-east-1.amazonaws.com", "x-amz-content-sha256:" + sum(`{"messages":[]}`),
		"x-amz-date:20261129T123000Z", "x-amz-security-token:to:ken", "x-amz-user-agent:aws-sdk-js/3", "", names, sum(`{"messages":[]}`),
	}, "\n")
	scope := "20261129/us-east-1/bedrock/aws4_request"
	key := []byte("AWS4secret/+")
	for _, part := range strings.Split(scope, "/") {
		key = mac(key, part)
	}
	signature := hex.EncodeToString(mac(key, "AWS4-HMAC-SHA256\n20261129T123000Z\n"+scope+"\n"+sum(canonical)))
	want := fmt.Sprintf("AWS4-HMAC-SHA256 Credential=AKID/%s, SignedHeaders=%s, Signature=%s", scope, names, signature)
	if got := out.Header.Get("Authorization"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if out.Header.Get("X-Amz-Date") != "20261129T123000Z" || out.Header.Get("X-Amz-Security-Token") != "to:ken" || out.Header.Get("User-Agent") != "x" {
		t.Errorf("got %v", out.Header)
	}
}

func TestAnyVendorsEventsAreReadInsideTheirFrames(t *testing.T) {
	const metrics = `"amazon-bedrock-invocationMetrics":{"inputTokenCount":7,"outputTokenCount":3,"cacheReadInputTokenCount":2,"invocationLatency":9}`
	for _, s := range []struct {
		what, finish string
		events       []string
	}{
		{"Meta", "stop", []string{`{"generation":"Hi","stop_reason":null}`, `{"generation":" you","stop_reason":"stop",` + metrics + `}`}},
		{"Cohere", "COMPLETE", []string{`{"is_finished":false,"event_type":"text-generation","text":"Hi you"}`, `{"is_finished":true,"finish_reason":"COMPLETE","response":{"text":"Hi you"},` + metrics + `}`}},
		{"Amazon Nova", "end_turn", []string{`{"contentBlockDelta":{"delta":{"text":"Hi you"}}}`, `{"messageStop":{"stopReason":"end_turn"}}`, `{"metadata":{"usage":{"inputTokens":7}},` + metrics + `}`}},
		{"somebody new, whose end only Bedrock tells", "", []string{`{"said":"Hi you","text":"Hi you"}`, `{` + metrics + `}`}},
	} {
		c := &dialect.Call{Request: dialect.Request{Endpoint: dialect.Endpoint{Pattern: prefix + ":model" + invokeStream, Operation: dialect.Chat}}, Stream: true}
		a := dialect.Answer{Status: 200, Header: dialect.Header{"Content-Type": {"application/vnd.amazon.eventstream"}}}
		m := New().Meter(c, a, dialect.MeterOptions{Count: dialecttest.Bytes})
		for i, event := range s.events {
			if r := m.Report(); r.Complete && r.Finish == "" {
				t.Errorf("%s: complete before event %d", s.what, i)
			}
			payload := fmt.Appendf(nil, `{"bytes":%q,"p":"abc"}`, base64.StdEncoding.EncodeToString([]byte(event)))
			m.Feed(stream.AppendFrame(nil, [][2]string{{":event-type", "chunk"}, {":message-type", "event"}}, payload))
		}
		m.End()
		r := m.Report()
		if r.Usage != (tokens.Usage{Input: 9, CachedInput: 2, Output: 3}) || r.Counted != 6 || !r.Complete || r.Events != len(s.events) || r.Finish != s.finish {
			t.Errorf("%s: got %+v", s.what, r)
		}
	}
}

func TestAnAnswerOfAnUnknownVendorIsCountedByItsSize(t *testing.T) {
	c := &dialect.Call{Request: dialect.Request{Endpoint: dialect.Endpoint{Pattern: prefix + ":model" + invoke, Operation: dialect.Chat}}}
	for _, s := range []struct {
		what, body, output string
		unreadable         bool
		counted            tokens.Count
	}{
		{"a picture", `{"images":["` + strings.Repeat("A", 400) + `"],"error":null}`, "", true, 107},
		{"a picture with its count", `{"images":["AAAA"]}`, "5", false, 0},
		{"text", `{"generation":"Hi you"}`, "", false, 6},
	} {
		a := dialect.Answer{Status: 200, Header: dialect.Header{"Content-Type": {"application/json"}, "X-Amzn-Bedrock-Output-Token-Count": {s.output}}}
		m := New().Meter(c, a, dialect.MeterOptions{Count: dialecttest.Bytes})
		m.Feed([]byte(s.body))
		if r := m.Report(); r.Unreadable != s.unreadable || r.Counted != s.counted || !r.Complete || r.Failure != nil {
			t.Errorf("%s: got %+v", s.what, r)
		}
	}
}

func TestABrokenStreamEndsWithAnException(t *testing.T) {
	event := New().ErrorEvent(fault.New(fault.UpstreamError, "It broke."), "r")
	c := &dialect.Call{Request: dialect.Request{Endpoint: dialect.Endpoint{Pattern: prefix + ":model" + converseStream, Operation: dialect.Chat}}, Stream: true}
	a := dialect.Answer{Status: 200, Header: dialect.Header{"Content-Type": {"application/vnd.amazon.eventstream"}}}
	m := New().Meter(c, a, dialect.MeterOptions{Count: dialecttest.Bytes})
	m.Feed(event)
	m.End()
	if r := m.Report(); r.Failure == nil || *r.Failure != (dialect.Failure{Type: "modelStreamErrorException", Message: "It broke.", Status: 424}) {
		t.Errorf("got %+v", r.Failure)
	}
}

func TestARefusalNamesItsExceptionInAHeader(t *testing.T) {
	for code, want := range map[fault.Code]string{
		fault.RateLimitExceeded: "ThrottlingException", fault.InsufficientQuota: "ServiceQuotaExceededException", fault.InvalidRequest: "ValidationException",
		fault.ModelNotAllowed: "AccessDeniedException", fault.ModelNotFound: "ResourceNotFoundException", fault.InvalidAPIKey: "UnrecognizedClientException",
		fault.UpstreamCapacity: "ServiceUnavailableException", fault.UpstreamTimeout: "ModelTimeoutException", fault.UpstreamError: "ModelErrorException", fault.Internal: "InternalServerException",
	} {
		doc := New().Refusal(fault.New(code, "No."), "r")
		if got := doc.Header.Get("X-Amzn-Errortype"); got != want || string(doc.Body) != "{\"message\":\"No.\"}\n" || doc.Header.Get("X-Amzn-Requestid") != "r" {
			t.Errorf("%s: got %s, want %s", code, got, want)
		}
	}
}

func TestAFailureOfTheProviderKeepsTheNameOfItsStatus(t *testing.T) {
	for status, want := range map[int]string{429: "ThrottlingException", 503: "ServiceUnavailableException", 0: "ModelErrorException"} {
		doc := New().Refusal(&fault.Error{Code: fault.UpstreamError, Message: "Busy.", Status: status}, "req-1")
		if got := doc.Header.Get("X-Amzn-Errortype"); got != want {
			t.Errorf("%d: got %s, want %s", status, got, want)
		}
	}
}

func TestTheKindOfACallIsThatOfItsBodyWhateverItsModelIsCalled(t *testing.T) {
	for _, s := range []struct {
		model, body string
		kind        dialect.Operation
	}{
		{"my-embedded-claude", `{"anthropic_version":"bedrock-2023-05-31","max_tokens":9000,"messages":[]}`, dialect.Chat},
		{"embed-llama", `{"prompt":"a"}`, dialect.Chat},
		{"rerank-nova", `{"messages":[],"inferenceConfig":{"maxTokens":5}}`, dialect.Chat},
		{"embed-command", `{"message":"a","query":"b","documents":[]}`, dialect.Chat},
		{"embed-titan-text", `{"inputText":"a","textGenerationConfig":{}}`, dialect.Chat},
		{"embed-titan-text", `{"inputText":"a"}`, dialect.Chat},
		{"anything", `{}`, dialect.Chat},
		{"vectors", `{"texts":["a"],"input_type":"search_query"}`, dialect.Embeddings},
		{"vectors", `{"inputText":"a","dimensions":256}`, dialect.Embeddings},
		{"amazon.titan-embed-text-v2:0", `{"inputText":"a"}`, dialect.Embeddings},
		{"vectors", `{"taskType":"SINGLE_EMBEDDING","singleEmbeddingParams":{}}`, dialect.Embeddings},
		{"order", `{"query":"a","documents":["b"],"top_n":1}`, dialect.Rerank},
	} {
		c, err := parse(t, "/model/"+s.model+"/invoke", s.body)
		if err != nil {
			t.Fatal(err)
		}
		if c.Endpoint.Operation != s.kind || c.NoOutput != (s.kind != dialect.Chat) {
			t.Errorf("%s %s: got %s, no output %v, want %s", s.model, s.body, c.Endpoint.Operation, c.NoOutput, s.kind)
		}
	}
}

func TestTheBoundIsWrittenWhereAVendorTakesIt(t *testing.T) {
	for body, want := range map[string]string{
		`{"inputText":"a"}`: `{"textGenerationConfig":{"maxTokenCount":9},"inputText":"a"}`,
		`{"inputText":"a","textGenerationConfig":{"topP":1}}`:    `{"inputText":"a","textGenerationConfig":{"maxTokenCount":9,"topP":1}}`,
		`{"messages":[],"inferenceConfig":{}}`:                   `{"messages":[],"inferenceConfig":{"maxTokens":9}}`,
		`{"messages":[],"inferenceConfig":{"max_new_tokens":5}}`: `{"messages":[],"inferenceConfig":{"max_new_tokens":5}}`,
		`{"anthropic_version":"v","messages":[]}`:                `{"max_tokens":9,"anthropic_version":"v","messages":[]}`,
		`{"prompt":"a"}`: `{"prompt":"a"}`, // nobody knows whose it is
	} {
		c, err := parse(t, "/model/m/invoke", body)
		if err != nil {
			t.Fatal(err)
		}
		out, err := New().Prepare(c, dialect.Upstream{BaseURL: "https://x", MaxOutput: 9})
		if err != nil {
			t.Fatal(err)
		}
		if got := string(bytes.Join(out.Body, nil)); got != want {
			t.Errorf("%s: got %s, want %s", body, got, want)
		}
	}
}
