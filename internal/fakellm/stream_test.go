package fakellm

import (
	"compress/gzip"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// idle returns when nothing is in flight.
func (w *world) idle() {
	w.t.Helper()
	deadline := time.Now().Add(5 * time.Second)
	for w.Stats().InFlight > 0 {
		if time.Now().After(deadline) {
			w.t.Fatal("still in flight")
		}
		time.Sleep(time.Millisecond) // the server's goroutine ends in its own time
	}
}

func TestAChatStreamHasAllItsParts(t *testing.T) {
	w := newWorld(t, Options{})
	for _, s := range []struct {
		what, model, options string
		usage                string // of the chunk before [DONE]; "": it has none
	}{
		{"usage only if asked for", "sim-in9-out3", ``, ""},
		{"then in a chunk of its own", "sim-in9-out3", `,"stream_options":{"include_usage":true}`, "12"},
		{"or unasked, if the script says so", "sim-in9-out3-unasked", ``, "12"},
		{"or never", "sim-in9-out3-nousage", `,"stream_options":{"include_usage":true}`, ""},
		{"or other numbers than were produced", "sim-in9-out3-report70", `,"stream_options":{"include_usage":true}`, "79"},
		{"or zeros", "sim-out3-zerousage", `,"stream_options":{"include_usage":true}`, "0"},
	} {
		t.Run(s.what, func(t *testing.T) {
			got := events(t, w.text("/v1/chat/completions", `{"model":"`+s.model+`","stream":true,"messages":[]`+s.options+`}`))
			if role := dig(t, parse(t, got[0]), "choices.0.delta.role"); role != "assistant" {
				t.Errorf("the first chunk's role = %v", role)
			}
			if got[len(got)-1] != "[DONE]" {
				t.Errorf("the last event = %s", got[len(got)-1])
			}
			text, finish := "", ""
			for _, e := range got[:len(got)-1] {
				chunk := parse(t, e)
				for _, c := range chunk["choices"].([]any) {
					if piece, ok := dig(t, c, "delta").(map[string]any)["content"].(string); ok {
						text += piece
					}
					if f, ok := dig(t, c, "finish_reason").(string); ok {
						finish = f
					}
				}
			}
			if text != "the budget of" || finish != "stop" {
				t.Errorf("text = %q, finish %q, want three words and stop", text, finish)
			}
			last := parse(t, got[len(got)-2])
			usage := ""
			if u, ok := last["usage"].(map[string]any); ok {
				usage = itoa(int64(u["total_tokens"].(float64)))
				if len(last["choices"].([]any)) != 0 {
					t.Errorf("the usage chunk has choices: %v", last)
				}
			}
			if usage != s.usage {
				t.Errorf("usage = %q, want %q", usage, s.usage)
			}
		})
	}
}

func TestUsageMayStandElsewhere(t *testing.T) {
	w := newWorld(t, Options{})
	const body = `","stream":true,"stream_options":{"include_usage":true},"messages":[]}`
	onFinish := events(t, w.text("/v1/chat/completions", `{"model":"sim-in4-out2-onfinish`+body))
	last := parse(t, onFinish[len(onFinish)-2])
	if dig(t, last, "choices.0.finish_reason") != "stop" || dig(t, last, "usage.total_tokens") != 6.0 {
		t.Errorf("onfinish: the last chunk = %v", last)
	}
	continuous := events(t, w.text("/v1/chat/completions", `{"model":"sim-in4-out2-continuous`+body))
	var outputs []any
	for _, e := range continuous[:len(continuous)-1] {
		outputs = append(outputs, dig(t, parse(t, e), "usage.completion_tokens"))
	}
	if want := []any{0.0, 1.0, 2.0, 2.0, 2.0}; len(outputs) != len(want) || outputs[1] != want[1] || outputs[4] != want[4] {
		t.Errorf("continuous: outputs so far = %v, want %v", outputs, want)
	}
}

func TestAnAnthropicStreamHasAllItsEvents(t *testing.T) {
	w := newWorld(t, Options{})
	stream := w.text("/v1/messages", `{"model":"sim-in30-cached20-write4-out2","max_tokens":10,"stream":true,"messages":[]}`)
	var names []string
	for line := range strings.Lines(stream) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "event: "); ok {
			names = append(names, name)
		}
	}
	want := "message_start content_block_start ping content_block_delta content_block_delta content_block_stop message_delta message_stop"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("events = %s\nwant %s", got, want)
	}
	got := events(t, stream)
	for i, name := range names {
		if kind := dig(t, parse(t, got[i]), "type"); kind != name {
			t.Errorf("event %s has the type %v", name, kind)
		}
	}
	start, delta := parse(t, got[0]), parse(t, got[6])
	if in := dig(t, start, "message.usage.input_tokens"); in != 6.0 {
		t.Errorf("input without the cache's = %v, want 6", in)
	}
	if out := dig(t, start, "message.usage.output_tokens"); out != 1.0 {
		t.Errorf("output at the start = %v, want a placeholder", out)
	}
	if out := dig(t, delta, "usage.output_tokens"); out != 2.0 {
		t.Errorf("output at the end = %v, want 2", out)
	}
}

