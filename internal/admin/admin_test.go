package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"llmgw/internal/books"
	"llmgw/internal/budget"
	"llmgw/internal/changes"
	"llmgw/internal/fault"
	"llmgw/internal/shared"
	"llmgw/internal/tenant"
)

var clock = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// gateway is what the admin plane of a test shows.
type gateway struct {
	Config
	mode      string
	status    string
	ready     bool
	reloadErr error
	readErr   error
	reads     int
	states    map[string]budget.LineState // by By
	usage     books.Query
	find      books.Find
	events    books.FindEvents
	explained Question
}

// Mode and SetMode make a gateway its own switch.
func (g *gateway) Mode(context.Context) (string, error) { return g.mode, g.readErr }

func (g *gateway) SetMode(_ context.Context, mode string) error {
	g.mode = mode
	return g.readErr
}

func limit(scope budget.Scope, owner, name string, unit budget.Unit, amount int64, per budget.Period) *budget.Limit {
	place := string(scope)
	if owner != "" {
		place += "/" + owner
	}
	l := &budget.Limit{Place: place, Scope: scope, Owner: owner, Name: name, Unit: unit, Amount: amount, Burst: amount, Period: per, Algorithm: budget.TokenBucket, Mode: budget.Enforce, Location: time.UTC, ResetDay: 1}
	switch {
	case unit == budget.Concurrency:
		l.Algorithm = budget.Slots
	case per.Calendar():
		l.Algorithm = budget.CalendarUsage
	}
	return l
}

// Usage implements Books.
func (g *gateway) Usage(_ context.Context, q books.Query) ([]books.Row, error) {
	g.usage = q
	if teams, bound := q.Where["team"]; bound && !slices.Contains(teams, "search") {
		return nil, g.readErr
	}
	for _, name := range q.GroupBy {
		if name == "moon" {
			return nil, books.BadQuery("moon is no group")
		}
	}
	groups := make([]string, len(q.GroupBy))
	for i, name := range q.GroupBy {
		groups[i] = map[string]string{"team": "search", "model": "gpt-4o", "user": "=1+1"}[name]
	}
	return []books.Row{{Time: q.From.In(q.Zone), Groups: groups, Sums: books.Sums{Requests: 2, Input: 30, USD: 1_250_000}}}, g.readErr
}

// Requests implements Books.
func (g *gateway) Requests(_ context.Context, f books.Find) ([]books.Record, string, error) {
	g.find = f
	return []books.Record{{ID: "req_1", Time: clock, Team: "search", USD: 1_250_000, Tries: []books.Try{{}}}}, "next", g.readErr
}

// Request implements Books.
func (g *gateway) Request(_ context.Context, id string, teams []string) (books.Record, error) {
	if id != "req_1" || teams != nil && !slices.Contains(teams, "search") {
		return books.Record{}, books.ErrNoRecord
	}
	return books.Record{ID: id, Time: clock, Team: "search"}, g.readErr
}

// Events implements Books.
func (g *gateway) Events(_ context.Context, f books.FindEvents) ([]books.Event, string, error) {
	g.events = f
	return []books.Event{{ID: "e", Time: clock, Kind: "refusal", Team: "search", Subject: "team/search/tpm", Count: 2}}, "", g.readErr
}

// Series implements Books.
func (g *gateway) Series(context.Context) (books.Series, error) {
	return books.Series{Start: clock, Teams: []books.TeamSeries{{Team: "search", Tokens: []int64{1}}}}, g.readErr
}

