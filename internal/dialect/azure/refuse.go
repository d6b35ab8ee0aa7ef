package azure

import (
	"llmgw/internal/dialect"
	"llmgw/internal/dialect/request"
	"llmgw/internal/fault"
)

// Refusal implements dialect.Dialect.
func (Dialect) Refusal(e *fault.Error, _ string) dialect.Document {
	return dialect.Document{ContentType: "application/json", Body: append(appendError(nil, e), '\n')}
}

// ErrorEvent implements dialect.Dialect.
func (Dialect) ErrorEvent(e *fault.Error, _ string) []byte {
	return append(appendError([]byte("data: "), e), "\n\n"...)
}

func appendError(b []byte, e *fault.Error) []byte {
	b = append(b, `{"error":{"code":`...)
	b = request.AppendString(b, errorCode(e.Code))
	b = append(b, `,"message":`...)
	b = request.AppendString(b, e.Message)
	if e.Param != "" {
		b = append(b, `,"param":`...)
		b = request.AppendString(b, e.Param)
	}
	if e.Limit != nil {
		b = append(b, `,"limit":`...)
		b = request.AppendLimit(b, e)
	}
	return append(b, "}}"...)
}

// errorCode is a status as a string where Azure has one, else a name. A spent
// budget keeps OpenAI's name, by which clients know that waiting is of no use.
func errorCode(code fault.Code) string {
	switch code {
	case fault.InvalidAPIKey:
		return "401"
	case fault.ModelNotFound:
		return "DeploymentNotFound"
	case fault.RateLimitExceeded, fault.ConcurrencyExceeded, fault.Held:
		return "429"
	}
	return string(code)
}
