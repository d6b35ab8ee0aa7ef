package anthropic

import (
	"llmgw/internal/dialect"
	"llmgw/internal/dialect/request"
	"llmgw/internal/fault"
)

// Refusal implements dialect.Dialect.
func (Dialect) Refusal(e *fault.Error, requestID string) dialect.Document {
	return dialect.Document{
		ContentType: "application/json",
		Header:      dialect.Header{"Request-Id": {requestID}},
		Body:        append(appendError(nil, e, requestID), '\n'),
	}
}

// ErrorEvent implements dialect.Dialect. Without its event line the official
// client would ignore it.
func (Dialect) ErrorEvent(e *fault.Error, requestID string) []byte {
	return append(appendError([]byte("event: error\ndata: "), e, requestID), "\n\n"...)
}

func appendError(b []byte, e *fault.Error, requestID string) []byte {
	b = append(b, `{"type":"error","error":{"type":`...)
	b = request.AppendString(b, errorType(e))
	b = append(b, `,"message":`...)
	b = request.AppendString(b, e.Message)
	b = append(b, `,"details":{"error_code":`...)
	b = request.AppendString(b, errorCode(e.Code))
	if e.Param != "" {
		b = append(b, `,"param":`...)
		b = request.AppendString(b, e.Param)
	}
	if e.Limit != nil {
		b = append(b, `,"limit":`...)
		b = request.AppendLimit(b, e)
	}
	b = append(b, `}},"request_id":`...)
	b = request.AppendString(b, requestID)
	return append(b, '}')
}

// types are Anthropic's names for kinds of errors, by status.
var types = map[int]string{
	400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error", 404: "not_found_error",
	413: "request_too_large", 429: "rate_limit_error", 500: "api_error", 504: "timeout_error", 529: "overloaded_error",
}

// errorType is Anthropic's name for the kind of a failure.
func errorType(e *fault.Error) string {
	if e.Code == fault.UpstreamCapacity || e.Code == fault.Overloaded {
		return types[529]
	}
	return dialect.KindOf(e, types)
}

// errorCode is the fault's own, but for a spent budget: the official client
// knows that by Anthropic's name, and does not try again.
func errorCode(code fault.Code) string {
	if code == fault.InsufficientQuota {
		return "enforced_spend_limit_reached"
	}
	return string(code)
}