func newGateway() *gateway {
	g := &gateway{mode: "enforce", status: "ok", ready: true, states: map[string]budget.LineState{
		"team/search/tpm":            {Remaining: -512, Capacity: 100_000, Open: 3120, Reset: 1500*time.Millisecond + 1},
		"team/search/monthly":        {Remaining: 123_450_000, Capacity: 500_000_000, Open: 20_000},
		"team/search/slots":          {Remaining: 18, Capacity: 20, Open: 2},
		"key/search-prod/key-tpm":    {Remaining: 40_000, Capacity: 40_000},
		"gateway/all-tpm":            {Remaining: 2_000_000, Capacity: 2_000_000},
		"model/gpt-4o/gpt-4o-all":    {Remaining: 5, Capacity: 500_000},
		"model/secret/secret-all":    {Remaining: 6, Capacity: 7},
		"team/ads/tpm":               {Remaining: 1, Capacity: 10},
		"user/user-tpm":              {Remaining: -1},
		"model/search/each-has-some": {Remaining: -1},
	}}
	perUser := limit(budget.User, "search", "user-tpm", budget.Tokens, 5000, budget.Minute)
	perUser.Place = "team/search"
	teams := []tenant.Team{
		{Name: "search", Models: map[string]bool{"gpt-4o": true, "mini": true}, Limits: []*budget.Limit{
			limit(budget.Team, "search", "tpm", budget.Tokens, 100_000, budget.Minute),
			limit(budget.Team, "search", "monthly", budget.USD, 500_000_000, budget.Month),
			limit(budget.Team, "search", "slots", budget.Concurrency, 20, ""),
			perUser,
		}, Keys: []tenant.Key{{ID: "search-prod", Limits: []*budget.Limit{limit(budget.Key, "search-prod", "key-tpm", budget.Tokens, 40_000, budget.Minute)}}}},
		{Name: "ads", Limits: []*budget.Limit{limit(budget.Team, "ads", "tpm", budget.Tokens, 10, budget.Minute)}},
	}
	perIP := limit(budget.IP, "", "ip-rpm", budget.Requests, 600, budget.Minute)
	perIP.Place = "gateway"
	common := []*budget.Limit{
		limit(budget.Gateway, "", "all-tpm", budget.Tokens, 2_000_000, budget.Minute), perIP,
		limit(budget.Model, "gpt-4o", "gpt-4o-all", budget.Tokens, 500_000, budget.Minute),
		limit(budget.Model, "secret", "secret-all", budget.Tokens, 7, budget.Minute),
	}
	g.Config = Config{
		Now:    func() time.Time { return clock },
		Teams:  func() []tenant.Team { return teams },
		Common: func() []*budget.Limit { return common },
		Read: func(_ context.Context, lines []budget.Line) ([]budget.LineState, time.Time, error) {
			g.reads++
			states := make([]budget.LineState, 0, len(lines))
			for _, l := range lines {
				states = append(states, g.states[l.Limit.By()])
			}
			return states, clock, g.readErr
		},
		Books:       g,
		Blocks:      tenant.NewBlocks(nil, func() time.Time { return clock }),
		Enforcement: g,
		Reload:      func(context.Context) error { return g.reloadErr },
		Explain: func(_ context.Context, q Question) (any, error) {
			g.explained = q
			switch q.KeyID {
			case "unknown":
				return nil, ErrNotFound
			case "malformed":
				return nil, fault.Invalid("messages", "messages is missing.")
			}
			return map[string]any{"input_tokens": 12}, g.readErr
		},
		Changes:  changes.New(new(shared.MemoryList), func() time.Time { return clock }, nil),
		CheckKey: func(changes.Key) error { return nil },
		Amount:   func(_ budget.Unit, text string) (int64, error) { return strconv.ParseInt(text, 10, 64) },
		Reset:    func(context.Context, budget.Line) error { return g.readErr },
		LastUsed: func(context.Context) (map[string]time.Time, error) { return nil, nil },
		Ready:    func() (string, bool) { return g.status, g.ready },
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "llmgw_store_up 1\n")
		}),
		Live: func() Live { return Live{Instance: "gw1", Inflight: 3, Open: 2} },
	}
	return g
}

