package proxy

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"llmgw/internal/dialect"
	"llmgw/internal/fault"
	"llmgw/internal/spelling"
)

// apiVersion is what clients have in a base URL too often, or not at all.
const apiVersion = "/v1"

// apiVersions are those that they have there too often.
var apiVersions = []string{apiVersion, "/v1beta", "/v1alpha", "/v2"}

// paths are the patterns of all that is served, each once.
func (g *Gateway) paths() []string {
	var all []string
	for _, d := range g.Dialects {
		for _, e := range d.Endpoints() {
			if !e.Alias && !slices.Contains(all, e.Pattern) {
				all = append(all, e.Pattern)
			}
		}
	}
	for _, d := range g.Dialects {
		for _, path := range d.Profile().Listing.Paths {
			if path = shownPath(path); !slices.Contains(all, path) {
				all = append(all, path)
			}
		}
	}
	return all
}

// meantPath returns the known path that a client with a wrong base URL means: one
// version more than path has, or one less. ok is false if there is none.
func meantPath(known []string, path string) (meant string, ok bool) {
	for _, version := range apiVersions {
		if rest, found := strings.CutPrefix(path, version); found && isKnown(known, rest) {
			return rest, true
		}
	}
	return apiVersion + path, isKnown(known, apiVersion+path)
}

func isKnown(known []string, path string) bool {
	return slices.ContainsFunc(known, func(pattern string) bool {
		_, ok := dialect.Match(pattern, path)
		return ok
	})
}

// unescaped is a path as servers read it; one that cannot be read stays.
func unescaped(path string) string {
	if plain, err := url.PathUnescape(path); err == nil {
		return plain
	}
	return path
}

// notFound refuses a path at which there is nothing, with the known one that is
// most like it.
func notFound(known []string) func(path string) (like string, err error) {
	return func(path string) (string, error) {
		message := "There is nothing at this path."
		if meant, ok := resembling(known, path); ok {
			message += fmt.Sprintf(" Did you mean %s?", meant)
			path = meant
		}
		return path, &fault.Error{Code: fault.NotFound, Message: message, NoRetry: true}
	}
}

// maxMeant is the longest path of which a known one is looked for, in bytes.
const maxMeant = 200

// resembling returns the known path that path ends with, such as behind another
// provider's base URL, or begins, or differs from in two letters at most.
func resembling(known []string, path string) (meant string, ok bool) {
	if len(path) > maxMeant {
		return "", false
	}
	for i := range path {
		if path[i] == '/' && isKnown(known, path[i:]) {
			return path[i:], true
		}
	}
	plain := make([]string, 0, len(known))
	for _, pattern := range known {
		candidate := fill(pattern, path)
		short := strings.TrimPrefix(candidate, apiVersion)
		if strings.Count(short, "/") > 1 && strings.HasSuffix(path, short) || len(path) > len("/v1/x") && strings.HasPrefix(candidate, path+"/") {
			return candidate, true
		}
		plain = append(plain, candidate)
	}
	return spelling.Nearest(path, plain, 2)
}

// fill puts the segments of path where pattern has parameters.
func fill(pattern, path string) string {
	if !strings.Contains(pattern, "/:") {
		return pattern
	}
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	for i, s := range want {
		name, variable := strings.CutPrefix(s, ":")
		if !variable {
			continue
		}
		name, action, acts := strings.Cut(name, ":")
		want[i] = "{" + name + "}"
		if i < len(got) {
			want[i], _, _ = strings.Cut(got[i], ":")
		}
		if acts {
			want[i] += ":" + action
		}
	}
	return strings.Join(want, "/")
}
