package dialecttest

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"llmgw/internal/dialect"
	"llmgw/internal/fault"
)

// Faults are one of each kind of fault that a client may be told.
func Faults() []*fault.Error {
	limit := &fault.Limit{Scope: "team", Owner: "search", Name: "tpm", Unit: "tokens", Amount: 100_000, Per: "minute", Remaining: 512, Requested: 3120, By: "team/search/tpm"}
	var all []*fault.Error
	for _, code := range []fault.Code{
		fault.InvalidAPIKey, fault.Blocked, fault.ModelNotAllowed, fault.ModelNotFound, fault.NotFound, fault.MethodNotAllowed, fault.RequestTooLarge, fault.InvalidRequest,
		fault.UpstreamCapacity, fault.LimiterUnavailable, fault.UpstreamError, fault.UpstreamTimeout, fault.Overloaded, fault.ShuttingDown, fault.Internal,
	} {
		all = append(all, fault.New(code, "Something \"went\" wrong\nhere: \u00e9."))
	}
	for _, code := range []fault.Code{fault.ExceedsLimit, fault.RateLimitExceeded, fault.InsufficientQuota, fault.ConcurrencyExceeded, fault.Held} {
		all = append(all, &fault.Error{Code: code, Message: "Over the limit.", Limit: limit, Wait: 1565 * time.Millisecond})
	}
	return all
}

// testRefusals has the dialect read what it writes itself.
func testRefusals(t *testing.T, s Suite) {
	for _, e := range Faults() {
		doc := s.Dialect.Refusal(e, "req-1")
		var v any
		if err := json.Unmarshal(doc.Body, &v); err != nil {
			t.Errorf("%s: %s: %v", e.Code, doc.Body, err)
		}
		if !strings.HasPrefix(doc.ContentType, "application/json") {
			t.Errorf("%s: the content type is %q", e.Code, doc.ContentType)
		}
		if !says(v, e.Message) {
			t.Errorf("%s: %s has no message", e.Code, doc.Body)
		}
		head := dialect.Header{"Content-Type": {doc.ContentType}}
		for name, values := range doc.Header {
			head[name] = values
		}
		checkRead(t, s, e, dialect.Answer{Status: 429, Header: head}, doc.Body)
		checkRead(t, s, e, dialect.Answer{Status: 200, Header: dialect.Header{"Content-Type": {s.StreamType}}}, s.Dialect.ErrorEvent(e, "req-1"))
	}
}

// checkRead reads an error that the dialect wrote, byte by byte.
func checkRead(t *testing.T, s Suite, e *fault.Error, a dialect.Answer, text []byte) {
	t.Helper()
	c := &dialect.Call{Request: dialect.Request{Endpoint: dialect.Endpoint{Operation: dialect.Chat, Pattern: s.StreamPattern}}, Stream: true, Choices: 1}
	m := s.Dialect.Meter(c, a, dialect.MeterOptions{Count: Bytes})
	for i := range text {
		m.Feed(text[i : i+1])
	}
	between := m.Report().Between
	m.End()
	r := m.Report()
	if r.Failure == nil || r.Failure.Message != e.Message || r.Complete || r.Content || r.Counted != 0 {
		t.Errorf("%s: %q is read as %+v, %+v", e.Code, text, r, r.Failure)
	}
	if a.Status == 200 && !between {
		t.Errorf("%s: %q does not end its framing", e.Code, text)
	}
}

// says tells whether a decoded document has a string somewhere.
func says(v any, text string) bool {
	switch v := v.(type) {
	case string:
		return v == text
	case []any:
		for _, e := range v {
			if says(e, text) {
				return true
			}
		}
	case map[string]any:
		for _, e := range v {
			if says(e, text) {
				return true
			}
		}
	}
	return false
}