// ask sends one request to g and returns the answer with its body.
func (g *gateway) ask(t *testing.T, method, target, body string, header ...string) (*http.Response, string) {
	t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Host = "127.0.0.1:9090"
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	New(g.Config).ServeHTTP(w, r)
	return w.Result(), w.Body.String()
}

// wantJSON checks that got is JSON equal to want.
func wantJSON(t *testing.T, got, want string) {
	t.Helper()
	var a, b any
	if err := json.Unmarshal([]byte(got), &a); err != nil {
		t.Fatalf("%q: %v", got, err)
	}
	if err := json.Unmarshal([]byte(want), &b); err != nil {
		t.Fatalf("%q: %v", want, err)
	}
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	if string(x) != string(y) {
		t.Errorf("got  %s\nwant %s", x, y)
	}
}

func TestHealthNeedsNoTokenAndReadinessSaysTheState(t *testing.T) {
	g := newGateway()
	g.Accounts = owner("s3cret")
	for _, c := range []struct {
		path, status string
		ready        bool
		code         int
		want         string
	}{
		{"/healthz", "starting", false, 200, `{"status":"ok"}`},
		{"/readyz", "starting", false, 503, `{"status":"starting"}`},
		{"/readyz", "ok", true, 200, `{"status":"ok"}`},
		{"/readyz", "degraded", true, 200, `{"status":"degraded"}`},
		{"/readyz", "draining", false, 503, `{"status":"draining"}`},
	} {
		g.status, g.ready = c.status, c.ready
		res, body := g.ask(t, "GET", c.path, "")
		if res.StatusCode != c.code {
			t.Errorf("%s while %s: status %d, want %d", c.path, c.status, res.StatusCode, c.code)
		}
		wantJSON(t, body, c.want)
	}
}

func TestATeamsLimitsAreReadFromTheStoreNow(t *testing.T) {
	g := newGateway()
	res, body := g.ask(t, "GET", "/admin/v1/teams/search", "")
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("status %d, %v", res.StatusCode, res.Header)
	}
	wantJSON(t, body, `{"name":"search","models":["gpt-4o","mini"],"keys":["search-prod"],"at":"2026-11-29T12:00:00Z","limits":[
		{"scope":"team","owner":"search","name":"tpm","unit":"tokens","amount":100000,"configured":100000,"per":"minute","capacity":100000,"remaining":-512,"open":3120,"reset_ms":1501,"mode":"enforce","limited_by":"team/search/tpm"},
		{"scope":"team","owner":"search","name":"monthly","unit":"usd","amount":500,"configured":500,"per":"month","capacity":500,"remaining":123.45,"open":0.02,"reset_ms":0,"mode":"enforce","limited_by":"team/search/monthly"},
		{"scope":"team","owner":"search","name":"slots","unit":"concurrency","amount":20,"configured":20,"per":null,"capacity":20,"remaining":18,"open":2,"reset_ms":0,"mode":"enforce","limited_by":"team/search/slots"},
		{"scope":"key","owner":"search-prod","name":"key-tpm","unit":"tokens","amount":40000,"configured":40000,"per":"minute","capacity":40000,"remaining":40000,"open":0,"reset_ms":0,"mode":"enforce","limited_by":"key/search-prod/key-tpm"},
		{"scope":"gateway","owner":"","name":"all-tpm","unit":"tokens","amount":2000000,"configured":2000000,"per":"minute","capacity":2000000,"remaining":2000000,"open":0,"reset_ms":0,"mode":"enforce","limited_by":"gateway/all-tpm"},
		{"scope":"model","owner":"gpt-4o","name":"gpt-4o-all","unit":"tokens","amount":500000,"configured":500000,"per":"minute","capacity":500000,"remaining":5,"open":0,"reset_ms":0,"mode":"enforce","limited_by":"model/gpt-4o/gpt-4o-all"},
		{"scope":"user","owner":"search","name":"user-tpm","unit":"tokens","amount":5000,"configured":5000,"per":"minute","capacity":5000,"remaining":null,"open":null,"reset_ms":null,"mode":"enforce","limited_by":"user/user-tpm"},
		{"scope":"ip","owner":"","name":"ip-rpm","unit":"requests","amount":600,"configured":600,"per":"minute","capacity":600,"remaining":null,"open":null,"reset_ms":null,"mode":"enforce","limited_by":"ip/ip-rpm"}]}`)

	if res, _ := g.ask(t, "GET", "/admin/v1/teams/nobody", ""); res.StatusCode != http.StatusNotFound {
		t.Errorf("an unknown team: status %d, want 404", res.StatusCode)
	}
	_, body = g.ask(t, "GET", "/admin/v1/teams", "")
	var list struct {
		Teams []teamBody `json:"teams"`
		At    string     `json:"at"`
	}
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Teams) != 2 || list.At != "2026-11-29T12:00:00Z" || len(list.Teams[0].Limits) != 5 || list.Teams[0].Limits[0].Remaining != -512.0 || list.Teams[1].Limits[0].Remaining != 1.0 {
		t.Errorf("got %s, want each team's own limits with what is left", body)
	}
}

