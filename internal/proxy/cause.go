package proxy

import (
	"errors"
	"net/url"
	"strings"

	"llmgw/internal/fault"
)

// longestCause bounds what the log says of why something failed, in bytes.
const longestCause = 200

// causeOf is why a provider gave no answer, or no whole one, as the log tells
// it to who runs the gateway; empty if e is no such failure or nobody knows.
// The URL stays out, and so does everything from a first quote on: what stands
// in quotes there came over the wire.
func causeOf(e *fault.Error) string {
	if e == nil || e.Err == nil || e.Code != fault.UpstreamError && e.Code != fault.UpstreamTimeout && e.Code != fault.Internal {
		return ""
	}
	err := e.Err
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	text, _, _ := strings.Cut(err.Error(), `"`)
	return strings.TrimRight(strings.ToValidUTF8(text[:min(len(text), longestCause)], ""), " :")
}
