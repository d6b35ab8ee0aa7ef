package proxy

import (
	"net/http"
	"runtime/debug"
	"strings"

	"github.com/gin-gonic/gin"

	"llmgw/internal/dialect"
	"llmgw/internal/fault"
)

// Handler returns the data plane's routes. Paths and methods are judged before
// any key is looked at; what no route names is 404, so nothing reaches a
// provider unmetered.
func (g *Gateway) Handler() http.Handler {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	e.HandleMethodNotAllowed = true
	e.RedirectTrailingSlash = false
	e.ForwardedByClientIP = false
	e.UseRawPath, e.UnescapePathValues = true, true
	e.Use(g.recovery, g.refuseUpgrade)
	for _, d := range g.Dialects {
		routes := map[[2]string][]dialect.Endpoint{}
		for _, endpoint := range d.Endpoints() {
			at := [2]string{endpoint.Method, routed(endpoint.Pattern)}
			routes[at] = append(routes[at], endpoint)
		}
		for at, endpoints := range routes {
			e.Handle(at[0], at[1], g.handle(d, endpoints))
		}
	}
	g.routeListings(e)
	g.routeOutside(e)
	healthz := func(c *gin.Context) { c.JSON(http.StatusOK, gin.H{"status": "ok"}) }
	e.GET("/healthz", healthz)
	e.HEAD("/healthz", healthz) // as some load balancers ask
	if g.Ready != nil {
		e.GET("/readyz", g.readyz)
		e.HEAD("/readyz", g.readyz)
	}
	if g.Me != nil {
		e.GET("/llmgw/v1/me", g.me)
	}
	known := g.paths()
	e.NoRoute(func(c *gin.Context) {
		if c.Request.Method == http.MethodConnect {
			g.unrouted(notAllowed)(c) // no tunnel, whatever it leads to
			return
		}
		path := c.Request.URL.EscapedPath()
		if meant, ok := meantPath(known, path); ok && !g.rules.Load().passes(c.Request) {
			c.Request.URL.RawPath, c.Request.URL.Path = meant, unescaped(meant)
			e.HandleContext(c)
			return
		}
		g.unrouted(notFound(known))(c)
	})
	e.NoMethod(g.unrouted(notAllowed))
	return e
}

// readyz reports whether calls should come here: a load balancer probes the port
// that it sends them to.
func (g *Gateway) readyz(c *gin.Context) {
	status, ready := g.Ready()
	code := http.StatusOK
	if !ready {
		code = http.StatusServiceUnavailable
	}
	c.JSON(code, gin.H{"status": status})
}

// routed is an endpoint's pattern as gin can route it, which knows no actions
// behind a parameter.
func routed(pattern string) string {
	at := strings.LastIndex(pattern, "/:")
	if at < 0 {
		return pattern
	}
	if action := strings.IndexByte(pattern[at+len("/:"):], ':'); action >= 0 {
		return pattern[:at+len("/:")+action]
	}
	return pattern
}

// variant is a dialect that answers some calls in another way, by their query.
type variant interface {
	For(e dialect.Endpoint, query string) dialect.Dialect
}

// handle serves the endpoints that share a route: several if they differ by
// their actions. The gin.Context is pooled and stays here: serve gets values
// only.
func (g *Gateway) handle(d dialect.Dialect, endpoints []dialect.Endpoint) gin.HandlerFunc {
	v, varies := d.(variant)
	return func(c *gin.Context) {
		path := c.Request.URL.EscapedPath()
		for _, e := range endpoints {
			params, ok := dialect.Match(e.Pattern, path)
			if !ok {
				continue
			}
			rt := route{dialect: d, endpoint: e}
			if varies {
				rt.dialect = v.For(e, c.Request.URL.RawQuery)
			}
			g.serve(c.Writer, c.Request, rt, params)
			return
		}
		g.unrouted(notFound(nil))(c)
	}
}

