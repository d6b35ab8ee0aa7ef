package blackbox

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestAnErrorAsTheFirstEventHasTheStatusOfItsKind(t *testing.T) {
	event := func(kind, code string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			say(w, fmt.Sprintf("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":%q,\"message\":\"No.\"%s}}\n\n", kind, code))
		}
	}
	rows := []struct {
		dialect, path, name string
		kind, code          string
		status              int
		reads               string
	}{
		{"anthropic", "/v1/messages", "overloaded", "overloaded_error", "", 529, `"type":"overloaded_error"`},
		{"anthropic", "/v1/messages", "rate", "rate_limit_error", "", 429, `"type":"rate_limit_error"`},
		{"anthropic", "/v1/messages", "request", "invalid_request_error", "", 400, `"type":"invalid_request_error"`},
		{"anthropic", "/v1/messages", "missing", "not_found_error", "", 404, `"type":"not_found_error"`},
		{"anthropic", "/v1/messages", "timeout", "timeout_error", "", 504, `"type":"timeout_error"`},
		{"anthropic", "/v1/messages", "api", "api_error", "", 500, `"type":"api_error"`},
		{"openai", chat, "oserver", "server_error", "", 502, `"code":"upstream_error"`},
		{"openai", chat, "orate", "tokens", `,"code":"rate_limit_exceeded"`, 429, `"code":"upstream_error"`},
		{"openai", chat, "ocontext", "invalid_request_error", `,"code":"context_length_exceeded"`, 400, `"code":"upstream_error"`},
		{"openai", chat, "onumber", "BadGateway", `,"code":503`, 503, `"code":"upstream_error"`},
		{"openai", chat, "omystery", "mystery", "", 502, `"code":"upstream_error"`},
	}
	for _, dialect := range []string{"anthropic", "openai"} {
		t.Run(dialect, func(t *testing.T) {
			p := play{}
			for _, s := range rows {
				if s.dialect == dialect {
					p[s.name] = event(s.kind, s.code)
				}
			}
			w := onStage(t, p, dialect, "", setup{})
			for _, s := range rows {
				if s.dialect != dialect {
					continue
				}
				a := w.Post(secret, s.path, ask(s.name, streamed, bound(100)))
				if a.Status != s.status || a.Code() != "upstream_error" || !strings.Contains(a.Body, s.reads) || !strings.Contains(a.Body, "No.") {
					t.Errorf("%s: got %d %q, want %d and %s\n%s", s.name, a.Status, a.Code(), s.status, s.reads, a.Body)
				}
				w.ended(s.name, "upstream_error", 0, 0, false)
			}
			w.settled()
		})
	}
}

func TestAnErrorAsTheFirstEventIsSeenInEveryFraming(t *testing.T) {
	const frames, lines = "application/vnd.amazon.eventstream", "application/x-ndjson"
	for _, s := range []struct {
		dialect, path, body, kind, says string
		status                          int
		reads                           string
	}{
		{"openai", chat, ask("m", streamed), "text/event-stream", "data: {\"error\":{\"code\":503,\"message\":\"Busy.\"}}\n\ndata: [DONE]\n\n", 503, `"code":"upstream_error"`},
		{"anthropic", "/v1/messages", ask("m", streamed, bound(9)), "text/event-stream", "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Busy.\"}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n", 529, `"type":"error"`},
		{"gemini", "/v1beta/models/m:streamGenerateContent?alt=sse", geminiBody, "text/event-stream", "data: {\"error\":{\"code\":503,\"message\":\"Busy.\",\"status\":\"UNAVAILABLE\"}}\r\n\r\n", 503, `"status":"UNAVAILABLE"`},
		{"gemini", "/v1beta/models/m:streamGenerateContent", geminiBody, "application/json", `[{"error":{"code":429,"message":"Busy.","status":"RESOURCE_EXHAUSTED"}}]`, 429, `"status":"RESOURCE_EXHAUSTED"`},
		{"bedrock", "/model/m/converse-stream", `{"messages":[{"role":"user","content":[{"text":"m"}]}]}`, frames, throttled, 429, `{"message":`},
		{"cohere", "/v2/chat", ask("m", streamed), "text/event-stream", "event: message-end\ndata: {\"type\":\"message-end\",\"delta\":{\"finish_reason\":\"ERROR\",\"error\":\"Busy.\"}}\n\n", 502, `"message":`},
		{"ollama", "/api/chat", ask("m"), lines, "{\"error\":\"Busy.\"}\n", 502, `{"error":"`},
	} {
		t.Run(s.dialect+" "+s.kind, func(t *testing.T) {
			server := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if _, err := io.Copy(io.Discard, r.Body); err != nil {
					return
				}
				w.Header().Set("Content-Type", s.kind)
				io.WriteString(w, s.says)
			})
			w := start(t, setup{
				limits:    tokensLimit(),
				providers: "{name: p, dialect: " + s.dialect + wants[s.dialect] + ", base_url: " + server + ", api_keys: [sk-p], retries: {attempts: 0}}",
				models:    "{name: m, targets: [{provider: p}]}",
			})
			a := w.Post(secret, s.path, s.body)
			if a.Status != s.status || a.Code() != "upstream_error" || !strings.Contains(a.Body, s.reads) || !strings.Contains(a.Body, "Busy.") {
				t.Errorf("got %d %q, want %d with %s\n%s", a.Status, a.Code(), s.status, s.reads, a.Body)
			}
			if s.dialect == "bedrock" && a.Header.Get("X-Amzn-Errortype") != "ThrottlingException" {
				t.Errorf("its kind is %q", a.Header.Get("X-Amzn-Errortype"))
			}
			w.ended("m", "upstream_error", 0, 0, false)
			w.settled()
		})
	}
}

// throttled is a frame of AWS's event stream with an exception, checksums and
// all.
var throttled = func() string {
	var head strings.Builder
	for _, h := range [][2]string{{":exception-type", "throttlingException"}, {":content-type", "application/json"}, {":message-type", "exception"}} {
		fmt.Fprintf(&head, "%c%s\x07\x00%c%s", len(h[0]), h[0], len(h[1]), h[1])
	}
	payload := `{"message":"Busy."}`
	b := binary.BigEndian.AppendUint32(nil, uint32(12+head.Len()+len(payload)+4))
	b = binary.BigEndian.AppendUint32(b, uint32(head.Len()))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	b = append(append(b, head.String()...), payload...)
	return string(binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b)))
}()
