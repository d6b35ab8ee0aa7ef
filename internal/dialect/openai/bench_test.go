package openai

import (
	"fmt"
	"strings"
	"testing"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/dialecttest"
)

// body is a chat of about n bytes.
func body(n int) []byte {
	message := `{"role":"user","content":"` + strings.Repeat("What is a token bucket, and why? ", 20) + `"},`
	return []byte(`{"model":"gpt-4o","messages":[` + strings.Repeat(message, 1+n/len(message)) + `{"role":"user","content":"?"}],"stream":true,"temperature":0.5,"max_tokens":100,"user":"u"}`)
}

// session is an agent's conversation of about n bytes: short messages, each with a
// call of a tool or its result, and tools with schemas.
func session(n int) []byte {
	tool := `{"type":"function","function":{"name":"read_file","description":"Read a file.","parameters":{"type":"object","properties":{"path":{"type":"string"},"from":{"type":"integer"}},"required":["path"]}}},`
	turn := `{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"read_file","arguments":"{\"path\":\"a.go\"}"}}]},` +
		`{"role":"tool","tool_call_id":"call_1","content":[{"type":"text","text":"package a\n\nfunc f() int { return 1 }"}]},`
	return []byte(`{"model":"gpt-4o","stream":true,"tools":[` + strings.Repeat(tool, 20) + `{"type":"web_search"}],"messages":[` +
		strings.Repeat(turn, 1+n/len(turn)) + `{"role":"user","content":"?"}]}`)
}

func BenchmarkParseASession(b *testing.B) {
	for _, size := range []int{16 << 10, 400 << 10} {
		b.Run(fmt.Sprintf("%dKB", size>>10), func(b *testing.B) {
			text := session(size)
			r, _ := dialecttest.Request(New(), "POST", "/v1/chat/completions", dialect.Header{"Content-Type": {"application/json"}}, text)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := New().Parse(r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkParseAndPrepare(b *testing.B) {
	for _, size := range []int{1 << 10, 16 << 10, 400 << 10} {
		b.Run(fmt.Sprintf("%dKB", size>>10), func(b *testing.B) {
			text := body(size)
			h := dialect.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer k"}, "User-Agent": {"OpenAI/JS"}, "Accept": {"application/json"}, "Accept-Encoding": {"gzip"}}
			r, _ := dialecttest.Request(New(), "POST", "/v1/chat/completions", h, text)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				c, err := New().Parse(r)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := New().Prepare(c, dialect.Upstream{BaseURL: "https://x/v1", Model: "m", APIKey: "k", InjectUsage: true}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkMeter(b *testing.B) {
	chunk := `data: {"id":"chatcmpl-FxB4aQ2","object":"chat.completion.chunk","created":1790000001,"model":"gpt-4.1-mini-2025-04-14","service_tier":"default","system_fingerprint":"fp_1a2b3c4d5e","choices":[{"index":0,"delta":{"content":" usage"},"logprobs":null,"finish_reason":null}]%s}` + "\n\n"
	for _, s := range []struct {
		what  string
		chunk string
		hide  bool
	}{
		{"passed on", fmt.Sprintf(chunk, ""), false},
		{"hidden, nothing there", fmt.Sprintf(chunk, ""), true},
		{"hidden, null", fmt.Sprintf(chunk, `,"usage":null`), true},
	} {
		b.Run(s.what, func(b *testing.B) {
			c := &dialect.Call{Request: dialect.Request{Endpoint: dialect.Endpoint{Operation: dialect.Chat}}, Stream: true}
			a := dialect.Answer{Status: 200, Header: dialect.Header{"Content-Type": {"text/event-stream"}}}
			m := New().Meter(c, a, dialect.MeterOptions{HideUsage: s.hide, Count: dialecttest.Bytes})
			text := []byte(s.chunk)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				m.Feed(text)
			}
		})
	}
}