func TestAStoreThatIsAwayIs503(t *testing.T) {
	g := newGateway()
	g.readErr = errors.New("i/o timeout")
	for _, path := range []string{"/admin/v1/teams/search", "/admin/v1/usage", "/admin/v1/enforcement"} {
		res, body := g.ask(t, "GET", path, "")
		if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" || !strings.Contains(body, "i/o timeout") {
			t.Errorf("%s: status %d, %s", path, res.StatusCode, body)
		}
	}
	res, body := g.ask(t, "GET", "/dashboard/live", "")
	if res.StatusCode != http.StatusOK || strings.Count(body, "i/o timeout") != 3 {
		t.Errorf("live: status %d, want what there is and three problems: %s", res.StatusCode, body)
	}
}

func TestUsageIsAskedForAsTheQuerySays(t *testing.T) {
	g := newGateway()
	for _, c := range []struct {
		query, from, to, groupBy string
	}{
		{"", "2026-11-28T12:00:00Z", "2026-11-29T12:00:00Z", "team,model"},
		{"?from=2026-11-01T00:00:00Z&to=2026-11-02T00:00:00Z&group_by=team,model", "2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z", "team,model"},
		{"?from=2026-11-01T00:00:00%2B02:00&group_by=model", "2026-10-31T22:00:00Z", "2026-11-29T12:00:00Z", "model"},
		{"?from=2026-11-01T00:00:00+02:00&group_by=", "2026-10-31T22:00:00Z", "2026-11-29T12:00:00Z", ""},
		{"?to=2026-11-02T00:00:00.5Z&group_by=team,team", "2026-11-01T00:00:00.5Z", "2026-11-02T00:00:00.5Z", "team"},
		{"?to=2026-11-02T00:00:00Z&group_by=model&group_by=team", "2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z", "model,team"},
	} {
		res, body := g.ask(t, "GET", "/admin/v1/usage"+c.query, "")
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d: %s", c.query, res.StatusCode, body)
			continue
		}
		if got := g.usage.From.UTC().Format(time.RFC3339Nano); got != c.from {
			t.Errorf("%s: from %s, want %s", c.query, got, c.from)
		}
		if got := g.usage.To.UTC().Format(time.RFC3339Nano); got != c.to {
			t.Errorf("%s: to %s, want %s", c.query, got, c.to)
		}
		if got := strings.Join(g.usage.GroupBy, ","); got != c.groupBy {
			t.Errorf("%s: group by %s, want %s", c.query, got, c.groupBy)
		}
		if !strings.Contains(body, `"model":"`) || !strings.Contains(body, `"requests":2,"refused":0,"input_tokens":30,`) || !strings.Contains(body, `"usd":1.25}`) {
			t.Errorf("%s: %s", c.query, body)
		}
	}
	for _, bad := range []string{"?from=yesterday", "?to=1", "?group_by=moon", "?from=%zz", "?group=team", "?from=2026-11-02T00:00:00Z&to=2026-11-01T00:00:00Z"} {
		if res, body := g.ask(t, "GET", "/admin/v1/usage"+bad, ""); res.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: status %d: %s", bad, res.StatusCode, body)
		}
	}
}

