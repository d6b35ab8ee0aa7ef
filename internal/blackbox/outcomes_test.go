package blackbox

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// play is a provider that does for each model what its part says.
type play map[string]func(w http.ResponseWriter, r *http.Request)

func (p play) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	for name, part := range p {
		if strings.Contains(string(body), `"`+name+`"`) {
			part(w, r)
			return
		}
	}
	http.NotFound(w, r)
}

// onStage starts a gateway before a play, in which each model has a provider of
// its own, of that dialect and with these further keys.
func onStage(t *testing.T, p play, dialect, keys string, set setup) *world {
	t.Helper()
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	base := server.URL
	if dialect == "openai" {
		base += "/v1"
	}
	set.limits += "\n" + tokensLimit() + "\n" + monthly("requests", "requests", 1000)
	for name := range p {
		set.providers += fmt.Sprintf("{name: at-%s, dialect: %s, base_url: %s, api_keys: [sk-p], retries: {attempts: 0}%s}\n", name, dialect, base, keys)
		set.models += fmt.Sprintf("{name: %s, targets: [{provider: at-%s}]}\n", name, name)
	}
	return start(t, set)
}

// serve runs a server until the test ends, and returns where.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

// say writes parts of a stream, each at once.
func say(w http.ResponseWriter, parts ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, p := range parts {
		if _, err := io.WriteString(w, p); err != nil {
			return // the gateway left
		}
		w.(http.Flusher).Flush()
	}
}

// Parts of OpenAI's stream: two tokens of output, and its end with a usage of
// 11 + 3.
const (
	twoTokens  = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"the\"}}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" budget\"}}]}\n\n"
	usageChunk = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":3,\"total_tokens\":14}}\n\n"
	doneChunk  = "data: [DONE]\n\n"
	errorChunk = "data: {\"error\":{\"message\":\"It broke.\",\"type\":\"server_error\",\"param\":null,\"code\":null}}\n\n"
)

// until waits for the gateway to leave.
func until(r *http.Request) { <-r.Context().Done() }

// ended checks how the only call for a model ended.
func (w *world) ended(name, outcome string, input, output int, estimated bool) {
	w.t.Helper()
	w.Eventually("counted: "+name, eventually, func() bool { return w.Metrics().Sum("llmgw_requests_total", "model", name) == 1 })
	m := w.Metrics()
	if m.Sum("llmgw_requests_total", "model", name, "outcome", outcome) != 1 {
		for _, s := range m {
			if s.Name == "llmgw_requests_total" && s.Labels["model"] == name {
				w.t.Errorf("%s: the outcome is %s, want %s", name, s.Labels["outcome"], outcome)
			}
		}
	}
	in, out := m.Sum("llmgw_tokens_total", "model", name, "kind", "input"), m.Sum("llmgw_tokens_total", "model", name, "kind", "output")
	if int(in) != input || int(out) != output {
		w.t.Errorf("%s: charged %v + %v, want %d + %d", name, in, out, input, output)
	}
	if got := m.Sum("llmgw_settlements_estimated_total", "model", name) == 1; got != estimated {
		w.t.Errorf("%s: estimated is %v, want %v", name, got, estimated)
	}
}

// leaving sends a streamed call and leaves once it has read up to a text; at
// once after the provider was asked, if that is empty.
func (w *world) leaving(name, after string, asked <-chan struct{}) {
	w.t.Helper()
	ctx, leave := context.WithCancel(w.t.Context())
	defer leave()
	r, err := http.NewRequestWithContext(ctx, "POST", w.URL+chat, strings.NewReader(ask(name, streamed, bound(100))))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+secret)
	if after == "" {
		go func() { <-asked; leave() }()
		if resp, err := http.DefaultClient.Do(r); err == nil {
			resp.Body.Close()
			w.t.Errorf("%s: got %d, want to have left before", name, resp.StatusCode)
		}
		return
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	in := bufio.NewReader(resp.Body)
	for seen := ""; !strings.Contains(seen, after); {
		line, err := in.ReadString('\n')
		if err != nil {
			w.t.Fatalf("%s: %v after %q", name, err, seen)
		}
		seen += line
	}
}

