package admin

import (
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"llmgw/internal/changes"
	"llmgw/internal/tenant"
)

// staff are accounts of every role, of all teams and of team search alone. The
// token of each is its name.
func staff() []Account {
	var all []Account
	for _, role := range roles {
		name := string(role)
		all = append(all,
			Account{Name: name, SHA256: sha256.Sum256([]byte(name)), Role: role},
			Account{Name: name + "-search", SHA256: sha256.Sum256([]byte(name + "-search")), Role: role, Teams: []string{"search"}})
	}
	return all
}

// bodies are requests that each endpoint answers well, by its pattern, of team
// search where there is one.
var bodies = map[string]struct{ target, body string }{
	"GET /admin/v1/keys/{id}":               {"/admin/v1/keys/search-prod", ""},
	"POST /admin/v1/keys":                   {"/admin/v1/keys", `{"team":"search"}`},
	"PATCH /admin/v1/keys/{id}":             {"/admin/v1/keys/made", `{"note":"mine"}`},
	"DELETE /admin/v1/keys/{id}":            {"/admin/v1/keys/made", ""},
	"POST /admin/v1/keys/{id}/rotate":       {"/admin/v1/keys/made/rotate", `{"grace":"1h"}`},
	"PUT /admin/v1/overrides/{limit...}":    {"/admin/v1/overrides/team/search/monthly", `{"amount":7,"until":"2027-01-01T00:00:00Z","reason":"why"}`},
	"DELETE /admin/v1/overrides/{limit...}": {"/admin/v1/overrides/team/search/tpm", ""},
	"POST /admin/v1/credits":                {"/admin/v1/credits", `{"limit":"team/search/monthly","amount":7,"reason":"why"}`},
	"POST /admin/v1/limits/{limit...}":      {"/admin/v1/limits/team/search/monthly/reset", `{"reason":"why"}`},
	"GET /admin/v1/requests/{id}":           {"/admin/v1/requests/req_1", ""},
	"GET /admin/v1/teams/{team}":            {"/admin/v1/teams/search", ""},
	"POST /admin/v1/explain":                {"/admin/v1/explain", `{"key_id":"search-prod","path":"/v1/x","body":{}}`},
	"GET /dashboard/teams/{team}":           {"/dashboard/teams/search", ""},
	"POST /dashboard/explain":               {"/dashboard/explain", `{"key_id":"search-prod","path":"/v1/x","body":{}}`},
	"POST /admin/v1/blocks":                 {"/admin/v1/blocks", `{"scope":"team","value":"search"}`},
	"PUT /admin/v1/enforcement":             {"/admin/v1/enforcement", `{"mode":"shadow"}`},
	"DELETE /admin/v1/blocks/{id}":          {"/admin/v1/blocks/of-search", ""},
}

// least is the role that each endpoint needs, and whether an account that is bound
// to teams may have it. What is not here needs a viewer.
var least = map[string]struct {
	role  Role
	bound bool
}{
	"GET /metrics":                          {Viewer, false},
	"POST /admin/v1/keys":                   {Admin, true},
	"PATCH /admin/v1/keys/{id}":             {Admin, true},
	"DELETE /admin/v1/keys/{id}":            {Admin, true},
	"POST /admin/v1/keys/{id}/rotate":       {Admin, true},
	"PUT /admin/v1/overrides/{limit...}":    {Operator, true},
	"DELETE /admin/v1/overrides/{limit...}": {Operator, true},
	"POST /admin/v1/credits":                {Operator, true},
	"POST /admin/v1/limits/{limit...}":      {Operator, true},
	"POST /admin/v1/blocks":                 {Operator, true},
	"DELETE /admin/v1/blocks/{id}":          {Operator, true},
	"PUT /admin/v1/enforcement":             {Admin, false},
	"POST /admin/v1/reload":                 {Admin, false},
}