func TestABlockIsMadeListedAndRemoved(t *testing.T) {
	g := newGateway()
	res, body := g.ask(t, "POST", "/admin/v1/blocks", `{"scope":"team","value":"search","reason":"runaway job","ttl":"15m"}`)
	var made struct{ ID string }
	if err := json.Unmarshal([]byte(body), &made); err != nil || res.StatusCode != http.StatusCreated || made.ID == "" {
		t.Fatalf("status %d: %s", res.StatusCode, body)
	}
	if got := res.Header.Get("Location"); got != "/admin/v1/blocks/"+made.ID {
		t.Errorf("it is at %q", got)
	}
	_, body = g.ask(t, "GET", "/admin/v1/blocks", "")
	wantJSON(t, body, `{"blocks":[{"id":"`+made.ID+`","scope":"team","value":"search","reason":"runaway job","expires_at":"2026-11-29T12:15:00Z"}]}`)
	if res, body := g.ask(t, "DELETE", "/admin/v1/blocks/"+made.ID, ""); res.StatusCode != http.StatusNoContent || body != "" {
		t.Errorf("delete: status %d, %q", res.StatusCode, body)
	}
	if res, _ := g.ask(t, "DELETE", "/admin/v1/blocks/"+made.ID, ""); res.StatusCode != http.StatusNotFound {
		t.Errorf("delete again: status %d, want 404", res.StatusCode)
	}
	_, body = g.ask(t, "GET", "/admin/v1/blocks", "")
	wantJSON(t, body, `{"blocks":[]}`)
	for _, bad := range []string{``, `[]`, `{"scope":"moon","value":"x"}`, `{"scope":"team"}`, `{"scope":"ip","value":"x"}`,
		`{"scope":"team","value":"x","ttl":"-1m"}`, `{"scope":"team","value":"x","expires_at":"2020-01-01T00:00:00Z"}`} {
		if res, body := g.ask(t, "POST", "/admin/v1/blocks", bad); res.StatusCode != http.StatusBadRequest || !strings.Contains(body, `"message":`) {
			t.Errorf("%s: status %d: %s", bad, res.StatusCode, body)
		}
	}
	if res, _ := g.ask(t, "POST", "/admin/v1/blocks", strings.Repeat(" ", maxBody+1)); res.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a body without end: status %d, want 413", res.StatusCode)
	}
}

func TestABlockOfANameThatIsNotConfiguredIsRefused(t *testing.T) {
	for _, c := range []struct {
		body   string
		status int
		says   string
	}{
		{`{"scope":"team","value":"serach"}`, 404, `Did you mean \"search\"?`},
		{`{"scope":"team","value":"Search"}`, 404, `Did you mean \"search\"?`},
		{`{"scope":"team","value":"search-prod"}`, 404, `There is no team \"search-prod\".`},
		{`{"scope":"key","value":"search"}`, 404, `There is no key \"search\".`},
		{`{"scope":"key","value":"leaked-long-ago","force":false}`, 404, `\"force\": true`},
		{`{"scope":"key","value":"leaked-long-ago","force":true}`, 201, ""},
		{`{"scope":"team","value":"soon","force":true}`, 201, ""},
		{`{"scope":"key","value":"search-prod"}`, 201, ""},
		{`{"scope":"user","value":"nobody yet"}`, 201, ""},
		{`{"scope":"ip","value":"203.0.113.0/24"}`, 201, ""},
		{`{"scope":"ip","value":"203.0.113","force":true}`, 400, "value is not an address"},
		{`{"scope":"team","value":"","force":true}`, 400, "value is empty"},
	} {
		g := newGateway()
		res, body := g.ask(t, "POST", "/admin/v1/blocks", c.body)
		if res.StatusCode != c.status || !strings.Contains(body, c.says) {
			t.Errorf("%s: status %d, want %d with %s: %s", c.body, res.StatusCode, c.status, c.says, body)
		}
		if made := len(g.Blocks.List()); (made == 1) != (c.status == 201) {
			t.Errorf("%s: %d blocks are in force", c.body, made)
		}
	}
}

