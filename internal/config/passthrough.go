package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"
)

// passthrough reads a path that is relayed for a flat charge: one request and
// no tokens unless it says otherwise, and never nothing.
func (d *decoder) passthrough(p *Passthrough) func(*node) {
	return func(n *node) {
		*p = Passthrough{Requests: 1}
		before := len(d.problems)
		d.object(n, fields{
			"path":     set(d, &p.Path, urlPath),
			"methods":  setList(d, &p.Methods, func(m *string) func(*node) { return set(d, m, oneOf(methods()...)) }),
			"provider": d.providerName(&p.Provider),
			"charge":   d.charge(p),
		})
		d.need(n, "a passthrough", "path", "methods", "provider")
		if len(d.problems) > before {
			return
		}
		if len(p.Methods) == 0 {
			d.fail(n.at("methods"), "methods is empty: nothing would be passed through")
		}
		for i, m := range p.Methods {
			d.route(m+" "+p.Path, n.value("methods").items[i])
		}
	}
}

// route fails if the same method and path were there before.
func (d *decoder) route(route string, n *node) {
	if first, twice := d.routes[route]; twice {
		d.fail(n, "%s of this path is already passed through, at %s", show(n), first.seenFrom(n))
		return
	}
	d.routes[route] = n
}

func (d *decoder) charge(p *Passthrough) func(*node) {
	return func(n *node) {
		d.object(n, fields{
			"requests": set(d, &p.Requests, amount(0)),
			"tokens":   set(d, &p.Tokens, count(0)),
		})
		if p.Requests == 0 && p.Tokens == 0 {
			d.fail(n, "a call that charges nothing would be unmetered")
		}
	}
}

func methods() []string { return []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"} }

// urlPath reads the path of a URL as a client sends it, already clean, with {id}
// for any one segment and /** at its end for all below. None of the gateway's own
// may be among what it stands for: those are metered by what they use.
func urlPath(s string) (string, error) {
	plain := s
	for _, segment := range strings.Split(strings.TrimSuffix(s, "/**"), "/") {
		if parameter.MatchString(segment) {
			plain = strings.Replace(plain, segment, "x", 1)
		}
	}
	plain = cmp.Or(strings.TrimSuffix(plain, "/**"), "/")
	u, err := url.Parse(plain)
	if err != nil || !strings.HasPrefix(s, "/") || u.Path != plain || path.Clean(plain) != plain || strings.ContainsAny(plain, ":*{}") {
		return "", errors.New("is not a plain path such as /v1/files, /v1/files/{id}/content or /v1/batches/**")
	}
	if own, ok := covered(strings.ToLower(s)); ok && plain == s {
		return "", errors.New("is the gateway's own, metered by what each call uses")
	} else if ok {
		return "", fmt.Errorf("covers %s, which is the gateway's own, metered by what each call uses", own)
	}
	return s, nil
}

var parameter = regexp.MustCompile(`^\{[A-Za-z0-9_]{1,64}\}$`)

// covered returns one of the gateway's own paths that a passthrough's stands for.
func covered(pass string) (own string, ok bool) {
	for _, form := range []func(string) string{
		func(own string) string { return own },
		func(own string) string { return strings.TrimPrefix(own, "/v1") },
		func(own string) string { return "/v1" + own },
	} {
		for _, own := range ownPaths() {
			if meets(pass, form(own)) {
				return own, true
			}
		}
	}
	return "", false
}

// meets reports whether a passthrough's path stands for one of the gateway's own.
func meets(pass, own string) bool {
	below := strings.HasSuffix(own, "/")
	theirs, ours := strings.Split(pass, "/"), strings.Split(strings.TrimSuffix(own, "/"), "/")
	for i, segment := range theirs {
		switch {
		case segment == "**":
			return true
		case i >= len(ours):
			return below
		case segment != ours[i] && !strings.HasPrefix(segment, "{"):
			return false
		}
	}
	return len(theirs) == len(ours)
}

// ownPaths are the data plane's; those that end in a slash with all below them.
// Clients may leave out their /v1, or have it twice.
func ownPaths() []string {
	all := []string{
		"/healthz", "/readyz", "/v1/messages", "/v1/messages/count_tokens", "/v1beta/models/", "/v1alpha/models/", "/model/",
		"/openai/deployments/", "/openai/models/", "/openai/responses/", "/v2/chat", "/v2/embed", "/v2/rerank",
		"/api/chat", "/api/generate", "/api/embed", "/api/embeddings", "/api/tags", "/api/show", "/api/ps", "/api/version",
	}
	for _, openAI := range []string{
		"/v1/chat/completions", "/v1/completions", "/v1/responses/", "/v1/embeddings", "/v1/moderations", "/v1/models/",
		"/v1/images/generations", "/v1/images/edits", "/v1/audio/speech", "/v1/audio/transcriptions", "/v1/audio/translations",
	} {
		all = append(all, openAI, "/openai"+openAI)
	}
	return all
}