func TestAGeminiStreamIsEventsOrAnArray(t *testing.T) {
	w := newWorld(t, Options{})
	const path = "/v1beta/models/sim-in5-out3-reason1:streamGenerateContent"
	for _, s := range []struct{ query, kind string }{
		{"?alt=sse", "text/event-stream; charset=utf-8"},
		{"", "application/json; charset=UTF-8"},
	} {
		resp := w.post(path+s.query, `{"contents":[],"generationConfig":{"maxOutputTokens":10}}`)
		if got := resp.Header.Get("Content-Type"); got != s.kind {
			t.Errorf("type = %s, want %s", got, s.kind)
		}
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		body := string(b)
		if s.query != "" {
			body = "[" + strings.Join(events(t, body), ",") + "]"
		}
		chunks := parse(t, `{"all":`+body+`}`)["all"].([]any)
		last := chunks[len(chunks)-1]
		if total := dig(t, last, "usageMetadata.totalTokenCount"); total != 8.0 {
			t.Errorf("%q: total = %v, want 8", s.query, total)
		}
		if thoughts := dig(t, last, "usageMetadata.thoughtsTokenCount"); thoughts != 1.0 {
			t.Errorf("%q: thoughts = %v, want 1", s.query, thoughts)
		}
	}
}

func TestAResponsesStreamEndsWithTheWholeResponse(t *testing.T) {
	w := newWorld(t, Options{})
	for _, s := range []struct{ body, kind, reason string }{
		{`{"model":"sim-in7-out3","stream":true,"input":"x"}`, "response.completed", ""},
		{`{"model":"sim-in7-out30","stream":true,"input":"x","max_output_tokens":20}`, "response.incomplete", "max_output_tokens"},
	} {
		got := events(t, w.text("/v1/responses", s.body))
		last := parse(t, got[len(got)-1])
		if last["type"] != s.kind {
			t.Errorf("the last event = %v, want %s", last["type"], s.kind)
		}
		if in := dig(t, last, "response.usage.input_tokens"); in != 7.0 {
			t.Errorf("%s: input = %v, want 7", s.kind, in)
		}
		for i, e := range got {
			if n := dig(t, parse(t, e), "sequence_number"); n != float64(i) {
				t.Errorf("event %d has the number %v", i, n)
			}
		}
		if s.reason != "" && dig(t, last, "response.incomplete_details.reason") != s.reason {
			t.Errorf("%s: details %v", s.kind, dig(t, last, "response.incomplete_details"))
		}
	}
}