func TestEveryEndpointKeepsToTheRoleAndTheTeamsOfTheAccount(t *testing.T) {
	for _, route := range (&handler{config: newGateway().Config}).routes() {
		want, ok := least[route.pattern]
		if !ok {
			want.role, want.bound = Viewer, true
		}
		method, target, _ := strings.Cut(route.pattern, " ")
		sample, ok := bodies[route.pattern]
		if ok {
			target = sample.target
		}
		for _, who := range staff() {
			g := newGateway()
			g.Accounts = staff()
			g.madeChanges(t)
			refused := 0
			g.Forbidden = func(Account, *http.Request) { refused++ }
			if strings.HasSuffix(target, "of-search") {
				b, err := g.Blocks.Add(t.Context(), tenant.Block{Scope: tenant.BlockTeam, Value: "search"})
				if err != nil {
					t.Fatal(err)
				}
				target = "/admin/v1/blocks/" + b.ID
			}
			res, body := g.ask(t, method, target, sample.body, "Authorization", "Bearer "+who.Name)
			may := who.Role.covers(want.role) && (want.bound || !who.bound())
			if got := res.StatusCode != http.StatusForbidden; got != may {
				t.Errorf("%s by %s: status %d, want allowed %t: %s", route.pattern, who.Name, res.StatusCode, may, body)
			}
			if may && res.StatusCode >= 400 || !may && refused != 1 {
				t.Errorf("%s by %s: status %d, %d refusals noted: %s", route.pattern, who.Name, res.StatusCode, refused, body)
			}
			if strings.HasPrefix(target, "/admin/v1/blocks/") {
				target = "/admin/v1/blocks/of-search"
			}
		}
	}
}