// recovery turns a panic into a 500, and lets http.ErrAbortHandler through: a
// broken answer must stay broken. It logs no header and no body.
func (g *Gateway) recovery(c *gin.Context) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		if v == http.ErrAbortHandler { //nolint:errorlint // a sentinel, passed as it is
			panic(v)
		}
		g.Logger.Error("panic while serving", "path", c.FullPath(), "panic", v, "stack", string(debug.Stack()))
		if c.Writer.Written() {
			panic(http.ErrAbortHandler)
		}
		writeFault(c.Writer, g.dialectOf(c.Request.URL.Path), fault.New(fault.Internal, "The gateway failed to handle this request."), c.Writer.Header().Get(requestIDHeader))
		c.Abort()
	}()
	c.Next()
}

// refuseUpgrade answers an offer to switch protocols with 426 at every path,
// before a key is looked at: what went over a WebSocket could not be metered.
// Clients that offer one fall back to plain HTTP on this status alone. The
// answer has no Upgrade field, as there is no protocol that this gateway wants.
func (g *Gateway) refuseUpgrade(c *gin.Context) {
	if !offersUpgrade(c.Request.Header) {
		return
	}
	g.Refuse(c.Writer, c.Request, &fault.Error{
		Code: fault.InvalidRequest, Status: http.StatusUpgradeRequired, Param: "Upgrade", NoRetry: true,
		Message: "This gateway does not serve WebSockets or other upgrades, which cannot be metered. Use the HTTP API, with a stream where you need one.",
	})
	c.Abort()
}

// offersUpgrade reports whether h asks for another protocol than HTTP. An offer
// of HTTP/2 or of TLS is ignored, as RFC 9110, 7.8 allows: Java's client makes
// one with each call, and the call itself stands. A WebSocket's key counts like
// the connection's option, which a proxy on the way may have removed.
func offersUpgrade(h http.Header) bool {
	if !connectionTokens(h)["Upgrade"] && h.Get("Sec-Websocket-Key") == "" {
		return false
	}
	for _, list := range h["Upgrade"] {
		for protocol := range strings.SplitSeq(list, ",") {
			name, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(protocol)), "/")
			if name != "" && name != "h2c" && name != "h2" && name != "http" && name != "tls" {
				return true
			}
		}
	}
	return false
}

// Refuse answers a request that gets no further with err, in the shape of the
// API that is at its path or most like it.
func (g *Gateway) Refuse(w http.ResponseWriter, r *http.Request, err error) {
	rec := g.begin(w, r, route{dialect: g.dialectOf(r.URL.Path), endpoint: dialect.Endpoint{Pattern: "other"}})
	defer g.record(rec)
	if r.ContentLength != 0 { // the body is not waited for
		w.Header().Set("Connection", "close")
	}
	g.refuse(w, rec, err)
}

func notAllowed(path string) (like string, err error) {
	return path, &fault.Error{Code: fault.MethodNotAllowed, Message: "This path does not take this method.", NoRetry: true}
}

// unrouted relays what is configured to pass through, and refuses the rest,
// which is counted under one endpoint. refusal returns why, and the known path
// in the shape of whose API to say so.
func (g *Gateway) unrouted(refusal func(path string) (like string, err error)) gin.HandlerFunc {
	return func(c *gin.Context) {
		rules := g.rules.Load()
		if p, ok := rules.passthrough(c.Request); ok {
			c.Status(http.StatusOK) // gin has set 404 or 405
			g.serve(c.Writer, c.Request, g.passRoute(p, c.Request.Method), nil)
			return
		}
		like, err := refusal(c.Request.URL.EscapedPath())
		rt := route{dialect: g.dialectOf(like), endpoint: dialect.Endpoint{Pattern: "other"}}
		rec := g.begin(c.Writer, c.Request, rt)
		defer g.record(rec)
		if methods := rules.passed(c.Request.URL.EscapedPath()); len(methods) > 0 {
			c.Header("Allow", strings.Join(append(methods, c.Writer.Header()["Allow"]...), ", "))
			_, err = notAllowed(like)
		}
		g.refuse(c.Writer, rec, err)
	}
}

// dialectOf is the dialect in whose shape to refuse what no endpoint is at: that
// of the endpoint that is most like the path.
func (g *Gateway) dialectOf(path string) dialect.Dialect {
	nearest, most := g.Dialects[0], 0
	for _, d := range g.Dialects {
		for _, e := range d.Endpoints() {
			if n := dialect.Likeness(e.Pattern, path); n > most && !e.Alias {
				nearest, most = d, n
			}
		}
	}
	return nearest
}