func TestTheMaximumOfTheRequestCutsTheAnswer(t *testing.T) {
	w := newWorld(t, Options{})
	for _, s := range []struct{ path, body, output, finish, want string }{
		{"/v1/chat/completions", `{"model":"sim-out50","messages":[],"max_tokens":5}`, "usage.completion_tokens", "choices.0.finish_reason", "length"},
		{"/v1/chat/completions", `{"model":"sim-out50","messages":[],"max_tokens":1,"max_completion_tokens":5}`, "usage.completion_tokens", "choices.0.finish_reason", "length"},
		{"/v1/messages", `{"model":"sim-out50","messages":[],"max_tokens":5}`, "usage.output_tokens", "stop_reason", "max_tokens"},
		{"/v1beta/models/sim-out50:generateContent", `{"generationConfig":{"maxOutputTokens":5}}`, "usageMetadata.candidatesTokenCount", "candidates.0.finishReason", "MAX_TOKENS"},
	} {
		got := w.object(s.path, s.body)
		if dig(t, got, s.output) != 5.0 || dig(t, got, s.finish) != s.want {
			t.Errorf("%s: %v tokens, finish %v, want 5 and %s", s.path, dig(t, got, s.output), dig(t, got, s.finish), s.want)
		}
	}
}

func TestSeveralChoicesAreAllThere(t *testing.T) {
	w := newWorld(t, Options{})
	got := w.object("/v1/chat/completions", `{"model":"sim-out5","messages":[],"n":3}`)
	if n := len(got["choices"].([]any)); n != 3 || dig(t, got, "usage.completion_tokens") != 15.0 {
		t.Errorf("%d choices, usage %v, want 3 and 15", n, got["usage"])
	}
	finished := 0
	for _, e := range events(t, w.text("/v1/chat/completions", `{"model":"sim-out5","messages":[],"n":3,"stream":true}`)) {
		finished += strings.Count(e, `"finish_reason":"stop"`)
	}
	if finished != 3 {
		t.Errorf("%d choices of the stream finished, want 3", finished)
	}
}

func TestEveryFramingCarriesTheSame(t *testing.T) {
	w := newWorld(t, Options{})
	const tail = `","stream":true,"messages":[]}`
	plain := w.text("/v1/chat/completions", `{"model":"sim-out3`+tail)
	for _, s := range []struct {
		words string
		check func(string) bool
	}{
		{"crlf", func(b string) bool { return strings.Contains(b, "}\r\n\r\ndata: ") }},
		{"cr", func(b string) bool { return !strings.Contains(b, "\n") && strings.Contains(b, "}\r\rdata: ") }},
		{"bom", func(b string) bool { return strings.HasPrefix(b, "\xef\xbb\xbfdata: ") }},
		{"comments", func(b string) bool { return strings.HasPrefix(b, ": still here\ndata: ") }},
		{"nospace", func(b string) bool { return strings.HasPrefix(b, `data:{"id"`) }},
		{"lines", func(b string) bool { return strings.HasPrefix(b, "data: {\ndata: \"id\"") }},
		{"noblank", func(b string) bool { return strings.HasSuffix(b, "[DONE]\n") && !strings.HasSuffix(b, "\n\n") }},
		{"bytes", func(b string) bool { return len(b) > 0 }},
	} {
		t.Run(s.words, func(t *testing.T) {
			got := w.text("/v1/chat/completions", `{"model":"sim-out3-`+s.words+tail)
			if !s.check(got) {
				t.Errorf("got %.200q", got)
			}
			if a, b := strings.Count(got, "chat.completion.chunk"), strings.Count(plain, "chat.completion.chunk"); a != b {
				t.Errorf("%d chunks, want %d", a, b)
			}
		})
	}
}

func TestABigChunkIsOneLine(t *testing.T) {
	w := newWorld(t, Options{})
	got := events(t, w.text("/v1/chat/completions", `{"model":"sim-chunks3-big2m","stream":true,"messages":[]}`))
	if piece := dig(t, parse(t, got[2]), "choices.0.delta.content").(string); len(piece) != 2<<20 {
		t.Errorf("the second chunk has %d bytes, want 2 MiB", len(piece))
	}
}

