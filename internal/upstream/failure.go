package upstream

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"llmgw/internal/dialect/coding"
	"llmgw/internal/fault"
)

// again says what may follow a failed try.
type again int

// What may follow, from the strictest.
const (
	never     again = iota // the answer is the client's
	elsewhere              // only another target can help
	otherKey               // another key can, or another target: the gateway's was refused
	anywhere               // the same target may be asked again
)

// outcome is how one try ended.
type outcome struct {
	target   Target    // that was tried; zero: none was
	response *Response // the provider's answer; nil if there is none
	err      *fault.Error
	again    again
	// after is how long the provider asks to wait, 0 if it does not say. What it
	// asks of rests meanwhile.
	after time.Duration

	key       *key // that was used; nil: none was
	unsent    bool // nothing was sent
	rejection usageRejection
	plain     *state // of a provider that refused stream_options: try without
}

// TargetError is the failure of a try that brought no answer, and where it was
// sent.
type TargetError struct {
	Target Target
	Err    *fault.Error
}

// Error is the failure's message.
func (e *TargetError) Error() string { return e.Err.Error() }

// Unwrap returns the failure.
func (e *TargetError) Unwrap() error { return e.Err }

// maxErrorBody bounds how much of an error's body is read to judge it.
const maxErrorBody = 64 << 10

// lacks tells whether the call is about something that this provider does not
// keep, such as the response before this one, and another may.
func (e errorBody) lacks() bool { return strings.HasSuffix(e.code, "_not_found") }

// unlessDenied is anywhere, but elsewhere if the provider says that the same
// call had better not come again.
func unlessDenied(h http.Header) again {
	if h.Get("X-Should-Retry") == "false" {
		return elsewhere
	}
	return anywhere
}

// wait is how long a refusal for a rate asks to wait: in its headers, in its
// details or in words; else what its reset headers let expect, which is no
// request and about the whole limit: a minute at most. 0: it does not say.
func (e errorBody) wait(h http.Header, now time.Time) time.Duration {
	if d := max(RetryAfter(h, now), e.retryDelay()); d > 0 {
		return d
	}
	if d := e.said(); d > 0 {
		return d
	}
	return min(resetAfter(h, now), time.Minute)
}

// said is the wait that the message asks for: "try again in 564ms" of OpenAI,
// "retry after 6 seconds" of Azure.
func (e errorBody) said() time.Duration {
	if _, rest, ok := strings.Cut(e.message, "try again in "); ok {
		word, _, _ := strings.Cut(rest, " ")
		if d, err := time.ParseDuration(strings.TrimRight(word, ".,")); err == nil {
			return bounded(d.Seconds())
		}
	}
	if _, rest, ok := strings.Cut(e.message, "retry after "); ok {
		word, unit, _ := strings.Cut(rest, " ")
		if n, err := strconv.ParseFloat(word, 64); err == nil && strings.HasPrefix(unit, "second") {
			return bounded(n)
		}
	}
	return 0
}

// sick tells whether a status speaks of the provider's health and not of the
// request or of a limit.
func sick(status int) bool {
	return status == http.StatusRequestTimeout || status >= 500 && status != http.StatusNotImplemented
}

// errorBody is the parts of a provider's error that decide what follows, of all
// APIs; a member of an unexpected type is as if it were absent.
type errorBody struct {
	code, kind, message string
	details             []detail
	moderated           bool // it is about what the request says
}

// detail is an entry of a Google error's details, or Anthropic's details.
type detail struct {
	ErrorCode  string `json:"error_code"`
	RetryDelay string `json:"retryDelay"`
	Reason     string `json:"reason"`
	Violations []struct {
		QuotaID string `json:"quotaId"`
	} `json:"violations"`
}

