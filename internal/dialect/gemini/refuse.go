package gemini

import (
	"bytes"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/request"
	"llmgw/internal/fault"
)

// Refusal implements dialect.Dialect.
func (Dialect) Refusal(e *fault.Error, requestID string) dialect.Document {
	return dialect.Document{ContentType: "application/json; charset=UTF-8", Body: append(appendError(nil, e, requestID), '\n')}
}

// For is the dialect as a call to an endpoint is answered in it: a stream that is
// not asked for as events is an array, and so is the error in its place.
func (d Dialect) For(e dialect.Endpoint, query string) dialect.Dialect {
	if !strings.HasSuffix(e.Pattern, ":"+streamGenerate) {
		return d
	}
	if values, err := url.ParseQuery(query); err == nil && values.Get("alt") == "sse" {
		return d
	}
	return arrays{d}
}

// arrays is the dialect where streams are arrays.
type arrays struct{ Dialect }

// Refusal implements dialect.Dialect.
func (d arrays) Refusal(e *fault.Error, requestID string) dialect.Document {
	doc := d.Dialect.Refusal(e, requestID)
	doc.Body = append(append([]byte("["), bytes.TrimSpace(doc.Body)...), "]\n"...)
	return doc
}

// ErrorEvent implements dialect.Dialect.
func (Dialect) ErrorEvent(e *fault.Error, requestID string) []byte {
	return append(appendError([]byte("data: "), e, requestID), "\r\n\r\n"...)
}

func appendError(b []byte, e *fault.Error, requestID string) []byte {
	b = append(b, `{"error":{"code":`...)
	b = strconv.AppendInt(b, int64(dialect.StatusOf(e)), 10)
	b = append(b, `,"message":`...)
	b = request.AppendString(b, e.Message)
	b = append(b, `,"status":`...)
	b = request.AppendString(b, dialect.KindOf(e, statuses))
	b = append(b, `,"details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":`...)
	b = request.AppendString(b, string(e.Code))
	b = append(b, `,"domain":"llmgw","metadata":{"request_id":`...)
	b = request.AppendString(b, requestID)
	if e.Param != "" {
		b = append(b, `,"param":`...)
		b = request.AppendString(b, e.Param)
	}
	if e.Limit != nil {
		// The metadata of an ErrorInfo are strings.
		b = append(b, `,"limit":`...)
		b = request.AppendString(b, string(request.AppendLimit(nil, e)))
	}
	b = append(b, `}}`...)
	if e.Wait > 0 {
		// Google's clients sleep through a short delay and give up at a long one;
		// without one they retry, whatever the reason.
		b = fmt.Appendf(b, `,{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"%s"}`, seconds(e.Wait))
	}
	return append(b, "]}}"...)
}

// seconds is a duration as protocol buffers write it, in milliseconds rounded up.
func seconds(d time.Duration) string {
	ms := (d + time.Millisecond - 1) / time.Millisecond
	return fmt.Sprintf("%d.%03ds", ms/1000, ms%1000)
}

// statuses are Google's names for kinds of errors, by their number.
var statuses = map[int]string{
	400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 405: "UNIMPLEMENTED", 426: "FAILED_PRECONDITION",
	429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 502: "UNAVAILABLE", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED", 529: "UNAVAILABLE",
}
