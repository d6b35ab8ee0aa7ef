package admin

import (
	"crypto/sha256"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

const token = "s3cret-admin-token"

// owner is the account that may do everything, with this token.
func owner(token string) []Account {
	return []Account{{Name: "owner", SHA256: sha256.Sum256([]byte(token)), Role: Admin}}
}

func TestWithATokenEverythingButHealthWantsIt(t *testing.T) {
	g := newGateway()
	g.Accounts = owner(token)
	for _, target := range []string{"GET /metrics", "GET /dashboard", "GET /dashboard/live", "GET /dashboard/teams/search", "POST /dashboard/explain", "GET /admin/v1/teams",
		"GET /admin/v1/teams/search", "POST /admin/v1/explain", "GET /admin/v1/usage", "GET /admin/v1/blocks", "POST /admin/v1/blocks",
		"DELETE /admin/v1/blocks/x", "GET /admin/v1/enforcement", "PUT /admin/v1/enforcement", "POST /admin/v1/reload", "GET /", "GET /nothing"} {
		method, path, _ := strings.Cut(target, " ")
		for _, authorization := range []string{"", "Bearer wrong", "Bearer ", "Basic " + token, "Bearer " + token + "x", token} {
			res, body := g.ask(t, method, path, "{}", "Authorization", authorization)
			if res.StatusCode != http.StatusUnauthorized || !strings.HasPrefix(res.Header.Get("WWW-Authenticate"), "Bearer") {
				t.Errorf("%s with %q: status %d, %v", target, authorization, res.StatusCode, res.Header)
			}
			if strings.Contains(body, token) {
				t.Errorf("%s tells the token", target)
			}
		}
		if res, _ := g.ask(t, method, path, "{}", "Authorization", "bearer  "+token); res.StatusCode == http.StatusUnauthorized {
			t.Errorf("%s with the token: status 401", target)
		}
		if res, _ := g.ask(t, method, path+"?token="+token, "{}"); res.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s takes the token from the address, which gets into logs", target)
		}
	}
}

func TestTheLoginsPassOpensTheDashboardAlone(t *testing.T) {
	g := newGateway()
	g.Accounts = owner(token)
	now := clock
	g.Now = func() time.Time { return now }

	form := url.Values{"token": {token}}.Encode()
	res, _ := g.ask(t, "POST", "/dashboard/login", form, "Content-Type", "application/x-www-form-urlencoded")
	if res.StatusCode != http.StatusSeeOther || res.Header.Get("Location") != "/dashboard" || len(res.Cookies()) != 1 {
		t.Fatalf("status %d, %v", res.StatusCode, res.Header)
	}
	cookie := res.Cookies()[0]
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "/dashboard" || strings.Contains(cookie.Value, token) {
		t.Errorf("the cookie is %v", cookie)
	}
	pass := cookie.Name + "=" + cookie.Value
	for _, c := range []struct {
		what, target, cookie string
		after                time.Duration
		status               int
	}{
		{"the page", "GET /dashboard", pass, 0, 200},
		{"its figures", "GET /dashboard/live", pass, 0, 200},
		{"a team's page", "GET /dashboard/teams/search", pass, 0, 200},
		{"nothing else: reading", "GET /admin/v1/teams", pass, 0, 401},
		{"nothing else: changing", "PUT /admin/v1/enforcement", pass, 0, 401},
		{"nothing that only begins so", "GET /dashboards", pass, 0, 401},
		{"a pass with a later end", "GET /dashboard/live", strings.Replace(pass, "=1", "=2", 1), 0, 401},
		{"no pass at all", "GET /dashboard/live", cookie.Name + "=", 0, 401},
		{"half a pass", "GET /dashboard/live", pass[:len(pass)-1], 0, 401},
		{"until it ends", "GET /dashboard/live", pass, passLasts - time.Second, 200},
		{"but not longer", "GET /dashboard/live", pass, time.Second, 401},
	} {
		now = now.Add(c.after)
		method, path, _ := strings.Cut(c.target, " ")
		if res, _ := g.ask(t, method, path, "", "Cookie", c.cookie); res.StatusCode != c.status {
			t.Errorf("%s: %s is status %d, want %d", c.what, c.target, res.StatusCode, c.status)
		}
	}
	g.Accounts = owner("another")
	now = clock
	if res, _ := g.ask(t, "GET", "/dashboard/live", "", "Cookie", pass); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("a pass outlives its token: status %d", res.StatusCode)
	}
}

func TestAWrongTokenAtTheLoginIsSaidSo(t *testing.T) {
	g := newGateway()
	g.Accounts = owner(token)
	res, body := g.ask(t, "POST", "/dashboard/login", "token=wrong", "Content-Type", "application/x-www-form-urlencoded")
	if res.StatusCode != http.StatusUnauthorized || len(res.Cookies()) != 0 || !strings.Contains(body, "That is not the admin token.") {
		t.Errorf("status %d: %s", res.StatusCode, body)
	}
}

func TestAnotherSitesPageCannotChangeAnything(t *testing.T) {
	g := newGateway()
	for _, site := range []string{"cross-site", "same-site"} {
		res, _ := g.ask(t, "POST", "/admin/v1/blocks", `{"scope":"team","value":"search"}`, "Sec-Fetch-Site", site)
		if res.StatusCode != http.StatusForbidden || len(g.Blocks.List()) != 0 {
			t.Errorf("%s: status %d, %d blocks", site, res.StatusCode, len(g.Blocks.List()))
		}
	}
	if res, _ := g.ask(t, "POST", "/admin/v1/blocks", `{"scope":"team","value":"search"}`, "Sec-Fetch-Site", "same-origin"); res.StatusCode != http.StatusCreated {
		t.Errorf("same-origin: status %d", res.StatusCode)
	}
}

func TestThePageNeedsNothingFromElsewhere(t *testing.T) {
	g := newGateway()
	res, body := g.ask(t, "GET", "/dashboard", "")
	if res.StatusCode != http.StatusOK || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/html") {
		t.Fatalf("status %d, %v", res.StatusCode, res.Header)
	}
	policy := res.Header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", digest(dashboardCSS), digest(dashboardJS)} {
		if !strings.Contains(policy, want) {
			t.Errorf("the policy lacks %s: %s", want, policy)
		}
	}
	for _, not := range []string{"http://", "https://", " src=", "url(", "@import", " style=", " onclick="} {
		if strings.Contains(strings.ReplaceAll(body, "http://www.w3.org/2000/svg", ""), not) {
			t.Errorf("the page has %q", not)
		}
	}
	if !strings.Contains(body, "<style>"+dashboardCSS+"</style>") || !strings.Contains(body, "<script>"+dashboardJS+"</script>") {
		t.Error("style and script are not in the page as their digests say")
	}
}
