package proxy

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"llmgw/internal/charge"
	"llmgw/internal/fault"
)

// me answers an app that asks about its own key. It costs nothing.
func (g *Gateway) me(c *gin.Context) {
	g.models(c, g.Dialects[0], "/llmgw/v1/me", func(rec *record, usable []*charge.Model) {
		answer, err := g.Me(c.Request.Context(), rec.caller.Key, usable)
		if err != nil {
			g.refuse(c.Writer, rec, &fault.Error{Code: fault.LimiterUnavailable, Message: "The limits cannot be read now. Try again in a moment.", Err: err})
			return
		}
		rec.ok()
		c.Header("Cache-Control", "no-store")
		c.JSON(http.StatusOK, answer)
	})
}