func TestTheMainSwitchIsSeenAndMoved(t *testing.T) {
	g := newGateway()
	res, body := g.ask(t, "PUT", "/admin/v1/enforcement", `{"mode":"shadow"}`)
	if res.StatusCode != http.StatusOK || g.mode != "shadow" {
		t.Errorf("status %d, mode %s: %s", res.StatusCode, g.mode, body)
	}
	_, body = g.ask(t, "GET", "/admin/v1/enforcement", "")
	wantJSON(t, body, `{"mode":"shadow"}`)
	for _, bad := range []string{``, `{}`, `{"mode":"maybe"}`, `{"mode":"off","x":1}`, `{"mode":"off"} {}`, `{"mode":1}`} {
		if res, body := g.ask(t, "PUT", "/admin/v1/enforcement", bad); res.StatusCode != http.StatusBadRequest || g.mode != "shadow" {
			t.Errorf("%s: status %d, mode %s: %s", bad, res.StatusCode, g.mode, body)
		}
	}
}

func TestAReloadSaysEverythingThatIsWrong(t *testing.T) {
	g := newGateway()
	if res, body := g.ask(t, "POST", "/admin/v1/reload", ""); res.StatusCode != http.StatusOK {
		t.Errorf("status %d: %s", res.StatusCode, body)
	}
	g.reloadErr = errors.Join(errors.New("gw.yaml:3:5: unknown key"), errors.Join(errors.New("gw.yaml:9:1: amount is negative")))
	res, body := g.ask(t, "POST", "/admin/v1/reload", "")
	if res.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("status %d, want 422", res.StatusCode)
	}
	wantJSON(t, body, `{"error":{"code":"invalid_configuration","message":"The configuration was refused; the old one stays in force."},
		"errors":["gw.yaml:3:5: unknown key","gw.yaml:9:1: amount is negative"]}`)
}

func TestExplainTakesAnObjectOrAString(t *testing.T) {
	g := newGateway()
	for _, c := range []struct{ body, want string }{
		{`{"key_id":"k","path":"/v1/chat/completions","body":{"model":"m", "a":[1]}}`, `{"model":"m", "a":[1]}`},
		{`{"key_id":"k","path":"/v1/chat/completions","body":"{\"model\":\"m\"}"}`, `{"model":"m"}`},
		{`{"key_id":"k","path":"/v1/chat/completions","body":"not json"}`, `not json`},
	} {
		res, body := g.ask(t, "POST", "/admin/v1/explain", c.body)
		if res.StatusCode != http.StatusOK || string(g.explained.Body) != c.want || g.explained.KeyID != "k" || g.explained.Path != "/v1/chat/completions" {
			t.Errorf("%s: status %d, explained %+v", c.body, res.StatusCode, g.explained)
		}
		wantJSON(t, body, `{"input_tokens":12}`)
	}
	g.ask(t, "POST", "/admin/v1/explain", `{"key_id":"k","path":"/p","user":"u-1","ip":"2001:db8::1","body":{}}`)
	if q := g.explained; q.User != "u-1" || q.IP != netip.MustParseAddr("2001:db8::1") {
		t.Errorf("got user %q at %v, want what was asked for", q.User, q.IP)
	}
	for body, want := range map[string]int{
		`{"key_id":"k","path":"/p","ip":"here","body":{}}`: 400,
		`{"key_id":"unknown","path":"/p","body":{}}`:       404,
		`{"key_id":"malformed","path":"/p","body":{}}`:     400,
		`{"key_id":"k","path":"/p"}`:                       400,
		`{"path":"/p","body":{}}`:                          400,
		`{`:                                                400,
	} {
		if res, got := g.ask(t, "POST", "/admin/v1/explain", body); res.StatusCode != want {
			t.Errorf("%s: status %d, want %d: %s", body, res.StatusCode, want, got)
		}
	}
	g.readErr = errors.New("i/o timeout")
	if res, _ := g.ask(t, "POST", "/admin/v1/explain", `{"key_id":"k","path":"/p","body":{}}`); res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("without the store: status %d, want 503", res.StatusCode)
	}
}

