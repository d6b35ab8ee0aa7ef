package admin

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"net/http"
)

//go:embed dashboard.html
var dashboardHTML string

//go:embed login.html
var loginHTML string

//go:embed dashboard.css
var dashboardCSS string

//go:embed dashboard.js
var dashboardJS string

// page is the dashboard: documents that need nothing from anywhere else, with a
// policy that lets nothing else in.
type page struct {
	board              []byte
	loginFresh, failed []byte
	policy             string
}

// loginState says which login page is shown.
type loginState int

const (
	loginFresh loginState = iota
	loginFailed
)

func newPage() page {
	return page{
		board:      render(dashboardHTML, ""),
		loginFresh: render(loginHTML, ""),
		failed:     render(loginHTML, "That is not the admin token."),
		policy: "default-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'; connect-src 'self'; img-src data:; " +
			"style-src '" + digest(dashboardCSS) + "'; script-src '" + digest(dashboardJS) + "'",
	}
}

// render puts style and script into a document, unchanged: the policy names
// them by their digests. The texts are ours, so that an error cannot happen.
func render(document, message string) []byte {
	var out bytes.Buffer
	t := template.Must(template.New("page").Parse(document))
	err := t.Execute(&out, struct {
		CSS     template.HTML
		JS      template.HTML
		Message string
	}{
		template.HTML("<style>" + dashboardCSS + "</style>"),
		template.HTML("<script>" + dashboardJS + "</script>"),
		message,
	})
	if err != nil {
		panic("admin: the dashboard's document: " + err.Error())
	}
	return out.Bytes()
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

func (h *handler) dashboard(w http.ResponseWriter, _ *http.Request, _ Account) {
	h.page.serve(w, http.StatusOK, h.page.board)
}

func (p page) serveLogin(w http.ResponseWriter, status int, state loginState) {
	document := p.loginFresh
	if state == loginFailed {
		document = p.failed
	}
	p.serve(w, status, document)
}

func (p page) serve(w http.ResponseWriter, status int, document []byte) {
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", p.policy)
	header.Set("Cache-Control", "no-store")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	// The reader went away: there is nobody to tell.
	_, _ = w.Write(document)
}
