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
