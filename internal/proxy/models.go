package proxy

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"llmgw/internal/charge"
	"llmgw/internal/dialect"
	"llmgw/internal/dialect/request"
	"llmgw/internal/fault"
)

// listings are the dialects with a listing at each path, as the path is routed.
func (g *Gateway) listings() map[string][]dialect.Dialect {
	at := map[string][]dialect.Dialect{}
	for _, d := range g.Dialects {
		for _, path := range d.Profile().Listing.Paths {
			at[path] = append(at[path], d)
		}
	}
	return at
}

// askedOf is the one of several dialects with a listing at r's path whose client
// has sent r.
func askedOf(listed []dialect.Dialect, r *http.Request) dialect.Dialect {
	query := r.URL.Query()
	for _, d := range listed {
		if asks := d.Profile().Listing.Asks; asks != nil && asks(dialect.Header(r.Header), query) {
			return d
		}
	}
	return listed[0]
}

// routeListings adds the listings, and what else clients look for.
func (g *Gateway) routeListings(e *gin.Engine) {
	for path, listed := range g.listings() {
		pattern := shownPath(path)
		e.GET(path, func(c *gin.Context) {
			d := askedOf(listed, c.Request)
			if pattern == path && !strings.HasSuffix(path, ":model") {
				g.listModels(c, d, path)
				return
			}
			name := strings.TrimPrefix(c.Param("model"), "/")
			g.showModel(c, d, pattern, func(*record) (string, error) { return name, nil })
		})
	}
	for _, d := range g.Dialects {
		l := d.Profile().Listing
		if l.Show != "" {
			e.POST(l.Show, func(c *gin.Context) {
				g.showModel(c, d, l.Show, func(rec *record) (string, error) { return g.shownModel(c, rec.caller) })
			})
		}
		for path, page := range l.Pages {
			e.GET(path, func(c *gin.Context) {
				g.models(c, d, path, func(rec *record, _ []*charge.Model) {
					rec.ok()
					c.JSON(http.StatusOK, page)
				})
			})
		}
		for path, page := range l.Public {
			e.GET(path, func(c *gin.Context) { c.JSON(http.StatusOK, page) })
		}
	}
}

// shownPath is the path of a listing as others are told of it.
func shownPath(path string) string { return strings.Replace(path, "/*", "/:", 1) }

// listModels lists the models that the caller's key may use.
func (g *Gateway) listModels(c *gin.Context, d dialect.Dialect, path string) {
	g.models(c, d, path, func(rec *record, usable []*charge.Model) {
		rec.ok()
		all := make([]dialect.Listed, len(usable))
		for i, m := range usable {
			all[i] = listedOf(m)
		}
		c.JSON(http.StatusOK, d.Profile().Listing.All(all))
	})
}

// listedOf is what a listing shows of m.
func listedOf(m *charge.Model) dialect.Listed {
	return dialect.Listed{Name: m.Name, Owner: m.Targets[0].Provider.Name, Created: time.Unix(m.Created, 0).UTC(), MaxOutput: m.Rules.MaxOutput}
}

// showModel shows one model; one that the key may not use does not exist.
func (g *Gateway) showModel(c *gin.Context, d dialect.Dialect, path string, named func(*record) (string, error)) {
	g.models(c, d, path, func(rec *record, usable []*charge.Model) {
		name, err := named(rec)
		if err != nil {
			g.refuse(c.Writer, rec, err)
			return
		}
		rec.wanted = name
		i := slices.IndexFunc(usable, func(m *charge.Model) bool { return m.Name == name })
		if i < 0 {
			g.refuse(c.Writer, rec, &fault.Error{
				Code: fault.ModelNotFound, Param: "model", NoRetry: true, Message: fmt.Sprintf("The model %q does not exist here.", name),
			})
			return
		}
		rec.ok()
		c.JSON(http.StatusOK, d.Profile().Listing.One(listedOf(usable[i])))
	})
}

// shownModel is the model that the body of Ollama's /api/show names.
func (g *Gateway) shownModel(c *gin.Context, who charge.Caller) (string, error) {
	sent := &body{gateway: g, team: who.Team.Name, limit: min(g.rules.Load().MaxBodyBytes, maxShown)}
	defer sent.release()
	data, err := sent.read(c.Writer, c.Request)
	if err != nil {
		return "", err
	}
	b, err := request.Read(dialect.Request{Header: dialect.Header(c.Request.Header), Body: data})
	if err != nil {
		return "", err
	}
	if name, ok := b.Text("name"); ok { // older clients'
		return name, nil
	}
	name, _, err := b.Model()
	return name, err
}

// maxShown bounds the body of /api/show.
const maxShown = 64 << 10

// models identifies the caller and hands the models that it may use, in the API
// whose client asks, to answer.
func (g *Gateway) models(c *gin.Context, d dialect.Dialect, pattern string, answer func(*record, []*charge.Model)) {
	rt := route{dialect: d, endpoint: dialect.Endpoint{Method: c.Request.Method, Pattern: pattern}}
	rec := g.begin(c.Writer, c.Request, rt)
	defer g.record(rec)
	rules := g.rules.Load()
	who, err := g.enter(rules, c.Request, rec)
	if err != nil {
		g.refuse(c.Writer, rec, err)
		return
	}
	usable := rules.usable(who)
	if d.Profile().Listing.Own { // else a client would choose what it cannot call
		usable = slices.DeleteFunc(usable, func(m *charge.Model) bool { return len(charge.TargetsFor(m, d.Name())) == 0 })
	}
	answer(rec, usable)
}

// usable are the models that who may use, by name: those that are configured,
// and those that it or its team names and "*" serves.
func (r *Rules) usable(who charge.Caller) []*charge.Model {
	var usable []*charge.Model
	for name, m := range r.Models {
		if name != charge.Wildcard && who.Key.Allows(name) {
			usable = append(usable, m)
		}
	}
	for _, name := range who.Key.Named() {
		if m, err := r.model(who.Key, name); err == nil && m.Name == charge.Wildcard && name != charge.Wildcard {
			named := *m
			named.Name = name
			usable = append(usable, &named)
		}
	}
	slices.SortFunc(usable, func(a, b *charge.Model) int { return strings.Compare(a.Name, b.Name) })
	return usable
}
