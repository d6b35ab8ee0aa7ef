package fakellm

import (
	"net/http"
	"strconv"
	"time"
)

// fault is a refusal, before it is put into an API's words. The zero fault is
// none.
type fault struct {
	status  int
	message string
	param   string // the request's field, or empty
	code    string // OpenAI's; empty: by status

	// Of a limit.
	model, unit, per       string
	limit, used, requested int64
	wait                   time.Duration // until it is worth another try; 0: not told
	never                  bool          // no wait helps
	quota                  bool          // spent for long
}

var badKey = fault{status: http.StatusUnauthorized, code: "invalid_api_key", message: "Incorrect API key provided."}

// scripted is the failure that s asks for.
func (s *Script) scripted() fault {
	f := fault{status: s.Fail, wait: s.After, quota: s.Quota}
	switch {
	case s.Quota:
		f.message = "You exceeded your current quota, please check your plan and billing details."
	case s.Fail == http.StatusTooManyRequests:
		f.message = "Rate limit reached for requests. Please try again later."
		f.unit = "requests"
	case s.Fail >= 500:
		f.message = "The server had an error processing your request. Sorry about that!"
	default:
		f.message = "The request was refused, as its model's name asked for."
	}
	return f
}

// identify puts the number of a request into its answer's headers.
func (a api) identify(h http.Header, n int64) {
	switch a {
	case openai:
		h.Set("X-Request-Id", "req_sim"+strconv.FormatInt(n, 10))
		h.Set("Openai-Organization", "org-sim")
		h.Set("Openai-Version", "2020-10-01")
	case anthropic:
		h.Set("Request-Id", "req_sim"+strconv.FormatInt(n, 10))
		h.Set("Anthropic-Organization-Id", "org-sim")
	case bedrock:
		h.Set("X-Amzn-Requestid", "sim"+strconv.FormatInt(n, 10))
	case gemini, cohere, ollama:
	}
}

// refuse answers f in the words of e's API. It returns Failed.
func (e endpoint) refuse(w http.ResponseWriter, f fault) Outcome {
	a, h := e.api, w.Header()
	h.Set("Content-Type", "application/json")
	if f.wait > 0 && !f.never && a != gemini {
		h.Set("Retry-After", strconv.FormatInt(max(ceilDiv(int64(f.wait), int64(time.Second)), 1), 10))
		if a == openai {
			h.Set("Retry-After-Ms", strconv.FormatInt(ceilDiv(int64(f.wait), int64(time.Millisecond)), 10))
		}
	}
	if f.message == "" && f.limit > 0 {
		f.message = f.rateMessage()
	}
	if a == bedrock {
		h.Set("X-Amzn-Errortype", bedrockException(f))
	}
	body := a.failure(nil, f)
	if e.wire == jsonArray { // Gemini wraps errors as it wraps answers
		body = append(append([]byte("["), body...), ']')
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(f.status)
	if _, err := w.Write(body); err != nil {
		return PeerGone
	}
	return Failed
}

// failure appends f as an error document.
func (a api) failure(b []byte, f fault) []byte {
	switch a {
	case anthropic:
		return anthropicFailure(b, f)
	case gemini:
		return geminiFailure(b, f)
	case bedrock, cohere:
		b = appendString(append(b, `{"message":`...), f.message)
		return append(b, '}')
	case ollama:
		b = appendString(append(b, `{"error":`...), f.message)
		return append(b, '}')
	default:
		return openaiFailure(b, f)
	}
}

// bedrockException is the kind of f, as a header tells it.
func bedrockException(f fault) string {
	name := map[int]string{
		http.StatusUnauthorized: "UnrecognizedClientException", http.StatusForbidden: "AccessDeniedException",
		http.StatusNotFound: "ResourceNotFoundException", http.StatusTooManyRequests: "ThrottlingException",
		http.StatusInternalServerError: "InternalServerException", http.StatusServiceUnavailable: "ServiceUnavailableException",
	}[f.status]
	if name == "" {
		name = "ValidationException"
	}
	return name + ":http://internal.amazon.com/coral/com.amazon.bedrock/"
}

func openaiFailure(b []byte, f fault) []byte {
	kind, code := "invalid_request_error", f.code
	switch {
	case f.quota:
		kind, code = "insufficient_quota", "insufficient_quota"
	case f.status == http.StatusTooManyRequests:
		kind, code = f.unit, "rate_limit_exceeded"
	case f.status >= 500:
		kind = "server_error"
	}
	b = append(b, `{"error":{"message":`...)
	b = appendString(b, f.message)
	b = append(b, `,"type":`...)
	b = appendString(b, kind)
	b = append(b, `,"param":`...)
	b = appendNullable(b, f.param)
	b = append(b, `,"code":`...)
	b = appendNullable(b, code)
	return append(b, "}}"...)
}

func anthropicFailure(b []byte, f fault) []byte {
	kind := map[int]string{
		http.StatusUnauthorized: "authentication_error", http.StatusPaymentRequired: "billing_error",
		http.StatusForbidden: "permission_error", http.StatusNotFound: "not_found_error",
		http.StatusRequestEntityTooLarge: "request_too_large", http.StatusTooManyRequests: "rate_limit_error",
		http.StatusGatewayTimeout: "timeout_error", 529: "overloaded_error",
	}[f.status]
	if kind == "" && f.status >= 500 {
		kind = "api_error"
	}
	if kind == "" {
		kind = "invalid_request_error"
	}
	b = append(b, `{"type":"error","error":{"type":`...)
	b = appendString(b, kind)
	b = append(b, `,"message":`...)
	b = appendString(b, f.message)
	if f.quota {
		b = append(b, `,"details":{"error_code":"enforced_spend_limit_reached"}`...)
	}
	return append(b, `},"request_id":"req_sim"}`...)
}

func geminiFailure(b []byte, f fault) []byte {
	name := map[int]string{
		http.StatusUnauthorized: "UNAUTHENTICATED", http.StatusForbidden: "PERMISSION_DENIED", http.StatusNotFound: "NOT_FOUND",
		http.StatusTooManyRequests: "RESOURCE_EXHAUSTED", http.StatusInternalServerError: "INTERNAL",
		http.StatusServiceUnavailable: "UNAVAILABLE", http.StatusGatewayTimeout: "DEADLINE_EXCEEDED",
	}[f.status]
	if name == "" {
		name = "INVALID_ARGUMENT"
	}
	b = append(b, `{"error":{"code":`...)
	b = strconv.AppendInt(b, int64(f.status), 10)
	b = append(b, `,"message":`...)
	b = appendString(b, f.message)
	b = append(b, `,"status":"`...)
	b = append(b, name...)
	b = append(b, '"')
	if f.wait > 0 && f.status == http.StatusTooManyRequests {
		b = append(b, `,"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"`...)
		b = strconv.AppendFloat(b, f.wait.Seconds(), 'f', -1, 64)
		b = append(b, `s"}]`...)
	}
	return append(b, "}}"...)
}

// appendNullable appends s as a JSON string, null if it is empty.
func appendNullable(b []byte, s string) []byte {
	if s == "" {
		return append(b, "null"...)
	}
	return appendString(b, s)
}
