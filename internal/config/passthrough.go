package config

import (
	"errors"
	"net/url"
	"path"
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
		d.fail(n, "%s of this path is already passed through, at line %d", show(n), first.line)
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

// urlPath reads the path of a URL as a client sends it, already clean, and none
// of the gateway's own, which are metered by what they use.
func urlPath(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || !strings.HasPrefix(s, "/") || u.Path != s || path.Clean(s) != s || strings.ContainsAny(s, ":*{}") {
		return "", errors.New("is not a plain path such as /v1/files")
	}
	for _, own := range ownPaths() {
		if s == own || strings.HasSuffix(own, "/") && strings.HasPrefix(s+"/", own) {
			return "", errors.New("is the gateway's own, metered by what each call uses")
		}
	}
	return s, nil
}

// ownPaths are the data plane's; those that end in a slash with all below them.
func ownPaths() []string {
	return []string{
		"/healthz", "/v1/chat/completions", "/v1/completions", "/v1/responses/", "/v1/embeddings", "/v1/moderations",
		"/v1/images/generations", "/v1/images/edits", "/v1/audio/speech", "/v1/audio/transcriptions", "/v1/audio/translations",
		"/v1/models/", "/openai/", "/v1/messages", "/v1/messages/count_tokens", "/v1beta/models/", "/model/",
		"/v2/chat", "/v2/embed", "/v2/rerank", "/api/chat", "/api/generate", "/api/embed",
	}
}