func TestAnswersAreCompressedForThoseWhoTakeIt(t *testing.T) {
	w := newWorld(t, Options{})
	for _, stream := range []string{"true", "false"} {
		r, err := http.NewRequest(http.MethodPost, w.url+"/v1/chat/completions", strings.NewReader(`{"model":"sim-out3-gzip","messages":[],"stream":`+stream+`}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept-Encoding", "gzip, deflate")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if got := resp.Header.Get("Content-Encoding"); got != "gzip" {
			t.Fatalf("encoding = %q", got)
		}
		z, err := gzip.NewReader(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(z); err != nil || !strings.Contains(string(b), `"the`) {
			t.Errorf("stream %s: %q, %v", stream, b, err)
		}
	}
}

func TestChunksComeWhenTheyAreDue(t *testing.T) {
	w := newWorld(t, Options{})
	began := time.Now()
	resp := w.post("/v1/chat/completions", `{"model":"sim-wait30ms-chunks4-every30ms","stream":true,"messages":[]}`)
	if early := time.Since(began); early < 30*time.Millisecond {
		t.Errorf("headers after %v, want 30 ms", early)
	}
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 120*time.Millisecond {
		t.Errorf("the stream took %v, want 30 ms and three intervals", took)
	}
}

func TestAStreamBreaksWhereItIsTold(t *testing.T) {
	w := newWorld(t, Options{})
	for _, s := range []struct {
		what, words string
		chunks      int  // of content
		broken      bool // the connection
		last        string
		outcome     Outcome
	}{
		{"cut off", "cut2", 2, true, "", Cut},
		{"cut off before the first chunk", "cut", 0, true, "", Cut},
		{"cut off after the last", "cut99", 5, true, "", Cut},
		{"ended early", "end2", 2, false, "", Cut},
		{"an error", "err2", 2, false, `{"error":{"message":"The server had an error processing your request. Sorry about that!","type":"server_error","param":null,"code":null}}`, Failed},
		{"an error first of all", "err0", 0, false, `{"error":{"message":"The server had an error processing your request. Sorry about that!","type":"server_error","param":null,"code":null}}`, Failed},
		{"no terminal event", "nodone", 5, false, "", Done},
	} {
		t.Run(s.what, func(t *testing.T) {
			w.Reset()
			resp := w.post("/v1/chat/completions", `{"model":"sim-out5-`+s.words+`","stream":true,"messages":[]}`)
			b, err := io.ReadAll(resp.Body)
			if (err != nil) != s.broken {
				t.Errorf("the connection ended with %v", err)
			}
			got := events(t, string(b))
			content := 0
			for _, e := range got {
				if strings.Contains(e, `"content":"`) && !strings.Contains(e, `"role"`) {
					content++
				}
			}
			if content != s.chunks {
				t.Errorf("%d chunks, want %d", content, s.chunks)
			}
			if s.last != "" && got[len(got)-1] != s.last {
				t.Errorf("the last event = %s", got[len(got)-1])
			}
			if strings.Contains(string(b), "[DONE]") {
				t.Error("it ended as if all were well")
			}
			w.idle()
			if seen := w.Stats().Last[0]; seen.Outcome != s.outcome || seen.Chunks != int64(s.chunks) {
				t.Errorf("seen as %s after %d chunks, want %s", seen.Outcome, seen.Chunks, s.outcome)
			}
		})
	}
}

func TestAConnectionIsResetInsteadOfAnAnswer(t *testing.T) {
	w := newWorld(t, Options{})
	for _, stream := range []string{"true", "false"} {
		resp, err := http.Post(w.url+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"sim-drop","messages":[],"stream":`+stream+`}`))
		if err == nil {
			resp.Body.Close()
			t.Errorf("stream %s: status %d, want a connection that breaks before the headers", stream, resp.StatusCode)
		}
	}
}

func TestADocumentIsCutInItsMiddle(t *testing.T) {
	w := newWorld(t, Options{})
	resp := w.post("/v1/chat/completions", `{"model":"sim-cut","messages":[]}`)
	b, err := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK || err == nil || int64(len(b)) != resp.ContentLength/2 {
		t.Errorf("%d, %d bytes of %d, ended with %v", resp.StatusCode, len(b), resp.ContentLength, err)
	}
}
