package proxy

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"llmgw/internal/dialect"
	"llmgw/internal/fault"
)

// listModels lists the models that the caller's key may use.
func (g *Gateway) listModels(c *gin.Context) {
	g.models(c, "/v1/models", func(rec *record, usable []*Model) {
		rec.ok()
		if rec.route.dialect.Name() == "anthropic" {
			data := make([]gin.H, len(usable))
			for i, m := range usable {
				data[i] = anthropicModel(m)
			}
			page := gin.H{"data": data, "has_more": false, "first_id": nil, "last_id": nil}
			if n := len(usable); n > 0 {
				page["first_id"], page["last_id"] = usable[0].Name, usable[n-1].Name
			}
			c.JSON(http.StatusOK, page)
			return
		}
		data := make([]gin.H, len(usable))
		for i, m := range usable {
			data[i] = openAIModel(m)
		}
		c.JSON(http.StatusOK, gin.H{"object": "list", "data": data})
	})
}

// showModel shows one model; one that the key may not use does not exist.
func (g *Gateway) showModel(c *gin.Context) {
	name := strings.TrimPrefix(c.Param("model"), "/")
	g.models(c, "/v1/models/{model}", func(rec *record, usable []*Model) {
		i := slices.IndexFunc(usable, func(m *Model) bool { return m.Name == name })
		if i < 0 {
			g.refuse(c.Writer, rec, &fault.Error{
				Code: fault.ModelNotFound, Param: "model", NoRetry: true, Message: fmt.Sprintf("The model %q does not exist here.", name),
			})
			return
		}
		rec.ok()
		if rec.route.dialect.Name() == "anthropic" {
			c.JSON(http.StatusOK, anthropicModel(usable[i]))
			return
		}
		c.JSON(http.StatusOK, openAIModel(usable[i]))
	})
}

// models identifies the caller and hands the models that it may use to answer,
// in the shape of the API whose client asks.
func (g *Gateway) models(c *gin.Context, pattern string, answer func(*record, []*Model)) {
	d := g.dialectOf(c.Request.URL.Path)
	if c.GetHeader("Anthropic-Version") != "" {
		d = g.dialectOf("/v1/messages")
	}
	rec := g.begin(c.Writer, c.Request, route{dialect: d, endpoint: dialect.Endpoint{Method: http.MethodGet, Pattern: pattern}})
	defer g.record(rec)
	rules := g.rules.Load()
	who, err := g.identify(rules, c.Request, rec)
	if err == nil {
		who, err = g.admit(c.Request, who, &dialect.Call{})
	}
	if err != nil {
		g.refuse(c.Writer, rec, err)
		return
	}
	answer(rec, rules.usable(who))
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

func openAIModel(m *Model) gin.H {
	return gin.H{"id": m.Name, "object": "model", "created": m.Created, "owned_by": m.Targets[0].Provider.Name}
}

func anthropicModel(m *Model) gin.H {
	return gin.H{"type": "model", "id": m.Name, "display_name": m.Name, "created_at": time.Unix(m.Created, 0).UTC().Format(time.RFC3339)}
}
