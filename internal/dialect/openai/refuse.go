package openai

import (
	"llmgw/internal/dialect"
	"llmgw/internal/dialect/request"
	"llmgw/internal/fault"
)

// Refusal implements dialect.Dialect.
func (Dialect) Refusal(e *fault.Error, _ string) dialect.Document {
	return dialect.Document{ContentType: "application/json", Body: append(appendError(nil, e), '\n')}
}

// ErrorEvent implements dialect.Dialect. Clients throw an event with an error
// at its top as an APIError.
func (Dialect) ErrorEvent(e *fault.Error, _ string) []byte {
	return append(appendError([]byte("data: "), e), "\n\n"...)
}

func appendError(b []byte, e *fault.Error) []byte {
	b = append(b, `{"error":{"message":`...)
	b = request.AppendString(b, e.Message)
	b = append(b, `,"type":`...)
	b = request.AppendString(b, errorType(e))
	b = append(b, `,"param":`...)
	if e.Param == "" {
		b = append(b, "null"...)
	} else {
		b = request.AppendString(b, e.Param)
	}
	b = append(b, `,"code":`...)
	b = request.AppendString(b, string(e.Code))
	if e.Limit != nil {
		b = append(b, `,"limit":`...)
		b = request.AppendLimit(b, e)
	}
	return append(b, "}}"...)
}

// types are OpenAI's names for kinds of errors, by status.
var types = map[int]string{400: "invalid_request_error", 403: "permission_error", 429: "requests", 500: "server_error"}

// errorType is the unit of the limit that refused for now, as OpenAI does it,
// else the kind, by which clients decide whether to retry or to fall back.
func errorType(e *fault.Error) string {
	switch {
	case e.Code == fault.InsufficientQuota:
		return "insufficient_quota"
	case e.Limit != nil && e.Code != fault.ExceedsLimit:
		return e.Limit.Unit
	}
	return dialect.KindOf(e, types)
}
