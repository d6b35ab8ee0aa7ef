// Package fault holds the ways in which a call can fail that its client should
// know of, in llmgw's own terms. Dialects give a fault its shape, proxy its
// status; nothing here knows HTTP.
package fault

import (
	"errors"
	"time"
)

// Code names what happened. The values are part of the public surface
// (X-LLMGW-Error-Code).
type Code string

// The codes, as the product's page of refusals lists them.
const (
	InvalidAPIKey       Code = "invalid_api_key"
	Blocked             Code = "blocked"
	ModelNotAllowed     Code = "model_not_allowed"
	ModelNotFound       Code = "model_not_found"
	NotFound            Code = "not_found"
	MethodNotAllowed    Code = "method_not_allowed"
	RequestTooLarge     Code = "request_too_large"
	InvalidRequest      Code = "invalid_request"
	ExceedsLimit        Code = "exceeds_limit"
	RateLimitExceeded   Code = "rate_limit_exceeded"
	InsufficientQuota   Code = "insufficient_quota"
	ConcurrencyExceeded Code = "concurrency_exceeded"
	Held                Code = "held"
	UpstreamCapacity    Code = "upstream_capacity"
	LimiterUnavailable  Code = "limiter_unavailable"
	UpstreamError       Code = "upstream_error"
	UpstreamTimeout     Code = "upstream_timeout"
	Overloaded          Code = "overloaded"
	ShuttingDown        Code = "shutting_down"
	AlreadyEnded        Code = "already_ended"
	Internal            Code = "internal_error"
)

// Error is a failure that the client is told. It is immutable once returned.
type Error struct {
	Code    Code
	Message string // a full sentence for the app's developer; holds no secret
	Param   string // the request's field at fault, or empty
	Limit   *Limit // the limit that refused, or nil
	// Wait is when a lone client would be admitted, from now. 0: no telling.
	Wait time.Duration
	// NoRetry says that trying again cannot help (or only after Wait, which
	// is too long to sleep through).
	NoRetry bool
	// Status is the HTTP status where Code does not decide it: the provider's that
	// this failure passes on, or 426. 0: by Code.
	Status int
	Err    error // the cause for the log, never shown to the client
}

// LongestHint is the longest wait that clients are to sleep through: official
// clients sleep through whatever Retry-After says.
const LongestHint = time.Minute

// Limit is the limit that refused, as the client is told of it. Amounts are in
// the limit's unit; of usd in micro-dollars.
type Limit struct {
	Scope, Owner, Name string
	Unit               string
	Amount             int64
	Per                string
	Remaining          int64
	Unknown            bool // Remaining is not known: the counter cannot be asked
	Requested          int64
	By                 string // X-LLMGW-Limited-By, such as team/search/tpm
}

// Error is the message with its cause.
func (e *Error) Error() string {
	if e.Err != nil {
		return string(e.Code) + ": " + e.Message + ": " + e.Err.Error()
	}
	return string(e.Code) + ": " + e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// New returns an Error with a code and a message.
func New(code Code, message string) *Error { return &Error{Code: code, Message: message} }

// Invalid returns an InvalidRequest about one field of the request.
func Invalid(param, message string) *Error {
	return &Error{Code: InvalidRequest, Param: param, Message: message, NoRetry: true}
}

// From returns err's Error, or an Internal one that wraps err. From(nil) is nil.
func From(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Code: Internal, Message: "The gateway failed to handle this request.", Err: err}
}
