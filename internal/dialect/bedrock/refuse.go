package bedrock

import (
	"llmgw/internal/dialect"
	"llmgw/internal/dialect/request"
	"llmgw/internal/dialect/stream"
	"llmgw/internal/fault"
)

// Refusal implements dialect.Dialect. The kind of an error stands in a header,
// and decides whether an AWS client tries again.
func (Dialect) Refusal(e *fault.Error, requestID string) dialect.Document {
	return dialect.Document{
		ContentType: "application/json",
		Header:      dialect.Header{"X-Amzn-Errortype": {exception(e)}, "X-Amzn-Requestid": {requestID}},
		Body:        append(appendError(nil, e), '\n'),
	}
}

// ErrorEvent implements dialect.Dialect: a frame that is an exception, as
// Bedrock itself ends a broken stream.
func (Dialect) ErrorEvent(e *fault.Error, _ string) []byte {
	kind := "internalServerException"
	switch e.Code {
	case fault.RateLimitExceeded, fault.InsufficientQuota, fault.ConcurrencyExceeded, fault.Held:
		kind = "throttlingException"
	case fault.UpstreamError, fault.UpstreamTimeout:
		kind = "modelStreamErrorException"
	case fault.UpstreamCapacity, fault.LimiterUnavailable, fault.Overloaded, fault.ShuttingDown:
		kind = "serviceUnavailableException"
	}
	headers := [][2]string{{":exception-type", kind}, {":content-type", "application/json"}, {":message-type", "exception"}}
	return stream.AppendFrame(nil, headers, appendError(nil, e))
}

func appendError(b []byte, e *fault.Error) []byte {
	b = request.AppendString(append(b, `{"message":`...), e.Message)
	if e.Limit != nil {
		b = append(b, `,"limit":`...)
		b = request.AppendLimit(b, e)
	}
	return append(b, '}')
}

// passedOn are AWS's names for the statuses that a failed provider gave.
var passedOn = map[int]string{
	400: "ValidationException", 403: "AccessDeniedException", 404: "ResourceNotFoundException", 408: "ModelTimeoutException",
	429: "ThrottlingException", 500: "InternalServerException", 503: "ServiceUnavailableException",
}

// exception is AWS's name for the kind of a failure.
func exception(e *fault.Error) string {
	if name, ok := passedOn[e.Status]; ok && e.Code == fault.UpstreamError {
		return name
	}
	switch e.Code {
	case fault.InvalidAPIKey:
		return "UnrecognizedClientException"
	case fault.Blocked, fault.ModelNotAllowed:
		return "AccessDeniedException"
	case fault.ModelNotFound, fault.NotFound:
		return "ResourceNotFoundException"
	case fault.InvalidRequest, fault.ExceedsLimit, fault.MethodNotAllowed, fault.RequestTooLarge:
		return "ValidationException"
	case fault.RateLimitExceeded, fault.ConcurrencyExceeded, fault.Held:
		return "ThrottlingException"
	case fault.InsufficientQuota:
		return "ServiceQuotaExceededException"
	case fault.UpstreamCapacity, fault.LimiterUnavailable, fault.Overloaded, fault.ShuttingDown:
		return "ServiceUnavailableException"
	case fault.UpstreamTimeout:
		return "ModelTimeoutException"
	case fault.UpstreamError:
		return "ModelErrorException"
	}
	return "InternalServerException"
}