func TestEachEndingOfAStreamHasItsChargeAndItsOutcome(t *testing.T) {
	reset := func(w http.ResponseWriter) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			conn.Close()
		}
	}
	w := onStage(t, play{
		"complete":         func(w http.ResponseWriter, _ *http.Request) { say(w, twoTokens, usageChunk, doneChunk) },
		"uncounted":        func(w http.ResponseWriter, _ *http.Request) { say(w, twoTokens, doneChunk) },
		"ended":            func(w http.ResponseWriter, _ *http.Request) { say(w, twoTokens) },
		"reset":            func(w http.ResponseWriter, _ *http.Request) { say(w, twoTokens); reset(w) },
		"error-later":      func(w http.ResponseWriter, _ *http.Request) { say(w, twoTokens, errorChunk) },
		"error-then-reset": func(w http.ResponseWriter, _ *http.Request) { say(w, twoTokens, errorChunk); reset(w) },
		"error-first":      func(w http.ResponseWriter, _ *http.Request) { say(w, errorChunk) },
		"nothing":          func(w http.ResponseWriter, _ *http.Request) { say(w, "") },
	}, "openai", "", setup{})
	for _, s := range []struct {
		name          string
		status        int
		broken        bool
		errors        int // error events or documents that the client sees
		outcome       string
		input, output int
		estimated     bool
	}{
		{"complete", 200, false, 0, "completed", 11, 3, false},
		{"uncounted", 200, false, 0, "completed", promptTokens, 2, true},
		{"ended", 200, true, 1, "upstream_truncated", promptTokens, 2, true},
		{"reset", 200, true, 1, "upstream_truncated", promptTokens, 2, true},
		{"error-later", 200, false, 1, "upstream_error", promptTokens, 2, true},
		{"error-then-reset", 200, true, 1, "upstream_error", promptTokens, 2, true},
		{"error-first", 502, false, 1, "upstream_error", 0, 0, false},
		{"nothing", 502, false, 1, "upstream_error", 0, 0, false},
	} {
		a, err := w.Try(secret, chat, ask(s.name, streamed, bound(100)))
		if a.Status != s.status || (err != nil) != s.broken || strings.Count(a.Body, `"error":{`) != s.errors {
			t.Errorf("%s: got %d, %v, want %d, broken %v and %d errors\n%s", s.name, a.Status, err, s.status, s.broken, s.errors, a.Body)
		}
		if strings.Contains(a.Body, "[DONE]") != (s.outcome == "completed") {
			t.Errorf("%s: its end is not the provider's\n%s", s.name, a.Body)
		}
		w.ended(s.name, s.outcome, s.input, s.output, s.estimated)
	}
	w.settled()
}

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
		{"anthropic", "/v1/messages", "permission", "permission_error", "", 403, `"type":"permission_error"`},
		{"anthropic", "/v1/messages", "missing", "not_found_error", "", 404, `"type":"not_found_error"`},
		{"anthropic", "/v1/messages", "timeout", "timeout_error", "", 504, `"type":"timeout_error"`},
		{"anthropic", "/v1/messages", "api", "api_error", "", 500, `"type":"api_error"`},
		{"openai", chat, "oserver", "server_error", "", 502, `"code":"upstream_error"`},
		{"openai", chat, "orate", "tokens", `,"code":"rate_limit_exceeded"`, 429, `"code":"upstream_error"`},
		{"openai", chat, "oquota", "insufficient_quota", `,"code":"insufficient_quota"`, 429, `"code":"upstream_error"`},
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

func TestAClientThatLeavesPaysForWhatItHad(t *testing.T) {
	asked := make(chan struct{}, 1)
	w := onStage(t, play{
		"silent":    func(_ http.ResponseWriter, r *http.Request) { asked <- struct{}{}; until(r) },
		"midstream": func(w http.ResponseWriter, r *http.Request) { say(w, twoTokens); until(r) },
		"after-end": func(w http.ResponseWriter, r *http.Request) { say(w, twoTokens, usageChunk, doneChunk); until(r) },
	}, "openai", "", setup{})
	w.leaving("silent", "", asked)
	w.ended("silent", "client_gone", promptTokens, 0, true)
	w.leaving("midstream", " budget", nil)
	w.ended("midstream", "client_gone", promptTokens, 2, true)
	w.leaving("after-end", "[DONE]", nil)
	w.ended("after-end", "completed", 11, 3, false)
	w.settled()
}

func TestAClientThatLeavesBeforeItsCallWasSentPaysNothing(t *testing.T) {
	began := make(chan struct{}, 1)
	w := onStage(t, play{
		"turns": func(w http.ResponseWriter, r *http.Request) { began <- struct{}{}; say(w, twoTokens); until(r) },
	}, "openai", ", limits: {concurrency: 1}, max_wait: 20s", setup{models: "{name: waits, targets: [{provider: at-turns, model: turns}]}\n"})
	first := open(t, w.Gateway, ask("turns", streamed, bound(100)))
	<-began
	waits := make(chan struct{})
	go func() {
		defer close(waits)
		w.Eventually("in flight", eventually, func() bool { return w.Metrics().Sum("llmgw_inflight_requests") == 2 })
	}()
	w.leaving("waits", "", waits)
	w.ended("waits", "client_gone", 0, 0, false)
	first.Body.Close()
	w.ended("turns", "client_gone", promptTokens, 2, true)
	w.settled()
}

