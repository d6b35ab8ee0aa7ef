package gatewaytest

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

// Team is what the admin plane tells of a team.
type Team struct {
	Name   string  `json:"name"`
	Limits []Limit `json:"limits"`
}

// Limit is a limit and its balance, as the store has them now.
type Limit struct {
	Scope     string  `json:"scope"`
	Owner     string  `json:"owner"`
	Name      string  `json:"name"`
	Unit      string  `json:"unit"`
	Amount    float64 `json:"amount"`
	Per       string  `json:"per"`
	Capacity  float64 `json:"capacity"`
	Remaining float64 `json:"remaining"`
	Open      float64 `json:"open"`
	ResetMS   float64 `json:"reset_ms"`
}

// Team reads a team's limits and balances.
func (g *Gateway) Team(name string) Team {
	g.t.Helper()
	var team Team
	g.get("/admin/v1/teams/"+name, &team)
	return team
}

// Limit reads one of a team's limits by its name. The test fails if there is
// none.
func (g *Gateway) Limit(team, name string) Limit {
	g.t.Helper()
	all := g.Team(team).Limits
	for _, l := range all {
		if l.Name == name {
			return l
		}
	}
	g.t.Fatalf("team %s has no limit %s: %+v", team, name, all)
	return Limit{}
}

// get reads a JSON document of the admin plane.
func (g *Gateway) get(path string, into any) {
	g.t.Helper()
	a := g.Admin(http.MethodGet, path, "")
	if a.Status != http.StatusOK {
		g.t.Fatalf("GET %s: %d %s", path, a.Status, a.Body)
	}
	if err := json.Unmarshal([]byte(a.Body), into); err != nil {
		g.t.Fatalf("GET %s: %v in %s", path, err, a.Body)
	}
}

// Admin sends a request to the admin plane, and reads the whole answer.
func (g *Gateway) Admin(method, path, body string, headers ...string) Answer {
	g.t.Helper()
	r, err := http.NewRequest(method, g.AdminURL+path, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := client.Do(r)
	if err != nil {
		g.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = resp.Body.Close() }() // read to its end
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		g.t.Fatalf("%s %s: %v", method, path, err)
	}
	return Answer{Status: resp.StatusCode, Header: resp.Header, Body: string(b)}
}
