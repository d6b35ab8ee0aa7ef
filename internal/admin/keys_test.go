package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"llmgw/internal/changes"
)

func TestAChangeOfAKeyLeavesWhatItDoesNotName(t *testing.T) {
	g := newGateway()
	for _, s := range []struct{ body, has string }{
		{`{"models":["gpt-4o"],"limits":[{"name":"x"}],"priority":"batch","note":"mine","expires_at":"2027-01-01T00:00:00Z"}`, `"priority":"batch","expires_at":"2027-01-01T00:00:00Z","note":"mine"`},
		{`{"note":"yours"}`, `"models":["gpt-4o"],"limits":[{"name":"x"}],"priority":"batch","expires_at":"2027-01-01T00:00:00Z","note":"yours"`},
		{`{"models":[]}`, `"models":[]`},
		{`{"models":null,"limits":null,"priority":"","expires_at":null}`, `"models":null,"expires_at":null,"note":"yours"`},
	} {
		if s.body == `{"models":["gpt-4o"],"limits":[{"name":"x"}],"priority":"batch","note":"mine","expires_at":"2027-01-01T00:00:00Z"}` {
			g.ask(t, "POST", "/admin/v1/keys", `{"team":"search","id":"made"}`)
		}
		if res, body := g.ask(t, "PATCH", "/admin/v1/keys/made", s.body); res.StatusCode != http.StatusOK || !strings.Contains(body, s.has) {
			t.Errorf("%s: status %d, want %s: %s", s.body, res.StatusCode, s.has, body)
		}
		if res, body := g.ask(t, "GET", "/admin/v1/keys/made", ""); res.StatusCode != http.StatusOK || !strings.Contains(body, s.has) {
			t.Errorf("%s: it is %s", s.body, body)
		}
	}
}

func TestARotationKeepsFormerSecretsForTheirGrace(t *testing.T) {
	g := newGateway()
	g.ask(t, "POST", "/admin/v1/keys", `{"team":"search","id":"made"}`)
	for i, grace := range []string{`{"grace":"2h"}`, "", `{"grace":"0s"}`} {
		res, body := g.ask(t, "POST", "/admin/v1/keys/made/rotate", grace)
		if res.StatusCode != http.StatusCreated || !strings.Contains(body, `"secret":"sk-llmgw-`) {
			t.Fatalf("status %d: %s", res.StatusCode, body)
		}
		k, _ := g.Changes.State().Key("made")
		if want := []int{1, 2, 2}[i]; len(k.Former) != want {
			t.Errorf("after %q %d former secrets work, want %d", grace, len(k.Former), want)
		}
	}
	for _, grace := range []string{"soon", "-1h", "9999h"} {
		if res, body := g.ask(t, "POST", "/admin/v1/keys/made/rotate", `{"grace":"`+grace+`"}`); res.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: status %d: %s", grace, res.StatusCode, body)
		}
	}
}

func TestTheAuditIsReadInPages(t *testing.T) {
	g := newGateway()
	for i := range 7 {
		team := []string{"search", "ads"}[i%2]
		if err := g.Changes.Note(t.Context(), changes.Entry{Action: changes.BlockAdded, By: "ops", Target: fmt.Sprint("b", i), Team: team}); err != nil {
			t.Fatal(err)
		}
	}
	read := func(query string) (targets []string) {
		cursor := ""
		for {
			_, body := g.ask(t, "GET", "/admin/v1/audit?limit=2"+query+cursor, "")
			var page struct {
				Audit []struct{ Target string }
				Next  string `json:"next_cursor"`
			}
			if err := json.Unmarshal([]byte(body), &page); err != nil || len(page.Audit) > 2 {
				t.Fatalf("%v: %s", err, body)
			}
			for _, e := range page.Audit {
				targets = append(targets, e.Target)
			}
			if page.Next == "" {
				return targets
			}
			cursor = "&cursor=" + page.Next
		}
	}
	if got := read(""); !slices.Equal(got, []string{"b6", "b5", "b4", "b3", "b2", "b1", "b0"}) {
		t.Errorf("got %q", got)
	}
	if got := read("&team=ads"); !slices.Equal(got, []string{"b5", "b3", "b1"}) {
		t.Errorf("of ads: got %q", got)
	}
	for _, query := range []string{"limit=0", "limit=1001", "limit=x", "cursor=x", "cursor=-1", "cursor=99"} {
		if res, _ := g.ask(t, "GET", "/admin/v1/audit?"+query, ""); res.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: status %d", query, res.StatusCode)
		}
	}
}

func TestBlocksTheSwitchAndReloadsAreInTheAudit(t *testing.T) {
	g := newGateway()
	_, body := g.ask(t, "POST", "/admin/v1/blocks", `{"scope":"key","value":"search-prod","reason":"leaked"}`)
	var block struct{ ID string }
	if err := json.Unmarshal([]byte(body), &block); err != nil {
		t.Fatal(err)
	}
	g.ask(t, "DELETE", "/admin/v1/blocks/"+block.ID, "")
	g.ask(t, "PUT", "/admin/v1/enforcement", `{"mode":"off"}`)
	g.ask(t, "POST", "/admin/v1/reload", "")
	var got []string
	for _, e := range g.Changes.State().Audit() {
		got = append(got, fmt.Sprintf("%s %s %s %s %s>%s", e.By, e.Action, e.Team, e.Reason, e.From, e.To))
	}
	want := []string{"anybody block_added search leaked >{\"id\"", "anybody block_removed search  {\"id\":\"blk", "anybody enforcement_changed   \"enforce\">", "anybody configuration_reloaded"}
	for i := range want {
		if i >= len(got) || !strings.HasPrefix(got[i], want[i][:min(len(want[i]), 40)]) {
			t.Errorf("got %q, want %q", got, want)
			break
		}
	}
}