func TestThePoliciesForClientsThatLeave(t *testing.T) {
	parts := play{
		"goes-on": func(w http.ResponseWriter, _ *http.Request) {
			say(w, twoTokens)
			every := time.NewTicker(10 * time.Millisecond)
			defer every.Stop()
			for range 50 { // the gateway notices meanwhile that the client left
				<-every.C
				say(w, ": still here\n\n")
			}
			say(w, twoTokens, usageChunk, doneChunk)
		},
	}
	endless := play{
		"endless": func(w http.ResponseWriter, r *http.Request) {
			say(w, twoTokens)
			for r.Context().Err() == nil {
				say(w, strings.Repeat(": nothing\n\n", 1000))
			}
		},
		"quiet": func(w http.ResponseWriter, r *http.Request) { say(w, twoTokens); until(r) },
	}
	t.Run("drain reads to the end", func(t *testing.T) {
		w := onStage(t, parts, "openai", "", setup{server: "on_client_gone: drain"})
		w.leaving("goes-on", " budget", nil)
		w.ended("goes-on", "client_gone", 11, 3, false)
		w.settled()
	})
	t.Run("drain is bounded in bytes and in time", func(t *testing.T) {
		w := onStage(t, endless, "openai", "", setup{server: "on_client_gone: drain\ndrain: {max_time: 500ms, max_bytes: 64KiB}"})
		for _, name := range []string{"endless", "quiet"} {
			w.leaving(name, " budget", nil)
			w.ended(name, "client_gone", promptTokens, 2, true)
		}
		w.settled()
	})
	t.Run("charge_estimate charges all", func(t *testing.T) {
		w := onStage(t, endless, "openai", "", setup{server: "on_client_gone: charge_estimate"})
		w.leaving("quiet", " budget", nil)
		w.ended("quiet", "client_gone", promptTokens, 100-promptTokens, true)
		w.settled()
	})
}

func TestEachPhaseHasItsTimeout(t *testing.T) {
	deaf, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { deaf.Close() })
	w := onStage(t, play{
		"no-header":  func(_ http.ResponseWriter, r *http.Request) { until(r) },
		"no-event":   func(w http.ResponseWriter, r *http.Request) { say(w, ""); until(r) },
		"goes-quiet": func(w http.ResponseWriter, r *http.Request) { say(w, twoTokens); until(r) },
		"half": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"choices":[`)
			w.(http.Flusher).Flush()
			until(r)
		},
	}, "openai", ", timeouts: {connect: 400ms, first_byte: 800ms, idle: 800ms}", setup{
		providers: "{name: deaf, dialect: openai, base_url: \"https://" + deaf.Addr().String() + "/v1\", api_keys: [sk-p], retries: {attempts: 0}, timeouts: {connect: 400ms}}\n",
		models:    "{name: no-handshake, targets: [{provider: deaf}]}\n",
	})
	for _, s := range []struct {
		name, more    string
		status        int
		broken        bool
		input, output int
	}{
		{"no-handshake", streamed, 504, false, 0, 0},
		{"no-header", streamed, 504, false, 0, 0},
		{"no-event", streamed, 200, true, promptTokens, 0},
		{"goes-quiet", streamed, 200, true, promptTokens, 2},
		{"half", `"stream":false`, 504, false, promptTokens, 0},
	} {
		a, err := w.Try(secret, chat, ask(s.name, s.more, bound(100)))
		if a.Status != s.status || (err != nil) != s.broken || !strings.Contains(a.Body, "upstream_timeout") {
			t.Errorf("%s: got %d, %v, want %d, broken %v and to be told of the timeout\n%s", s.name, a.Status, err, s.status, s.broken, a.Body)
		}
		w.ended(s.name, "timeout", s.input, s.output, s.input > 0)
	}
	w.settled()
}

// TestASlowReaderHoldsTheProviderAndLittleMemory opens streams that nobody
// reads, of a provider that never stops by itself.
func TestASlowReaderHoldsTheProviderAndLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector's memory is not the gateway's: make test runs this")
	}
	const streams = 20
	progress := make(chan int64, 1<<16)
	chunk := "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" + strings.Repeat("the budget ", 3000) + "\"}}]}\n\n"
	w := onStage(t, play{
		"torrent": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				say(w, chunk)
				progress <- int64(len(chunk))
			}
		},
	}, "openai", "", setup{alone: true})
	heap := func() float64 { return w.Metrics().Sum("go_memstats_heap_inuse_bytes") }
	before := heap()
	for range streams {
		defer open(t, w.Gateway, ask("torrent", streamed, bound(100))).Body.Close()
	}
	var total int64
	for quiet := time.NewTimer(time.Second); ; {
		select {
		case n := <-progress:
			total += n
			quiet.Reset(time.Second)
			continue
		case <-quiet.C:
		}
		break
	}
	held := (heap() - before) / streams
	t.Logf("the provider was stopped after %d KiB a stream, which fill the sockets; the gateway holds %.0f KiB of heap for each", total/streams/1024, held/1024)
	if held > 1<<20 {
		t.Errorf("%.0f KiB are held for each stream, want less than 1024", held/1024)
	}
}

func TestAnErrorAsTheFirstEventIsSeenInEveryFraming(t *testing.T) {
	const frames, lines = "application/vnd.amazon.eventstream", "application/x-ndjson"
	for _, s := range []struct {
		dialect, path, body, kind, says string
		status                          int
		reads                           string
	}{
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
