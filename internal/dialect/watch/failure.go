package watch

import (
	"strconv"

	"llmgw/internal/dialect"
	"llmgw/internal/jsonscan"
)

// fail keeps the first failure, and what later ones add to it.
func (r *reading) fail(f dialect.Failure) {
	if r.failure == nil {
		r.failure = &dialect.Failure{}
	}
	r.failure.Type = either(r.failure.Type, f.Type)
	r.failure.Code = either(r.failure.Code, f.Code)
	r.failure.Message = either(r.failure.Message, f.Message)
	if r.failure.Status == 0 {
		r.failure.Status = f.Status
	}
	for _, name := range [...]string{r.failure.Code, r.failure.Type} { // the code says more
		if r.failure.Status == 0 {
			r.failure.Status = statuses[name]
		}
	}
}

// statuses are what the kinds of errors answer with where they come as a
// document, for events that name a kind and no status. No two APIs mean
// different things by one name. OpenAI's server_error is not here: it comes
// with several.
var statuses = map[string]int{
	// OpenAI and those that follow it
	"invalid_request_error": 400, "context_length_exceeded": 400, "string_above_max_length": 400, "content_filter": 400, "BadRequestError": 400,
	"invalid_api_key": 401, "unsupported_country_region_territory": 403, "model_not_found": 404, "DeploymentNotFound": 404,
	"tokens": 429, "requests": 429, "rate_limit_exceeded": 429, "insufficient_quota": 429,
	"unavailable_error": 503, "service_unavailable": 503, "overloaded": 503, "engine_overloaded": 503,
	// Anthropic
	"authentication_error": 401, "billing_error": 402, "permission_error": 403, "not_found_error": 404, "request_too_large": 413,
	"rate_limit_error": 429, "api_error": 500, "timeout_error": 504, "overloaded_error": 529,
	// Gemini
	"INVALID_ARGUMENT": 400, "FAILED_PRECONDITION": 400, "UNAUTHENTICATED": 401, "PERMISSION_DENIED": 403, "NOT_FOUND": 404,
	"RESOURCE_EXHAUSTED": 429, "INTERNAL": 500, "UNAVAILABLE": 503, "DEADLINE_EXCEEDED": 504,
	// Bedrock's exceptions in a stream
	"validationException": 400, "accessDeniedException": 403, "resourceNotFoundException": 404, "modelTimeoutException": 408,
	"modelErrorException": 424, "modelStreamErrorException": 424, "throttlingException": 429, "modelNotReadyException": 429,
	"internalServerException": 500, "serviceUnavailableException": 503,
}

func either(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// errorPart takes a part of the current event's error.
func (r *reading) errorPart(id int, kind jsonscan.Kind, value []byte) {
	switch id {
	case Object:
		r.failed = r.failed || string(value) == "error"
	case Failed:
		r.failed = r.failed || kind == jsonscan.String || string(value) == "true"
		if kind == jsonscan.String {
			r.fault.Message = string(value)
		}
	case ErrorType:
		if kind != jsonscan.String || string(value) == "error" {
			return // Azure's status, or Anthropic's name for the whole document
		}
		r.fault.Type = either(r.fault.Type, string(value))
	case ErrorCode:
		r.fault.Code = string(value)
		if n, err := strconv.Atoi(r.fault.Code); err == nil && n >= 400 && n < 600 {
			r.fault.Status = n
		}
	case ErrorMessage:
		r.fault.Message = either(r.fault.Message, string(value))
	}
}