// madeChanges makes the key and the override that the bodies change.
func (g *gateway) madeChanges(t *testing.T) {
	t.Helper()
	for _, e := range []changes.Entry{
		{Action: changes.KeyCreated, Target: "made", Key: &changes.Key{ID: "made", Team: "search"}},
		{Action: changes.KeyCreated, Target: "theirs", Key: &changes.Key{ID: "theirs", Team: "ads"}},
		{Action: changes.OverrideSet, Team: "ads", Override: &changes.Override{
			Limit: changes.Limit{Place: "team/search", Name: "tpm"}, Amount: 9, Until: clock.Add(time.Hour), Version: 1,
		}},
	} {
		if err := g.Changes.Note(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAnAccountSeesAndChangesItsTeamsAlone(t *testing.T) {
	g := newGateway()
	g.Accounts = staff()
	ask := func(method, target, body string) (int, string) {
		res, answer := g.ask(t, method, target, body, "Authorization", "Bearer admin-search")
		return res.StatusCode, answer
	}
	g.madeChanges(t)
	ofAds, err := g.Blocks.Add(t.Context(), tenant.Block{Scope: tenant.BlockTeam, Value: "ads"})
	if err != nil {
		t.Fatal(err)
	}
	for _, forbidden := range []struct{ method, target, body string }{
		{"GET", "/admin/v1/teams/ads", ""},
		{"GET", "/admin/v1/teams/nobody", ""},
		{"POST", "/admin/v1/explain", `{"key_id":"unknown","path":"/v1/x","body":{}}`},
		{"POST", "/admin/v1/blocks", `{"scope":"team","value":"ads"}`},
		{"POST", "/admin/v1/blocks", `{"scope":"key","value":"ads-prod","force":true}`},
		{"POST", "/admin/v1/blocks", `{"scope":"user","value":"alice"}`},
		{"POST", "/admin/v1/blocks", `{"scope":"ip","value":"192.0.2.1"}`},
		{"DELETE", "/admin/v1/blocks/" + ofAds.ID, ""},
		{"DELETE", "/admin/v1/blocks/none", ""},
		{"POST", "/admin/v1/keys", `{"team":"ads"}`},
		{"PATCH", "/admin/v1/keys/theirs", `{"note":"mine"}`},
		{"DELETE", "/admin/v1/keys/theirs", ""},
		{"DELETE", "/admin/v1/keys/none", ""},
		{"POST", "/admin/v1/keys/theirs/rotate", ""},
		{"PUT", "/admin/v1/overrides/team/ads/tpm", `{"amount":7,"until":"2027-01-01T00:00:00Z","reason":"why"}`},
		{"PUT", "/admin/v1/overrides/gateway/all-tpm", `{"amount":7,"until":"2027-01-01T00:00:00Z","reason":"why"}`},
		{"DELETE", "/admin/v1/overrides/team/none/tpm", ""},
		{"POST", "/admin/v1/credits", `{"limit":"team/ads/tpm","amount":7,"reason":"why"}`},
		{"POST", "/admin/v1/limits/team/ads/tpm/reset", `{"reason":"why"}`},
	} {
		if status, body := ask(forbidden.method, forbidden.target, forbidden.body); status != http.StatusForbidden {
			t.Errorf("%s %s %s: status %d: %s", forbidden.method, forbidden.target, forbidden.body, status, body)
		}
	}
	for _, target := range []string{"/admin/v1/teams", "/admin/v1/blocks", "/dashboard/live", "/admin/v1/keys", "/admin/v1/audit"} {
		if status, body := ask("GET", target, ""); status != http.StatusOK || strings.Contains(body, "ads") {
			t.Errorf("GET %s: status %d: %s", target, status, body)
		}
	}
}

func TestOverridesAndCreditsInForceAreListed(t *testing.T) {
	g := newGateway()
	g.Accounts = staff()
	for target, body := range map[string]string{
		"PUT /admin/v1/overrides/team/search/tpm": `{"amount":7,"until":"2027-01-01T00:00:00Z","reason":"why"}`,
		"PUT /admin/v1/overrides/team/ads/tpm":    `{"amount":8,"until":"2027-01-01T00:00:00Z","reason":"why"}`,
		"POST /admin/v1/credits":                  `{"limit":"team/search/monthly","amount":5000000,"reason":"why"}`,
	} {
		method, path, _ := strings.Cut(target, " ")
		if res, answer := g.ask(t, method, path, body, "Authorization", "Bearer admin"); res.StatusCode >= 300 {
			t.Fatalf("%s: status %d: %s", target, res.StatusCode, answer)
		}
	}
	for _, s := range []struct{ account, target, want string }{
		{"viewer", "/admin/v1/overrides", `"limit":"team/ads/tpm"`},
		{"viewer-search", "/admin/v1/overrides", `{"overrides":[{"limit":"team/search/tpm","team":"search","amount":7,"configured":100000,"until":"2027-01-01T00:00:00Z","reason":"why"}]}`},
		{"viewer-search", "/admin/v1/credits", `"limit":"team/search/monthly","amount":5,`},
	} {
		if res, answer := g.ask(t, "GET", s.target, "", "Authorization", "Bearer "+s.account); res.StatusCode != http.StatusOK || !strings.Contains(answer, s.want) {
			t.Errorf("%s by %s: status %d: %s", s.target, s.account, res.StatusCode, answer)
		}
	}
}

func TestABoundAccountsUsageIsOfItsTeams(t *testing.T) {
	for account, want := range map[string]int{"viewer": 1, "viewer-search": 1} {
		g := newGateway()
		g.Accounts = staff()
		_, body := g.ask(t, "GET", "/admin/v1/usage?group_by=model", "", "Authorization", "Bearer "+account)
		var answer struct {
			Rows []struct{ Team, Model string }
		}
		if err := json.Unmarshal([]byte(body), &answer); err != nil || len(answer.Rows) != want {
			t.Errorf("%s: %s (%v)", account, body, err)
		}
		if account == "viewer-search" && answer.Rows[0].Team != "" {
			t.Errorf("%s: grouped by a team that was not asked for: %s", account, body)
		}
	}
	g := newGateway()
	g.Accounts = []Account{{Name: "ads", SHA256: sha256.Sum256([]byte("ads")), Role: Viewer, Teams: []string{"ads"}}}
	if _, body := g.ask(t, "GET", "/admin/v1/usage", "", "Authorization", "Bearer ads"); !strings.Contains(body, `"rows":[]`) {
		t.Errorf("the usage of another team: %s", body)
	}
}

func TestAPassIsItsAccounts(t *testing.T) {
	g := newGateway()
	g.Accounts = staff()
	g.PassKey = []byte("a key")
	res, _ := g.ask(t, "POST", "/dashboard/login", "token=viewer-search", "Content-Type", "application/x-www-form-urlencoded")
	cookie := res.Cookies()[0]
	pass := cookie.Name + "=" + cookie.Value
	if res, body := g.ask(t, "GET", "/dashboard/live", "", "Cookie", pass); res.StatusCode != http.StatusOK || strings.Contains(body, "ads") {
		t.Errorf("status %d: %s", res.StatusCode, body)
	}
	g.PassKey = []byte("another key")
	if res, _ := g.ask(t, "GET", "/dashboard/live", "", "Cookie", pass); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("a pass that another key signed: status %d", res.StatusCode)
	}
}
