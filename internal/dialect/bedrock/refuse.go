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

// exceptions are AWS's names for kinds of errors, by status.
var exceptions = map[int]string{
	400: "ValidationException", 401: "UnrecognizedClientException", 403: "AccessDeniedException", 404: "ResourceNotFoundException", 408: "ModelTimeoutException",
	429: "ThrottlingException", 500: "InternalServerException", 502: "ModelErrorException", 503: "ServiceUnavailableException", 504: "ModelTimeoutException",
}

// exception is AWS's name for the kind of a failure.
func exception(e *fault.Error) string {
	if e.Code == fault.InsufficientQuota {
		return "ServiceQuotaExceededException"
	}
	return dialect.KindOf(e, exceptions)
}
