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
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return nil, false
	}
	params = map[string]string{}
	for i, segment := range want {
		name, variable := strings.CutPrefix(segment, ":")
		if !variable {
			if segment != got[i] {
				return nil, false
			}
			continue
		}
		value, err := url.PathUnescape(got[i])
		name, action, acts := strings.Cut(name, ":")
		done := true
		if acts {
			value, done = strings.CutSuffix(value, ":"+action)
		}
		if got[i] == "" || !done || acts && err != nil {
			return nil, false
		}
		params[name] = value
	}
	return params, true
}

// Likeness is how many segments of path, from its start, are as pattern has
// them: of a path that no pattern matches it tells the nearest.
func Likeness(pattern, path string) int {
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	for i := range want {
		if i == len(got) || want[i] != got[i] && !strings.HasPrefix(want[i], ":") {
			return i
		}
	}
	return len(want)
}