func TestWrongMethodsAndPathsAreJSONErrors(t *testing.T) {
	g := newGateway()
	for _, c := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"POST", "/admin/v1/teams", 405, "GET, HEAD"},
		{"DELETE", "/admin/v1/blocks", 405, "GET, HEAD, POST"},
		{"POST", "/admin/v1/enforcement", 405, "GET, HEAD, PUT"},
		{"GET", "/admin/v1/reload", 405, "POST"},
		{"GET", "/dashboard/login", 405, "POST"},
		{"PUT", "/healthz", 405, "GET, HEAD"},
		{"GET", "/admin/v1/nothing", 404, ""},
		{"GET", "/v1/chat/completions", 404, ""},
		{"HEAD", "/healthz", 200, ""},
		{"GET", "/", 303, ""},
	} {
		res, body := g.ask(t, c.method, c.path, "")
		if res.StatusCode != c.status || res.Header.Get("Allow") != c.allow {
			t.Errorf("%s %s: status %d, Allow %q, want %d, %q", c.method, c.path, res.StatusCode, res.Header.Get("Allow"), c.status, c.allow)
		}
		if c.status >= 400 && !json.Valid([]byte(body)) {
			t.Errorf("%s %s: %q is not JSON", c.method, c.path, body)
		}
	}
}

func TestWhatTheGatewayDoesNotHaveIs501(t *testing.T) {
	g := &gateway{}
	for _, target := range []string{"GET /readyz", "GET /metrics", "GET /admin/v1/teams", "GET /admin/v1/teams/x", "POST /admin/v1/explain",
		"GET /admin/v1/usage", "GET /admin/v1/blocks", "POST /admin/v1/blocks", "DELETE /admin/v1/blocks/x", "GET /admin/v1/enforcement",
		"PUT /admin/v1/enforcement", "POST /admin/v1/reload"} {
		method, path, _ := strings.Cut(target, " ")
		if res, _ := g.ask(t, method, path, "{}"); res.StatusCode != http.StatusNotImplemented {
			t.Errorf("%s: status %d, want 501", target, res.StatusCode)
		}
	}
	if res, body := g.ask(t, "GET", "/dashboard/live", ""); res.StatusCode != http.StatusOK || !strings.Contains(body, `"budgets":[]`) {
		t.Errorf("live: status %d: %s", res.StatusCode, body)
	}
}

func TestManyPagesShareOneReading(t *testing.T) {
	g := newGateway()
	now := clock
	g.Now = func() time.Time { return now }
	h := New(g.Config)
	for _, s := range []struct {
		after time.Duration
		reads int
	}{{0, 1}, {0, 1}, {500 * time.Millisecond, 1}, {500 * time.Millisecond, 2}} {
		now = now.Add(s.after)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/dashboard/live", nil))
		if w.Code != 200 || g.reads != s.reads {
			t.Errorf("after %v: status %d, %d reads, want %d", s.after, w.Code, g.reads, s.reads)
		}
		if !strings.Contains(w.Body.String(), `"remaining":-512`) || !strings.Contains(w.Body.String(), `"instance":"gw1"`) {
			t.Errorf("live: %s", w.Body)
		}
	}
}