// readError reads the start of an error document. It never fails: what it does
// not find is empty.
func readError(body []byte) (e errorBody) {
	var doc map[string]json.RawMessage
	trimmed := bytes.TrimLeft(body, " \t\r\n[") // Gemini wraps it in an array
	if json.NewDecoder(bytes.NewReader(trimmed)).Decode(&doc) != nil {
		return e
	}
	if inner, ok := doc["error"]; ok {
		var fields map[string]json.RawMessage
		if json.Unmarshal(inner, &fields) == nil {
			doc = fields
		}
	}
	e.code, e.kind, e.message = text(doc["code"]), text(doc["type"]), text(doc["message"])
	if whole := text(doc["error"]); e.message == "" && !strings.HasPrefix(whole, "{") {
		e.message = whole // xAI, Ollama
	}
	if e.kind == "" {
		e.kind = text(doc["__type"]) // AWS
	}
	e.moderated = moderation(e.code, e.message) || bytes.Contains(doc["metadata"], []byte(`"flagged_input"`)) // OpenRouter
	if one := (detail{}); json.Unmarshal(doc["details"], &one) == nil {
		e.details = []detail{one}
		return e
	}
	var several []json.RawMessage
	if json.Unmarshal(doc["details"], &several) != nil {
		return e
	}
	for _, raw := range several {
		if d := (detail{}); json.Unmarshal(raw, &d) == nil {
			e.details = append(e.details, d)
		}
	}
	return e
}

// moderation reports whether an error is about what the request says. The words
// may be the client's own: it then sees the answer as it came.
func moderation(code, message string) bool {
	return strings.Contains(code, "content") || slices.ContainsFunc([]string{"flagged", "moderation", "usage guidelines", "usage policies", "content policy"},
		func(word string) bool { return strings.Contains(message, word) })
}

// name is what the error calls itself, as a log names it: identifiers alone, since a
// sentence may repeat the request or a secret.
func (e errorBody) name() string {
	parts := []string{e.kind, e.code}
	for _, d := range e.details {
		parts = append(parts, d.Reason, d.ErrorCode)
	}
	parts = slices.DeleteFunc(parts, func(p string) bool { return p == "" || len(p) > 64 || strings.ContainsFunc(p, notInName) })
	return strings.Join(slices.Compact(parts), " ")
}

func notInName(r rune) bool {
	return r != '_' && r != '.' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
}

// shows reports whether text holds a secret, or its end behind what stands for
// the rest: sk-…********abcd.
func shows(text []byte, secret string) bool {
	if len(secret) < 12 {
		return false
	}
	end := secret[len(secret)-4:]
	return bytes.Contains(text, []byte(secret)) || bytes.Contains(text, []byte("*"+end)) || bytes.Contains(text, []byte("..."+end))
}

// keep takes from h what shows a secret, whatever its name.
func keep(h http.Header, secret string) {
	for name, values := range h {
		if slices.ContainsFunc(values, func(v string) bool { return shows([]byte(v), secret) }) {
			delete(h, name)
		}
	}
}

// text is a JSON string's value, or the text of another scalar.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// tooLarge tells whether the one request is over the whole limit.
func (e errorBody) tooLarge() bool { return strings.HasPrefix(e.message, "Request too large") }

// retryDelay is the wait that Google's RetryInfo asks for.
func (e errorBody) retryDelay() (longest time.Duration) {
	for _, d := range e.details {
		if wait, err := time.ParseDuration(d.RetryDelay); err == nil {
			longest = max(longest, bounded(wait.Seconds()))
		}
	}
	return longest
}

// start reads the start of an error's body, and returns it as it came and as it
// reads without its coding. The rest stays in r.
func start(r io.Reader, h http.Header) (raw, plain []byte) {
	raw, _ = io.ReadAll(io.LimitReader(r, maxErrorBody)) // what did come is judged
	z, err := coding.Open(h.Get("Content-Encoding"), bytes.NewReader(raw))
	if err != nil {
		return raw, raw
	}
	plain, _ = io.ReadAll(io.LimitReader(z, maxErrorBody)) // as far as it goes
	_ = z.Close()                                          // it was read
	return raw, plain
}
