package admin

import (
	"crypto/sha256"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

func TestUsageIsAskedForByPeriodZoneAndFilter(t *testing.T) {
	g := newGateway()
	_, body := g.ask(t, "GET", "/admin/v1/usage?from=2026-11-01T00:00:00Z&per=day&timezone=Europe/Athens&group_by=key,team&team=search&team=ads&user=u&tag:env=prod", "")
	if want := map[string][]string{"team": {"search", "ads"}, "user": {"u"}, "tag:env": {"prod"}}; !reflect.DeepEqual(g.usage.Where, want) {
		t.Errorf("where: got %v, want %v", g.usage.Where, want)
	}
	if g.usage.Per != "day" || g.usage.Zone.String() != "Europe/Athens" {
		t.Errorf("got %+v", g.usage)
	}
	if !strings.Contains(body, `"rows":[{"time":"2026-11-01T02:00:00+02:00","team":"search","model":"","key":"","requests":2,`) {
		t.Errorf("got %s", body)
	}
	for _, bad := range []string{"?timezone=Mars/Phobos", "?timezone=Local", "?format=xml", "?tag:=x", "?colour=red"} {
		if res, body := g.ask(t, "GET", "/admin/v1/usage"+bad, ""); res.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: status %d: %s", bad, res.StatusCode, body)
		}
	}
}

func TestACSVHasTheNamesOfTheJSONAndNoFormula(t *testing.T) {
	res, body := newGateway().ask(t, "GET", "/admin/v1/usage?format=csv&group_by=team,model,user", "")
	want := "team,model,user,requests,refused,input_tokens,cached_input_tokens,cache_write_tokens,output_tokens,reasoning_tokens,charged,usd\n" +
		"search,gpt-4o,'=1+1,2,0,30,0,0,0,0,0,1.25\n"
	if body != want || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/csv") {
		t.Errorf("got  %s\nwant %s", body, want)
	}
	for text, want := range map[string]string{"": "", "a": "a", "=1": "'=1", "+1": "'+1", "-1": "'-1", "@x": "'@x", "\tx": "'\tx", "\r=x": "'\r=x"} {
		if got := harmless(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestUsageSaysWhereItIsPartial(t *testing.T) {
	g := newGateway()
	g.Partial = func() bool { return true }
	if _, body := g.ask(t, "GET", "/admin/v1/usage", ""); !strings.Contains(body, `"partial":true`) {
		t.Errorf("got %s", body)
	}
}

func TestRequestsAreListedAndOneIsShownWhole(t *testing.T) {
	g := newGateway()
	_, body := g.ask(t, "GET", "/admin/v1/requests?key=k&user=u&session=s&model=m&outcome=refused&code=c&team=search&limit=7&cursor=x", "")
	if !strings.Contains(body, `"requests":[{"id":"req_1","time":"2026-11-29T12:00:00Z","team":"search",`) || !strings.Contains(body, `"next_cursor":"next"`) ||
		!strings.Contains(body, `"tags":{}`) || !strings.Contains(body, `"usd":1.25`) || strings.Contains(body, "tries") {
		t.Errorf("got %s", body)
	}
	if f := g.find; f.Key != "k" || f.User != "u" || f.Session != "s" || f.Model != "m" || f.Outcome != "refused" || f.Code != "c" || f.Limit != 7 || f.Cursor != "x" {
		t.Errorf("asked for %+v", f)
	}
	if _, body := g.ask(t, "GET", "/admin/v1/requests/req_1", ""); !strings.Contains(body, `"id":"req_1"`) || !strings.Contains(body, `"tries":[],"limits":[]}`) {
		t.Errorf("got %s", body)
	}
	if res, _ := g.ask(t, "GET", "/admin/v1/requests/req_2", ""); res.StatusCode != http.StatusNotFound {
		t.Errorf("an unknown request: status %d, want 404", res.StatusCode)
	}
	for _, bad := range []string{"?limit=0", "?limit=1001", "?limit=x", "?from=x", "?moon=1", "?from=2026-11-02T00:00:00Z&to=2026-11-01T00:00:00Z"} {
		if res, body := g.ask(t, "GET", "/admin/v1/requests"+bad, ""); res.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: status %d: %s", bad, res.StatusCode, body)
		}
	}
}

func TestABoundAccountSeesTheRecordsOfItsTeamsAlone(t *testing.T) {
	g := newGateway()
	g.Accounts = []Account{{Name: "ads", SHA256: sha256.Sum256([]byte("ads")), Role: Viewer, Teams: []string{"ads"}}}
	for _, query := range []string{"", "?team=search", "?team=search&team=ads"} {
		g.ask(t, "GET", "/admin/v1/requests"+query, "", "Authorization", "Bearer ads")
		if g.find.Teams == nil || strings.Contains(strings.Join(g.find.Teams, ","), "search") {
			t.Errorf("%s: asked for the teams %v", query, g.find.Teams)
		}
	}
	if res, _ := g.ask(t, "GET", "/admin/v1/requests/req_1", "", "Authorization", "Bearer ads"); res.StatusCode != http.StatusNotFound {
		t.Errorf("a record of another team: status %d, want 404", res.StatusCode)
	}
}

func TestEventsAreListedWithinTheTeamsOfTheAccount(t *testing.T) {
	g := newGateway()
	_, body := g.ask(t, "GET", "/admin/v1/events?kind=refusal&subject=team/search/tpm&limit=3", "")
	wantJSON(t, body, `{"events":[{"id":"e","time":"2026-11-29T12:00:00Z","kind":"refusal","team":"search","subject":"team/search/tpm","actor":"","count":2,"detail":""}]}`)
	if g.events.Kind != "refusal" || g.events.Subject != "team/search/tpm" || g.events.Limit != 3 || g.events.Teams != nil {
		t.Errorf("asked for %+v", g.events)
	}
	g.Accounts = []Account{{Name: "ads", SHA256: sha256.Sum256([]byte("ads")), Role: Viewer, Teams: []string{"ads"}}}
	g.ask(t, "GET", "/admin/v1/events?team=search", "", "Authorization", "Bearer ads")
	if g.events.Teams == nil || len(g.events.Teams) != 0 {
		t.Errorf("of another team: asked for %v, want no team", g.events.Teams)
	}
	if res, _ := g.ask(t, "GET", "/admin/v1/events?limit=0", "", "Authorization", "Bearer ads"); res.StatusCode != http.StatusBadRequest {
		t.Errorf("a page of nothing: status %d, want 400", res.StatusCode)
	}
}
