package admin

import (
	"net/http"
	"strings"
	"testing"
)

// before reports whether the first text stands before the second in s.
func before(s, first, second string) bool {
	i, j := strings.Index(s, first), strings.Index(s, second)
	return i >= 0 && j > i
}

func TestALimitThatRefusesIsInTroubleHoweverMuchOfItIsLeft(t *testing.T) {
	b := liveAnswer(t)
	calm := showPage(t, 200, b, visit{hover: -1})
	if strings.Contains(calm.Texts["trouble"], "team/search/tpm") || !before(calm.Texts["budgets"], "ads", "search") {
		t.Errorf("before it refuses: %q and %q", calm.Texts["trouble"], calm.Texts["budgets"])
	}
	count := b.Series.Refusals[0].Count // of team/search/tpm, of which 42 % is left
	count[len(count)-1] = 40
	s := showPage(t, 200, b, visit{hover: -1})
	if !before(s.Texts["trouble"], "team/search/tpm 42.5K left, 40 refused just now", "team/ads/tpm 4 in debt") {
		t.Errorf("wrong now: %q", s.Texts["trouble"])
	}
	if !before(s.Texts["budgets"], "42.5K left 40 refused just now", "monthly $500.00") {
		t.Errorf("budgets: %q", s.Texts["budgets"])
	}
	if !strings.Contains(s.Texts["trouble"], "openai provider paused, 3 waiting") {
		t.Errorf("a provider that rests is not said to be wrong: %q", s.Texts["trouble"])
	}
}

func TestALimitThatAllowsNothingIsInTrouble(t *testing.T) {
	b := liveAnswer(t)
	for i := range b.Budgets {
		for j := range b.Budgets[i].Limits {
			if l := &b.Budgets[i].Limits[j]; l.LimitedBy == "team/search/tpm" {
				l.Amount, l.Capacity, l.Remaining, l.Open = 0, 0, 0, 0
			}
		}
	}
	if s := showPage(t, 200, b, visit{hover: -1}); !strings.Contains(s.Texts["trouble"], "team/search/tpm 0 left") {
		t.Errorf("wrong now: %q", s.Texts["trouble"])
	}
}

func TestTeamsWithRoomAreFoldedBelowThoseInTrouble(t *testing.T) {
	b := liveAnswer(t)
	easy := budgetGroup{Limits: b.Budgets[0].Limits[:1]}
	if by := easy.Limits[0].LimitedBy; by != "gateway/all-tpm" {
		t.Fatalf("the sample is %s", by)
	}
	for _, name := range strings.Fields("t1 t2 t3 t4 t5 t6 t7 t8 t9") {
		b.Budgets = append([]budgetGroup{{name, easy.Limits}}, b.Budgets...)
	}
	s := showPage(t, 200, b, visit{hover: -1})
	if !before(s.Texts["budgets"], "gpt-4o-all 500K", "ads tpm") || strings.Contains(s.Texts["budgets"], "t1") {
		t.Errorf("budgets: %q", s.Texts["budgets"])
	}
	if !strings.HasPrefix(s.Texts["calmcount"], "10 more") || !strings.Contains(s.Texts["calmbudgets"], "t9 all-tpm") {
		t.Errorf("folded: %q, %q", s.Texts["calmcount"], s.Texts["calmbudgets"])
	}
}

func TestATeamHasAPageOfItsOwn(t *testing.T) {
	s := showPage(t, 200, liveAnswer(t), visit{path: "/dashboard/teams/search", hover: -1})
	if s.Texts["rpm"] != "17" || strings.Contains(s.Texts["budgets"]+s.Texts["trouble"], "ads") {
		t.Errorf("%q", s.Texts)
	}
	s = showPage(t, 200, liveAnswer(t), visit{team: "search", hover: -1})
	if s.Fetched[len(s.Fetched)-1] != "address /dashboard/teams/search" {
		t.Errorf("a team that was chosen is not in the address: %q", s.Fetched)
	}
}

func TestTheThemeButtonIsCalledWhatItSays(t *testing.T) {
	_, button, _ := strings.Cut(dashboardHTML, `<button id="theme"`)
	button, _, _ = strings.Cut(button, "</button>")
	if strings.Contains(button, "aria-label") || !strings.HasSuffix(button, ">Theme") {
		t.Errorf("%q", button)
	}
}

func TestAViewerOfOneTeamSeesItsRefusalsAndNoOthers(t *testing.T) {
	b := liveAnswer(t)
	b.Series.Refusals = append(b.Series.Refusals, b.Series.Refusals[0])
	b.Series.Refusals[2].Limit = "gateway/all-tpm"
	seen := b.of(Account{Name: "lead", Role: Viewer, Teams: []string{"search"}})
	if len(seen.Series.Refusals) != 1 || seen.Series.Refusals[0].Limit != "team/search/tpm" {
		t.Errorf("%+v", seen.Series.Refusals)
	}
	seen = b.of(Account{Name: "lead", Role: Viewer, Teams: []string{"other"}})
	if s := showPage(t, 200, seen, visit{hover: -1}); s.Classes["status"] != "pill good" || !strings.Contains(s.Texts["refusals"], "Nothing was refused") {
		t.Errorf("a page without refusals: %+v", s)
	}
}

func TestTheDocumentOfATeamAsksForTheToken(t *testing.T) {
	g := newGateway()
	g.Accounts = owner(token)
	res, body := g.ask(t, "GET", "/dashboard/teams/search", "")
	if res.StatusCode != http.StatusUnauthorized || !strings.Contains(body, `name="token"`) {
		t.Errorf("status %d: %s", res.StatusCode, body)
	}
}
