package proxy

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"llmgw/internal/charge"
	"llmgw/internal/dialect/stream"
	"llmgw/internal/tokens"
	"llmgw/internal/upstream"
)

// policy sets what happens to calls whose client leaves.
func policy(p ClientGone) func(*Rules) {
	return func(r *Rules) { r.OnClientGone, r.DrainTime, r.DrainBytes = p, 30*time.Second, 10<<20 }
}

// event is a named event of a stream.
func event(name, data string) string { return "event: " + name + "\ndata: " + data + "\n\n" }

// A client can leave with all of its answer before the usage comes, which
// providers send last (faults A3): the call is charged what the provider
// reports all the same, whatever the policy, and has no more to be waited for.
func TestWhoLeavesWithTheWholeAnswerIsChargedItsReasoning(t *testing.T) {
	const bodyAnthropic = `{"model":"m","max_tokens":6000,"stream":true,"messages":[{"role":"user","content":"hi"}]}`
	frame := func(name, data string) string {
		return string(stream.AppendFrame(nil, [][2]string{{":message-type", "event"}, {":event-type", name}}, []byte(data)))
	}
	for _, api := range []struct {
		dialect, path, body, last string
		answer, bill              []string
		kind                      string
	}{
		{"openai", chatPath, chatStream, `"finish_reason":"stop"`, []string{delta("one two", ""), delta("", "stop")}, []string{bill(11, 5006, 5000), doneEvent}, "text/event-stream"},
		{"openai", "/v1/responses", `{"model":"m","input":"hi","stream":true}`, "output_item.done", []string{
			event("response.created", `{"type":"response.created","response":{"id":"r","status":"in_progress"}}`),
			event("response.output_text.delta", `{"type":"response.output_text.delta","delta":"one two"}`),
			event("response.output_item.done", `{"type":"response.output_item.done","item":{"type":"message"}}`),
		}, []string{event("response.completed", `{"type":"response.completed","response":{"id":"r","status":"completed","usage":{"input_tokens":11,"output_tokens":5006,"output_tokens_details":{"reasoning_tokens":5000}}}}`)}, "text/event-stream"},
		{"anthropic", "/v1/messages", bodyAnthropic, "content_block_stop", []string{
			event("message_start", `{"type":"message_start","message":{"id":"a","model":"m","usage":{"input_tokens":11,"output_tokens":1}}}`),
			event("content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"one two"}}`),
			event("content_block_stop", `{"type":"content_block_stop","index":0}`),
		}, []string{event("message_delta", `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5006,"output_tokens_details":{"thinking_tokens":5000}}}`), event("message_stop", `{"type":"message_stop"}`)}, "text/event-stream"},
		{"gemini", "/v1beta/models/m:streamGenerateContent?alt=sse", `{"contents":[{"parts":[{"text":"hi"}]}]}`, "STOP", []string{
			"data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"one two\"}]},\"finishReason\":\"STOP\"}]}\n\n",
		}, []string{"data: {\"usageMetadata\":{\"promptTokenCount\":11,\"candidatesTokenCount\":6,\"thoughtsTokenCount\":5000,\"totalTokenCount\":5017}}\n\n"}, "text/event-stream"},
		{"cohere", "/v2/chat", `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`, "content-end", []string{
			event("content-delta", `{"type":"content-delta","delta":{"message":{"content":{"text":"one two"}}}}`),
			event("content-end", `{"type":"content-end","index":0}`),
		}, []string{event("message-end", `{"type":"message-end","delta":{"finish_reason":"COMPLETE","usage":{"billed_units":{"input_tokens":11,"output_tokens":5006}}}}`)}, "text/event-stream"},
		{"bedrock", "/model/m/converse-stream", `{"messages":[{"role":"user","content":[{"text":"hi"}]}]}`, "messageStop", []string{
			frame("contentBlockDelta", `{"delta":{"text":"one two"}}`), frame("contentBlockStop", `{}`), frame("messageStop", `{"stopReason":"end_turn"}`),
		}, []string{frame("metadata", `{"usage":{"inputTokens":11,"outputTokens":5006}}`)}, "application/vnd.amazon.eventstream"},
	} {
		for _, p := range []ClientGone{Cancel, Drain, ChargeEstimate} {
			t.Run(fmt.Sprint(api.dialect, api.path, " ", p), func(t *testing.T) {
				pieces := append(append(append([]string{}, api.answer...), "400ms"), api.bill...)
				provider := says(api.kind, append(pieces, "hang")...)
				inHouse(t, setting{dialect: api.dialect, rules: policy(p)}, provider, func(h *house) {
					began := time.Now()
					h.open(api.path, api.body).until(api.last).leave()
					e := h.entry()
					if e.Outcome != string(charge.Completed) || e.Usage.Input != 11 || e.Usage.Output != 5006 || e.Estimated {
						t.Errorf("got %+v", e)
					}
					if p != Drain && time.Since(began) > 3*time.Second {
						t.Errorf("the provider was listened to for %v", time.Since(began))
					}
				})
			})
		}
	}
}

// Where the bill does not come, the call is charged as the policy says, and never
// less than what such calls are known to reason.
func TestReasoningIsChargedAsLearnedWhereTheBillDoesNotCome(t *testing.T) {
	hangs := false
	provider := func(w http.ResponseWriter, r *http.Request) {
		if hangs {
			streams(delta("one two", "stop"), "hang")(w, r)
			return
		}
		streams(delta("one two", "stop"), bill(11, 62, 60), doneEvent)(w, r)
	}
	inHouse(t, setting{}, provider, func(h *house) {
		for range 3 {
			h.ask(chatPath, chatStream)
		}
		hangs = true
		began := time.Now()
		h.open(chatPath, chatStream).until("stop").leave()
		e := h.entry()
		if want := (tokens.Usage{Input: 8, Output: 62}); e.Usage != want || !e.Estimated || e.Outcome != string(charge.ClientGone) {
			t.Errorf("got %+v, want %+v", e, want)
		}
		if !strings.Contains(e.Cause, "usage did not come") {
			t.Errorf("the log gives %q as the cause", e.Cause)
		}
		if waited := time.Since(began); waited < billTime || waited > billTime+3*time.Second {
			t.Errorf("the bill was waited for %v", waited)
		}
	})
}

// A client that leaves in the middle stops the provider at once, also between two
// blocks of an answer that goes on.
func TestAnAnswerThatGoesOnIsNotReadOn(t *testing.T) {
	pieces := []string{
		event("message_start", `{"type":"message_start","message":{"id":"a","model":"m","usage":{"input_tokens":11,"output_tokens":1}}}`),
		event("content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"one two"}}`),
		event("content_block_stop", `{"type":"content_block_stop","index":0}`), "500ms",
		event("content_block_delta", `{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"three"}}`), "hang",
	}
	inHouse(t, setting{dialect: "anthropic"}, streams(pieces...), func(h *house) {
		began := time.Now()
		h.open("/v1/messages", `{"model":"m","max_tokens":60,"stream":true,"messages":[{"role":"user","content":"hi"}]}`).until("block_stop").leave()
		e := h.entry()
		if e.Outcome != string(charge.ClientGone) || !e.Estimated || e.Usage.Input != 11 || e.Usage.Output < 3 {
			t.Errorf("got %+v", e)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("it was read on for %v", took)
		}
	})
}

// A report that is less than what was seen is not the bill (A8).
func TestAReportOfLessThanWasSeenIsNotBelieved(t *testing.T) {
	text := strings.TrimSpace(strings.Repeat("one two three four ", 10))
	running := func(n int) string {
		return strings.Replace(delta(text, ""), `"choices"`, fmt.Sprintf(`"usage":{"prompt_tokens":20,"completion_tokens":%d,"total_tokens":%d},"choices"`, n, 20+n), 1)
	}
	document := func(n int) http.HandlerFunc {
		return says("application/json", fmt.Sprintf(`{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"content":%q},"finish_reason":"stop"}],"usage":{"prompt_tokens":20,"completion_tokens":%d,"total_tokens":%d}}`, text, n, 20+n))
	}
	for _, s := range []struct {
		what     string
		body     string
		provider http.HandlerFunc
		want     bookedAs
	}{
		{"0 in a document", chatPrompt, document(0), bookedAs{charge.Completed, tokens.Usage{Input: 20, Output: 40}, true, 1}},
		{"0 in the last chunk", chatStream, streams(delta(text, "stop"), bill(20, 0, 0), doneEvent), bookedAs{charge.Completed, tokens.Usage{Input: 20, Output: 40}, true, 1}},
		{"0 in every chunk", chatStream, streams(running(0), delta("", "stop"), bill(20, 0, 0), doneEvent), bookedAs{charge.Completed, tokens.Usage{Input: 20, Output: 40}, true, 1}},
		{"1 in every chunk", chatStream, streams(running(1), delta("", "stop"), bill(20, 1, 0), doneEvent), bookedAs{charge.Completed, tokens.Usage{Input: 20, Output: 40}, true, 1}},
		{"a running count of an answer that is cut", chatStream, streams(running(1), "cut"), bookedAs{charge.UpstreamTruncated, tokens.Usage{Input: 20, Output: 40}, true, 1}},
		{"a running count that says more", chatStream, streams(running(90), "cut"), bookedAs{charge.UpstreamTruncated, tokens.Usage{Input: 20, Output: 90}, false, 1}},
		{"a little less than we count", chatStream, streams(delta(text, "stop"), bill(20, 31, 0), doneEvent), bookedAs{charge.Completed, tokens.Usage{Input: 20, Output: 31}, false, 1}},
		{"more than we count", chatStream, streams(delta(text, "stop"), bill(20, 400, 0), doneEvent), bookedAs{charge.Completed, tokens.Usage{Input: 20, Output: 400}, false, 1}},
		{"an input of nothing", chatStream, streams(delta(text, "stop"), bill(0, 41, 0), doneEvent), bookedAs{charge.Completed, tokens.Usage{Input: 8, Output: 41}, true, 1}},
	} {
		t.Run(s.what, func(t *testing.T) {
			inHouse(t, setting{}, s.provider, func(h *house) {
				h.ask(chatPath, s.body)
				h.charged(s.want)
			})
		})
	}
}

// What a provider has done is charged as such calls are known to cost, whoever
// did not wait for it (F3).
func TestWhoDoesNotWaitIsChargedWhatSuchCallsCost(t *testing.T) {
	const stored = `{"model":"m","previous_response_id":"resp_1","input":"hi","max_output_tokens":400`
	whole := `{"id":"r","status":"completed","output":[{"content":[{"type":"output_text","text":"one two"}]}],"usage":{"input_tokens":200500,"output_tokens":302,"output_tokens_details":{"reasoning_tokens":300}}}`
	events := []string{
		event("response.created", `{"type":"response.created","response":{"id":"r","status":"in_progress"}}`),
		event("response.output_text.delta", `{"type":"response.output_text.delta","delta":"one two"}`),
	}
	ended := event("response.completed", `{"type":"response.completed","response":`+whole+`}`)
	for _, s := range []struct {
		what   string
		stream string
		client func(*coming)
		rules  func(*Rules)
		want   bookedAs
	}{
		{"it leaves a document", "}", leavesAt(time.Second), nil, bookedAs{charge.ClientGone, tokens.Usage{Input: 200_500, Output: 302}, true, 1}},
		{"it leaves a document, which is drained", "}", leavesAt(time.Second), policy(Drain), bookedAs{charge.ClientGone, tokens.Usage{Input: 200_500, Output: 302}, true, 1}},
		{"it leaves before a stream", `,"stream":true}`, leavesAt(time.Second), nil, bookedAs{charge.ClientGone, tokens.Usage{Input: 200_500, Output: 300}, true, 1}},
		{"it leaves within a stream", `,"stream":true}`, leaves("two"), nil, bookedAs{charge.ClientGone, tokens.Usage{Input: 200_500, Output: 302}, true, 1}},
		{"we give up a document", "}", stays, nil, bookedAs{charge.TimedOut, tokens.Usage{Input: 200_500, Output: 302}, true, 1}},
		{"we give up a stream before it begins", `,"stream":true}`, stays, nil, bookedAs{charge.TimedOut, tokens.Usage{Input: 200_500, Output: 300}, true, 1}},
	} {
		t.Run(s.what, func(t *testing.T) {
			slow := false
			provider := func(w http.ResponseWriter, r *http.Request) {
				switch {
				case !slow && s.stream == "}":
					says("application/json", whole)(w, r)
				case !slow:
					streams(append(append([]string{}, events...), ended)...)(w, r)
				case strings.HasPrefix(s.what, "it leaves within"):
					streams(append(append([]string{}, events...), "hang")...)(w, r)
				default:
					streams("2m")(w, r)
				}
			}
			set := setting{rules: s.rules, provider: func(p *upstream.Provider) { p.Timeouts.FirstByte = time.Minute }}
			inHouse(t, set, provider, func(h *house) {
				for range 3 {
					h.ask("/v1/responses", stored+s.stream)
				}
				slow = true
				s.client(h.open("/v1/responses", stored+s.stream))
				h.charged(s.want)
			})
		})
	}
}

// A try that we give up has cost what such calls cost, also where another target
// then answers.
func TestATryThatIsGivenUpIsChargedBesideTheAnswer(t *testing.T) {
	provider := func(w http.ResponseWriter, r *http.Request) {
		if r.Host == "slow" {
			streams("5m")(w, r)
			return
		}
		says("application/json", wholeChat)(w, r)
	}
	set := setting{providers: []string{"slow", "quick"}, provider: func(p *upstream.Provider) {
		p.Timeouts.FirstByte, p.Retries = time.Minute, 3
	}, model: func(m *charge.Model) { m.Targets[1].Weight = 0 }}
	inHouse(t, set, provider, func(h *house) {
		if got := h.ask(chatPath, chatPrompt); got.status != http.StatusOK {
			t.Fatalf("got %d %s", got.status, got.body)
		}
		h.charged(bookedAs{charge.Completed, tokens.Usage{Input: 7 + 8, Output: 3}, true, 1})
	})
}

func TestACallThatTheGatewayCutsEndsAsAShutdown(t *testing.T) {
	for body, want := range map[string]tokens.Usage{
		chatPrompt: {Input: 8},
		chatStream: {Input: 8, Output: 3},
	} {
		inHouse(t, setting{}, func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(body, "stream") {
				streams(delta("one two three", ""), "hang")(w, r)
				return
			}
			streams("hang")(w, r)
		}, func(h *house) {
			c := h.open(chatPath, body)
			if strings.Contains(body, "stream") {
				c.until("three")
			}
			time.Sleep(time.Second)
			h.cut(ErrShutdown)
			c.rest()
			h.charged(bookedAs{charge.Shutdown, want, true, 1})
		})
	}
}
