package cohere

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
			"cohere.chat": {Operation: dialect.Chat}, "cohere.error": {Operation: dialect.Chat}, "cohere.embed": {Operation: dialect.Embeddings},
		},
		Requests:   []string{"cohere.chat", "cohere.embed"},
		StreamType: "text/event-stream",
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
		want       dialect.Call
		param      string
	}{
		{"/v2/chat", `{"model":"m"}`, dialect.Call{}, ""},
		{"/v2/chat", `{"model":"m","max_tokens":5,"stream":true}`, dialect.Call{MaxOutput: 5, HasMaxOutput: true, Stream: true}, ""},
		{"/v2/embed", `{"model":"m","max_tokens":0}`, dialect.Call{NoOutput: true}, ""},
		{"/v2/rerank", `{"model":"m"}`, dialect.Call{NoOutput: true}, ""},
		{"/v2/chat", `{"model":"m","max_tokens":0}`, dialect.Call{}, "max_tokens"},
		{"/v2/chat", `{"model":"m","stream":1}`, dialect.Call{}, "stream"},
		{"/v2/rerank", `{}`, dialect.Call{}, "model"},
	} {
		c, err := parse(t, s.path, s.body)
		if s.param != "" {
			if f := fault.From(err); f == nil || f.Param != s.param {
				t.Errorf("%s: got %v, want an invalid %s", s.body, err, s.param)
			}
			continue
		}
		if err != nil || c.Stream != s.want.Stream || c.NoOutput != s.want.NoOutput || c.MaxOutput != s.want.MaxOutput || c.HasMaxOutput != s.want.HasMaxOutput {
			t.Errorf("%s: got %+v, %v", s.body, c, err)
		}
	}
}

func TestACallGoesOutUnderItsModelAndBound(t *testing.T) {
	c, err := parse(t, "/v2/chat", `{"model":"m"}`)
	if err != nil {
		t.Fatal(err)
	}
	out, err := New().Prepare(c, dialect.Upstream{BaseURL: "https://c/", APIKey: "k", Model: "up", MaxOutput: 9})
	if err != nil || out.URL != "https://c/v2/chat" || out.Header.Get("Authorization") != "Bearer k" || string(bytes.Join(out.Body, nil)) != `{"max_tokens":9,"model":"up"}` {
		t.Errorf("got %s %s %v", out.URL, bytes.Join(out.Body, nil), err)
	}
}

const stream = "event: message-start\ndata: {\"id\":\"i\",\"type\":\"message-start\",\"delta\":{\"message\":{\"role\":\"assistant\",\"content\":[],\"tool_plan\":\"\"}}}\n\n" +
	"event: content-delta\ndata: {\"type\":\"content-delta\",\"index\":0,\"delta\":{\"message\":{\"content\":{\"text\":\"Twenty\"}}}}\n\n" +
	"event: tool-call-delta\ndata: {\"type\":\"tool-call-delta\",\"delta\":{\"message\":{\"tool_calls\":{\"function\":{\"arguments\":\"{}\"}}}}}\n\n"

func TestUsageComesWithTheEndOfTheMessage(t *testing.T) {
	meter := func() dialect.Meter {
		h := dialect.Header{"Content-Type": {"text/event-stream"}}
		c := &dialect.Call{Request: dialect.Request{Endpoint: dialect.Endpoint{Operation: dialect.Chat}}, Stream: true}
		return New().Meter(c, dialect.Answer{Status: 200, Header: h}, dialect.MeterOptions{Count: dialecttest.Bytes})
	}
	m := meter()
	m.Feed([]byte(stream))
	if r := m.Report(); r.Complete || r.OutputKnown || r.Counted != 8 || r.ID != "i" {
		t.Errorf("before the end: got %+v", r)
	}
	m.Feed([]byte("event: message-end\ndata: {\"type\":\"message-end\",\"delta\":{\"finish_reason\":\"COMPLETE\",\"usage\":{\"billed_units\":{\"input_tokens\":4,\"output_tokens\":3},\"tokens\":{\"input_tokens\":70,\"output_tokens\":9},\"cached_tokens\":64}}}\n\n"))
	m.End()
	if r := m.Report(); !r.Complete || r.Usage != (tokens.Usage{Input: 4, Output: 3}) || r.Finish != "COMPLETE" {
		t.Errorf("after the end: got %+v", r)
	}
	m = meter()
	m.Feed([]byte(stream))
	m.Feed(New().ErrorEvent(fault.New(fault.UpstreamError, "It broke."), "r"))
	m.End()
	if r := m.Report(); r.Complete || r.Failure == nil || r.Failure.Message != "It broke." || r.Counted != 8 {
		t.Errorf("after an error: got %+v", r)
	}
}
