package cohere

import (
	"llmgw/internal/dialect"
	"llmgw/internal/dialect/request"
	"llmgw/internal/fault"
)

// Refusal implements dialect.Dialect. Cohere's errors have nothing but their
// message.
func (Dialect) Refusal(e *fault.Error, requestID string) dialect.Document {
	b := request.AppendString([]byte(`{"id":`), requestID)
	b = request.AppendString(append(b, `,"message":`...), e.Message)
	return dialect.Document{ContentType: "application/json", Body: append(b, "}\n"...)}
}

// ErrorEvent implements dialect.Dialect: a stream that breaks ends as any other,
// with an error as its reason.
func (Dialect) ErrorEvent(e *fault.Error, _ string) []byte {
	b := []byte("event: message-end\ndata: {\"type\":\"message-end\",\"delta\":{\"finish_reason\":\"ERROR\",\"error\":")
	b = request.AppendString(b, e.Message)
	return append(b, "}}\n\n"...)
}
