package dialecttest

import (
	"bytes"
	"reflect"
	"testing"

	"llmgw/internal/dialect"
)

// Fuzz feeds a dialect's meter anything: it must not panic, must pass on what it
// was fed, and must not depend on where that is cut.
func Fuzz(f *testing.F, s Suite) {
	for _, a := range Answers(f, Root) {
		if _, ok := s.Answers[a.Dialect]; ok && len(a.Body) < 8<<10 {
			f.Add(a.Body, a.HTTP.ContentType, a.HTTP.Status, string(s.Answers[a.Dialect].Operation), s.Answers[a.Dialect].Pattern)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, contentType string, status int, operation, pattern string) {
		c := &dialect.Call{Request: dialect.Request{Endpoint: dialect.Endpoint{Operation: dialect.Operation(operation), Pattern: "/" + pattern}}, Stream: true, Choices: 1}
		a := dialect.Answer{Status: status, Header: dialect.Header{"Content-Type": {contentType}}}
		var first dialect.Report
		for i, pieces := range cuts(body) {
			out, report := feed(s.Dialect.Meter(c, a, dialect.MeterOptions{Count: Bytes}), pieces)
			if !bytes.Equal(out, body) {
				t.Fatalf("cut %d: the answer was changed: %s", i, difference(out, body))
			}
			if i == 0 {
				first = report
			}
			if !reflect.DeepEqual(report, first) {
				t.Fatalf("cut %d: got %+v, want %+v", i, report, first)
			}
			hidden, report := feed(s.Dialect.Meter(c, a, dialect.MeterOptions{Count: Bytes, HideUsage: true}), pieces)
			report.Between = first.Between // what is held back was not passed on
			if len(hidden) > len(body) || !reflect.DeepEqual(report, first) {
				t.Fatalf("cut %d, hidden: got %+v, want %+v", i, report, first)
			}
		}
	})
}
