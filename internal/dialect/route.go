package dialect

import (
	"net/url"
	"strings"
)

// Match reads path, as a client sent it, by an Endpoint's pattern, and returns
// the parameters, decoded (one that cannot be is empty); false if it is another
// path.
func Match(pattern, path string) (params map[string]string, ok bool) {
	if !strings.Contains(pattern, ":") {
		return nil, pattern == path
	}
	params = map[string]string{}
	for more := true; more; {
		var want, got string
		var also bool
		want, pattern, more = strings.Cut(pattern, "/")
		got, path, also = strings.Cut(path, "/")
		if more != also || !matchSegment(want, got, params) {
			return nil, false
		}
	}
	return params, true
}

// matchSegment reads one segment of a path into params.
func matchSegment(want, got string, params map[string]string) bool {
	name, variable := strings.CutPrefix(want, ":")
	if !variable || got == "" {
		return want == got
	}
	value, err := url.PathUnescape(got)
	name, action, acts := strings.Cut(name, ":")
	if acts {
		value, acts = strings.CutSuffix(value, ":"+action)
		if !acts || err != nil {
			return false
		}
	}
	params[name] = value
	return true
}

// Likeness is how many segments of path, from its start, are as pattern has
// them: of a path that no pattern matches it tells the nearest.
func Likeness(pattern, path string) (n int) {
	for more, also := true, true; more && also; n++ {
		var want, got string
		want, pattern, more = strings.Cut(pattern, "/")
		got, path, also = strings.Cut(path, "/")
		if want != got && !strings.HasPrefix(want, ":") {
			break
		}
	}
	return n
}
