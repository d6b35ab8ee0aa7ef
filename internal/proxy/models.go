package proxy

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/request"
	"llmgw/internal/fault"
)

// listings are the paths at which clients look for what they may choose. A path
// that ends with a parameter shows one model, whose name may hold slashes.
var listings = []struct {
	path  string
	shape func(*http.Request) shape
}{
	{"/v1/models", shapeOf},
	{"/v1/models/:model", shapeOf},
	{"/models", shapeOf},
	{"/models/:model", shapeOf},
	{"/openai/v1/models", always(openAIShape)},
	{"/openai/v1/models/:model", always(openAIShape)},
	{"/openai/models", always(azureShape)},
	{"/openai/models/:model", always(azureShape)},
	{"/openai/deployments", always(azureShape)},
	{"/openai/deployments/:model", always(azureShape)},
	{"/v1beta/models", always(geminiShape)},
	{"/v1beta/models/:model", always(geminiShape)},
	{"/v1alpha/models", always(geminiShape)},
	{"/v1alpha/models/:model", always(geminiShape)},
	{"/api/tags", always(ollamaShape)},
}

// shapeOf is the shape for a client of one of the APIs that share a path: each
// sends what no other does.
func shapeOf(r *http.Request) shape {
	switch {
	case r.Header.Get("Anthropic-Version") != "":
		return anthropicShape
	case r.Header.Get("X-Goog-Api-Key") != "" || r.Header.Get("X-Goog-Api-Client") != "" || r.URL.Query().Has("key"):
		return geminiShape
	default:
		return openAIShape
	}
}

func always(s shape) func(*http.Request) shape { return func(*http.Request) shape { return s } }

// routeListings adds the listings, and what else Ollama's clients look for.
func (g *Gateway) routeListings(e *gin.Engine) {
	for _, l := range listings {
		prefix, one := strings.CutSuffix(l.path, ":model")
		if !one {
			e.GET(l.path, func(c *gin.Context) { g.listModels(c, l.shape(c.Request), l.path) })
			continue
		}
		if strings.HasPrefix(prefix, "/openai/") { // below which there is more than models
			prefix += ":model"
		} else {
			prefix += "*model"
		}
		e.GET(prefix, func(c *gin.Context) {
			name := strings.TrimPrefix(c.Param("model"), "/")
			g.showModel(c, l.shape(c.Request), l.path, func(*record) (string, error) { return name, nil })
		})
	}
	e.POST("/api/show", func(c *gin.Context) {
		g.showModel(c, ollamaShape, "/api/show", func(rec *record) (string, error) { return g.shownModel(c, rec.caller) })
	})
	e.GET("/api/ps", func(c *gin.Context) {
		g.models(c, ollamaShape, "/api/ps", func(rec *record, _ []*Model) { // no model is loaded here
			rec.ok()
			c.JSON(http.StatusOK, gin.H{"models": []gin.H{}})
		})
	})
	e.GET("/api/version", func(c *gin.Context) { c.JSON(http.StatusOK, gin.H{"version": ollamaVersion}) })
}

// listModels lists the models that the caller's key may use.
func (g *Gateway) listModels(c *gin.Context, s shape, path string) {
	g.models(c, s, path, func(rec *record, usable []*Model) {
		rec.ok()
		c.JSON(http.StatusOK, s.all(usable))
	})
}

// showModel shows one model; one that the key may not use does not exist.
func (g *Gateway) showModel(c *gin.Context, s shape, path string, named func(*record) (string, error)) {
	g.models(c, s, path, func(rec *record, usable []*Model) {
		name, err := named(rec)
		if err != nil {
			g.refuse(c.Writer, rec, err)
			return
		}
		rec.wanted = name
		i := slices.IndexFunc(usable, func(m *Model) bool { return m.Name == name })
		if i < 0 {
			g.refuse(c.Writer, rec, &fault.Error{
				Code: fault.ModelNotFound, Param: "model", NoRetry: true, Message: fmt.Sprintf("The model %q does not exist here.", name),
			})
			return
		}
		rec.ok()
		c.JSON(http.StatusOK, s.one(usable[i]))
	})
}

// shownModel is the model that the body of Ollama's /api/show names.
func (g *Gateway) shownModel(c *gin.Context, who caller) (string, error) {
	sent := &body{gateway: g, team: who.team.Name, limit: min(g.rules.Load().MaxBodyBytes, maxShown)}
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
func (g *Gateway) models(c *gin.Context, s shape, pattern string, answer func(*record, []*Model)) {
	rt := route{dialect: g.dialectNamed(s.dialect), endpoint: dialect.Endpoint{Method: c.Request.Method, Pattern: pattern}}
	rec := g.begin(c.Writer, c.Request, rt)
	defer g.record(rec)
	rules := g.rules.Load()
	who, err := g.enter(rules, c.Request, rec)
	if err != nil {
		g.refuse(c.Writer, rec, err)
		return
	}
	usable := rules.usable(who)
	if s.own { // else a client would choose what it cannot call
		usable = slices.DeleteFunc(usable, func(m *Model) bool { return len(targetsFor(m, s.dialect)) == 0 })
	}
	answer(rec, usable)
}

// dialectNamed is the dialect of that name, which must be there.
func (g *Gateway) dialectNamed(name string) dialect.Dialect {
	return g.Dialects[max(0, slices.IndexFunc(g.Dialects, func(d dialect.Dialect) bool { return d.Name() == name }))]
}

// usable are the models that who may use, by name: those that are configured,
// and those that its team names and "*" serves.
func (r *Rules) usable(who caller) []*Model {
	var usable []*Model
	for name, m := range r.Models {
		if name != wildcard && who.team.Allows(name) {
			usable = append(usable, m)
		}
	}
	for name := range who.team.Models {
		if m, err := r.model(who.team, name); err == nil && m.Name == wildcard && name != wildcard {
			named := *m
			named.Name = name
			usable = append(usable, &named)
		}
	}
	slices.SortFunc(usable, func(a, b *Model) int { return strings.Compare(a.Name, b.Name) })
	return usable
}
