package proxy

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"llmgw/internal/charge"
	"llmgw/internal/dialect"
	"llmgw/internal/dialect/openai"
	"llmgw/internal/tokens"
)

// The parts of a scripted answer of chat.
const (
	chatPrompt = `{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":100}`
	chatStream = `{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":100,"stream":true}`
	wholeChat  = `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"one two three"},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}`
)

// delta is one event of a chat's stream.
func delta(text, finish string) string {
	f := "null"
	if finish != "" {
		f = `"` + finish + `"`
	}
	return fmt.Sprintf("data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":%q},\"finish_reason\":%s}]}\n\n", text, f)
}

// bill is the event that has a chat stream's usage.
func bill(input, output, reasoning int) string {
	return fmt.Sprintf("data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d,\"total_tokens\":%d,\"completion_tokens_details\":{\"reasoning_tokens\":%d}}}\n\n",
		input, output, input+output, reasoning)
}

const doneEvent = "data: [DONE]\n\n"

// streams answers with the pieces of an event stream. A pause, such as "2s",
// waits; "cut" breaks the connection; "hang" waits until the gateway leaves.
func streams(pieces ...string) http.HandlerFunc {
	return says("text/event-stream", pieces...)
}

// says answers with pieces of a type, as streams does.
func says(kind string, pieces ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", kind)
		for _, piece := range pieces {
			if d, err := time.ParseDuration(piece); err == nil {
				time.Sleep(d)
				continue
			}
			switch piece {
			case "cut":
				panic(http.ErrAbortHandler)
			case "hang":
				<-r.Context().Done()
				return
			}
			_, _ = io.WriteString(w, piece) // or the gateway has left
			_ = http.NewResponseController(w).Flush()
		}
	}
}

// refuses answers with an error.
func refuses(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// stays reads the whole answer; leaves leaves when text has come, and leavesAt
// after a time without an answer.
func stays(c *coming) { c.rest() }

func leaves(text string) func(*coming) { return func(c *coming) { c.until(text).leave() } }

func leavesAt(d time.Duration) func(*coming) {
	return func(c *coming) {
		time.Sleep(d)
		c.leave()
	}
}

// bookedAs is what a call came to.
type bookedAs struct {
	outcome   charge.Outcome
	usage     tokens.Usage
	estimated bool
	requests  int64
}

// TestEveryEndingIsChargedAsItsTableSays has a case for each row of the table at
// the head of ending.go, for a document and for a stream.
func TestEveryEndingIsChargedAsItsTableSays(t *testing.T) {
	const input = 8 // the estimate of the prompt, by our own count
	failing := `{"error":{"message":"no","type":"server_error"}}`
	for _, s := range []struct {
		what     string
		body     string
		provider http.HandlerFunc
		client   func(*coming)
		want     bookedAs
	}{
		{"a document that the gateway cannot read is refused", `{"model":1}`, says("application/json", wholeChat), stays, bookedAs{outcome: charge.Invalid}},
		{"a stream of a model that is not there is refused", strings.Replace(chatStream, `"m"`, `"x"`, 1), streams(doneEvent), stays, bookedAs{outcome: charge.Invalid}},
		{"a document is an error", chatPrompt, refuses(500, failing), stays, bookedAs{outcome: charge.UpstreamError}},
		{"a stream is an error", chatStream, refuses(500, failing), stays, bookedAs{outcome: charge.UpstreamError}},
		{"a stream begins with an error", chatStream, streams("data: " + failing + "\n\n"), stays, bookedAs{outcome: charge.UpstreamError}},
		{"the client leaves before a document", chatPrompt, says("application/json", "10s", wholeChat), leavesAt(time.Second),
			bookedAs{charge.ClientGone, tokens.Usage{Input: input}, true, 1}},
		{"the client leaves before a stream", chatStream, streams("10s", doneEvent), leavesAt(time.Second),
			bookedAs{charge.ClientGone, tokens.Usage{Input: input}, true, 1}},
		{"a document is cut", chatPrompt, says("application/json", wholeChat[:150], "cut"), stays,
			bookedAs{charge.UpstreamTruncated, tokens.Usage{Input: input, Output: 3}, true, 1}},
		{"a stream is cut", chatStream, streams(delta("one two three", ""), "cut"), stays,
			bookedAs{charge.UpstreamTruncated, tokens.Usage{Input: input, Output: 3}, true, 1}},
		{"the client leaves within a stream", chatStream, streams(delta("one two three", ""), "hang"), leaves("three"),
			bookedAs{charge.ClientGone, tokens.Usage{Input: input, Output: 3}, true, 1}},
		{"a document is whole", chatPrompt, says("application/json", wholeChat), stays,
			bookedAs{charge.Completed, tokens.Usage{Input: 7, Output: 3}, false, 1}},
		{"a stream is whole", chatStream, streams(delta("one two three", "stop"), bill(7, 5, 2), doneEvent), stays,
			bookedAs{charge.Completed, tokens.Usage{Input: 7, Output: 5, Reasoning: 2}, false, 1}},
		{"a document has no usage", chatPrompt, says("application/json", strings.Split(wholeChat, `,"usage"`)[0]+"}"), stays,
			bookedAs{charge.Completed, tokens.Usage{Input: input, Output: 3}, true, 1}},
		{"a stream has no usage", chatStream, streams(delta("one two three", "stop"), doneEvent), stays,
			bookedAs{charge.Completed, tokens.Usage{Input: input, Output: 3}, true, 1}},
	} {
		t.Run(s.what, func(t *testing.T) {
			inHouse(t, setting{}, s.provider, func(h *house) {
				s.client(h.open(chatPath, s.body))
				h.charged(s.want)
			})
		})
	}
}

// charged fails the test if the last call did not come to want, in the usage
// log and in the limits alike.
func (h *house) charged(want bookedAs) {
	h.t.Helper()
	e := h.entry()
	got := bookedAs{charge.Outcome(e.Outcome), e.Usage, e.Estimated, 0}
	if used := h.limiter.used(e.RequestID); used != nil {
		got.requests = used[1]
		if total := []int64{int64(e.Usage.Total()), used[1]}; !slices.Equal(used, total) {
			h.t.Errorf("the limits were charged %d, and %d is recorded", used, total)
		}
	}
	if got != want {
		h.t.Errorf("got %+v, want %+v", got, want)
	}
	if n := h.limiter.open(); n != 0 {
		h.t.Errorf("%d reservations are open", n)
	}
}

// fallible is a dialect whose meters panic.
type fallible struct{ dialect.Dialect }

func (fallible) Meter(*dialect.Call, dialect.Answer, dialect.MeterOptions) dialect.Meter {
	panic("a meter panics")
}

func TestAPanicIsChargedNothing(t *testing.T) {
	for _, body := range []string{chatPrompt, chatStream} {
		inHouse(t, setting{openai: fallible{openai.New()}}, says("application/json", wholeChat), func(h *house) {
			if got := h.ask(chatPath, body); got.status != http.StatusInternalServerError {
				t.Errorf("got %d %s", got.status, got.body)
			}
			h.charged(bookedAs{outcome: charge.InternalError})
		})
	}
}
