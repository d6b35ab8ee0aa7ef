package request

import (
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"llmgw/internal/dialect"
)

// notPassed are the headers that end at this gateway, in canonical form: those
// of one hop (RFC 9110, 7.6.1), those of the body's encoding, which has been
// undone, what belongs to the client's credentials, its network, and what names
// another method or path. So do all that may hold a credential (dialect.Secretive).
var notPassed = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Proxy-Connection": true, "Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true, "Expect": true,
	"Host": true, "Content-Length": true, "Content-Encoding": true,
	"X-Amz-Date": true, "X-Amz-Content-Sha256": true, "Openai-Organization": true, "Openai-Project": true, "X-Goog-User-Project": true,
	"Forwarded": true, "Via": true,
	// They make some servers take the request for another than the one that was
	// read and charged here.
	"X-Http-Method-Override": true, "X-Http-Method": true, "X-Method-Override": true, "X-Original-Url": true, "X-Rewrite-Url": true,
}

// ofNetwork reports whether a header is about the client's network.
func ofNetwork(name string) bool {
	return strings.HasPrefix(name, "X-Forwarded-") || strings.HasSuffix(name, "-Forwarded-For") || strings.HasSuffix(name, "-Ip")
}

const gatewayPrefix = "X-Llmgw-"

// Header returns the client's end-to-end headers without its credentials. The
// result is the caller's to change. Accept-Encoding is always set: if the
// transport set it, it would also undo it. A body without a type is JSON.
func Header(r dialect.Request) dialect.Header {
	sent := r.Header
	out := make(dialect.Header, len(sent)+2)
	for name, values := range sent {
		ends := notPassed[name] || strings.HasPrefix(name, gatewayPrefix) || ofNetwork(name) || dialect.Secretive(name)
		if !ends && len(values) > 0 {
			out[name] = values[:len(values):len(values)] // an Add copies it first
		}
	}
	for _, list := range sent["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			delete(out, textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name)))
		}
	}
	if len(out["Accept-Encoding"]) == 0 {
		out.Set("Accept-Encoding", "identity")
	}
	if len(r.Body) > 0 && len(out["Content-Type"]) == 0 {
		out.Set("Content-Type", "application/json")
	}
	return out
}

// Query returns a raw query without the parameters called drop, which hold
// credentials or are the gateway's to set. What is left stays as it was sent.
func Query(raw string, drop ...string) string {
	return chosen(raw, func(name string) bool { return !slices.Contains(drop, name) })
}

// QueryOf returns the parameters called keep of a raw query, as they were sent.
func QueryOf(raw string, keep ...string) string {
	return chosen(raw, func(name string) bool { return slices.Contains(keep, name) })
}

// chosen returns the parameters of a raw query whose names keep chooses.
func chosen(raw string, keep func(name string) bool) string {
	if raw == "" {
		return ""
	}
	kept := make([]string, 0, 4)
	for pair := range strings.SplitSeq(raw, "&") {
		name, _, _ := strings.Cut(pair, "=")
		if pair != "" && keep(unescape(name)) {
			kept = append(kept, pair)
		}
	}
	return strings.Join(kept, "&")
}

// unescape decodes a parameter's name; one that cannot be decoded stays.
func unescape(name string) string {
	if plain, err := url.QueryUnescape(name); err == nil {
		return plain
	}
	return name
}

// URL joins a base URL, a path that begins with a slash, and a raw query.
func URL(base, path, query string) string {
	joined := strings.TrimRight(base, "/") + path
	if query != "" {
		joined += "?" + query
	}
	return joined
}
