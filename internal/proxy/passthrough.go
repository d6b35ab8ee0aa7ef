package proxy

import (
	"net/http"
	"slices"
	"strings"

	"llmgw/internal/charge"
	"llmgw/internal/dialect"
	"llmgw/internal/estimate"
	"llmgw/internal/tokens"
	"llmgw/internal/upstream"
)

// Passthrough is a path that is relayed to one provider as it is, for a flat
// charge. It is refunded like any call that fails.
type Passthrough struct {
	// Path may have segments such as {id}, which stand for any one, and may end
	// with /**, which stands for the path before it and all below.
	Path     string
	Methods  []string
	Provider *upstream.Provider
	Requests int64        // charged to limits of requests
	Tokens   tokens.Count // charged to limits of tokens, as input
}

// passthrough finds the configured relay of a request: the first in the file.
func (r *Rules) passthrough(req *http.Request) (*Passthrough, bool) {
	path := req.URL.EscapedPath()
	for i := range r.Passthrough {
		if p := &r.Passthrough[i]; slices.Contains(p.Methods, req.Method) && p.covers(path) {
			return p, true
		}
	}
	return nil, false
}

// covers reports whether p is of a path, as a client sent it. What stands for a
// parameter must be plain: a provider could read a dot, an escape or an empty
// segment as a way out.
func (p *Passthrough) covers(path string) bool {
	want, got := strings.Split(p.Path, "/"), strings.Split(path, "/")
	for i, segment := range want {
		switch {
		case segment == "**" && i == len(want)-1:
			return !slices.ContainsFunc(got[min(i, len(got)):], func(s string) bool { return !isPlain(s) })
		case i >= len(got):
			return false
		case strings.HasPrefix(segment, "{"):
			if !isPlain(got[i]) {
				return false
			}
		case segment != got[i]:
			return false
		}
	}
	return len(got) == len(want)
}

// isPlain reports whether a segment of a path has one reading.
func isPlain(segment string) bool {
	return segment != "" && strings.Trim(segment, ".") != "" && !strings.ContainsFunc(segment, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("-._~:@!$&'()*+,=", c)
	})
}

// passes reports whether a request is relayed.
func (r *Rules) passes(req *http.Request) bool {
	_, ok := r.passthrough(req)
	return ok
}

// passed are the methods that are relayed at path.
func (r *Rules) passed(path string) []string {
	var methods []string
	for i := range r.Passthrough {
		if r.Passthrough[i].covers(path) {
			methods = append(methods, r.Passthrough[i].Methods...)
		}
	}
	return methods
}

// passRoute is the route of a relay: in the shape of its provider's API.
func (g *Gateway) passRoute(p *Passthrough, method string) route {
	inner := g.Dialects[0]
	for _, d := range g.Dialects {
		if d.Name() == p.Provider.Dialect {
			inner = d
		}
	}
	return route{
		dialect:  relay{Dialect: inner, base: p.Provider.BaseURL},
		endpoint: dialect.Endpoint{Method: method, Pattern: p.Path, Operation: "passthrough"},
		flat:     p,
	}
}

// flatPlan is the plan of a relayed call: no model, and the flat charge as its
// estimate.
func (rt route) flatPlan(rules *Rules, who charge.Caller, call *dialect.Call) *plan {
	m := &charge.Model{Name: charge.Wildcard, Weights: tokens.Even, Targets: []upstream.Target{{Provider: rt.flat.Provider, Weight: 1}}}
	p := &plan{Plan: charge.Plan{Caller: who, Call: call, Model: m, Targets: m.Targets, Flat: true, Requests: rt.flat.Requests, Estimate: estimate.Estimate{Input: rt.flat.Tokens}}, dialect: rt.dialect, maxWait: -1}
	p.Lines = p.Draws(rules.Limits)
	return p
}

// relay is a dialect whose calls are passed on unread.
type relay struct {
	dialect.Dialect
	base string
}

// Parse reads nothing: the body is the provider's business.
func (r relay) Parse(req dialect.Request) (*dialect.Call, error) {
	return &dialect.Call{Request: req, Dialect: r.Dialect.Name(), Choices: 1, NoOutput: true}, nil
}

// Prepare passes the call on with the provider's credentials. A base URL that
// ends with the version serves paths that begin with it.
func (r relay) Prepare(c *dialect.Call, to dialect.Upstream) (dialect.Outbound, error) {
	to.Model = ""
	out, err := r.Dialect.Prepare(c, to)
	if err != nil {
		return out, err
	}
	base := strings.TrimSuffix(r.base, "/")
	if version, ok := lastSegment(base); ok && strings.HasPrefix(c.Path, version+"/") {
		base = strings.TrimSuffix(base, version)
	}
	query := ""
	if _, q, ok := strings.Cut(out.URL, "?"); ok {
		query = "?" + q // without the gateway's key
	}
	out.URL, out.Body, out.Injected = base+c.Path+query, nil, false
	if len(c.Body) > 0 {
		out.Body = [][]byte{c.Body}
	}
	if s, ok := r.Dialect.(signer); ok {
		err = s.Sign(out, to)
	}
	return out, err
}

// signer is a dialect whose calls are signed with where they go and what they
// hold.
type signer interface {
	Sign(out dialect.Outbound, to dialect.Upstream) error
}

func lastSegment(base string) (string, bool) {
	i := strings.LastIndex(base, "/")
	if i <= 0 || strings.HasSuffix(base[:i], "/") { // the host is no path
		return "", false
	}
	return base[i:], true
}

// Meter watches nothing.
func (relay) Meter(*dialect.Call, dialect.Answer, dialect.MeterOptions) dialect.Meter {
	return unread{}
}

// unread passes an answer on and knows nothing of it.
type unread struct{}

func (unread) Feed(p []byte) []byte { return p }

func (unread) End() []byte { return nil }

func (unread) Due() bool { return false }

func (unread) Report() dialect.Report { return dialect.Report{Events: 1} }
