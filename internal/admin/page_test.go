package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"llmgw/internal/books"
	"llmgw/internal/budget"
	"llmgw/internal/testenv"
)

// shown is what the dashboard's page says after one answer.
type shown struct {
	Texts   map[string]string
	Classes map[string]string
	Colours map[string]string // of the chart, by team
	Broken  []string          // attributes with no number where one should be
	Fetched []string
	Polls   int
	Theme   string
}

// visit is what somebody does on the page.
type visit struct {
	path  string // the page's; empty: /dashboard
	team  string // chosen, or empty
	hover int    // the minute pointed at, or -1
}

// showPage runs the page's script in node on an answer of the live route.
func showPage(t *testing.T, status int, answer any, v visit) shown {
	t.Helper()
	return showPages(t, status, []any{answer}, v)
}

// showPages is showPage with several answers, one after the other.
func showPages(t *testing.T, status int, answers []any, v visit) shown {
	t.Helper()
	node := testenv.Program(t, "node")
	var ids []string
	for _, m := range regexp.MustCompile(` id="([^"]+)"`).FindAllStringSubmatch(dashboardHTML, -1) {
		ids = append(ids, m[1])
	}
	input, err := json.Marshal(map[string]any{"script": dashboardJS, "ids": ids, "answers": answers, "status": status, "path": v.path, "team": v.team, "hover": v.hover})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(node, "testdata/page.mjs")
	cmd.Stdin = bytes.NewReader(input)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	var s shown
	if err := json.Unmarshal(out, &s); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if len(s.Broken) > 0 {
		t.Errorf("broken attributes: %q", s.Broken)
	}
	return s
}

// liveAnswer is an hour of two teams with every kind of budget.
func liveAnswer(t *testing.T) liveBody {
	t.Helper()
	minutes := func(last ...int64) []int64 { return append(make([]int64, 60-len(last)), last...) }
	g := newGateway()
	g.states["team/search/tpm"] = budget.LineState{Remaining: 42_500, Capacity: 100_000, Open: 13_000, Reset: 34 * time.Second}
	g.states["team/ads/tpm"] = budget.LineState{Remaining: -4, Capacity: 10, Reset: 24 * time.Second}
	h := &handler{config: g.Config}
	b := h.readLive(t.Context())
	b.Series = &books.Series{Start: clock.Add(-59 * time.Minute), Teams: []books.TeamSeries{
		{Team: "search", Tokens: minutes(1000, 12_345, 600), Reserved: minutes(2000, 20_000, 900), Requests: minutes(4, 17, 1)},
		{Team: "<b>ads</b>", Tokens: minutes(0, 55, 0), Reserved: minutes(0, 60, 0), Requests: minutes(0, 1, 0)},
	}, Refusals: []books.LimitSeries{
		{Limit: "team/search/tpm", Count: minutes(7, 0, 0)},
		{Limit: "team/ads/tpm", Count: minutes(2, 0, 0)},
	}}
	b.Live = Live{Instance: "gw1", Inflight: 31, Open: 28, Waiting: 2, Providers: []Provider{
		{Name: "openai", State: "paused", Waiting: 3, Inflight: 24, Headroom: []Headroom{{"requests", 3120, 5000}, {"tokens", 7, 0}}},
	}, Estimates: []Estimates{{"gpt-4o", 12_345, 0.987, 0.000041}, {"<i>x</i>", 3, 1.4, 0.0123}, {"new", 0, 0, 0.0005}}}
	return b
}

func TestTheDashboardShowsWhatTheGatewaysAreAt(t *testing.T) {
	s := showPage(t, 200, liveAnswer(t), visit{hover: -1})
	for id, want := range map[string][]string{
		"status":      {"ok"},
		"enforcement": {"limits: enforce"},
		"instance":    {"gw1"},
		"tpm":         {"12.4K"},
		"tpmnow":      {"this minute so far: 600"},
		"rpm":         {"18"},
		"ratio":       {"61%"},
		"refused":     {"9"},
		"inflight":    {"31"},
		"open":        {"28 reservations open here"},
		"waiting":     {"5"},
		"legend":      {"search 12.3K", "<b>ads</b> 55"},
		"budgets": {"shared by all teams gpt-4o: gpt-4o-all 500K tokens per minute 5 left all-tpm 2M tokens per minute 2M left", "search tpm 100K tokens per minute 42.5K left full in 34 s",
			"monthly $500.00 per month $123.45 left", "slots 20 at once 18 free", "search-prod: key-tpm 40K tokens per minute 40K left",
			"ads tpm 10 tokens per minute 4 in debt full in 24 s"},
		"refusals":  {"team/search/tpm 7 7 in 10 min", "team/ads/tpm 2"},
		"providers": {"openai paused 24 in flight, 3 waiting", "requests 3,120 of 5,000", "tokens 7"},
		"estimates": {"gpt-4o 99% used 12.3K answers, 41 µs each", "<i>x</i> 140% used 3 answers, 12 ms each", "new – 0 answers, 500 µs each"},
		"problems":  {""},
	} {
		for _, part := range want {
			if !strings.Contains(s.Texts[id], part) {
				t.Errorf("%s says %q, want %q in it", id, s.Texts[id], part)
			}
		}
	}
	if strings.Contains(s.Texts["budgets"], "user-tpm") {
		t.Error("a limit without a level of its own is shown as a gauge")
	}
	if s.Classes["status"] != "pill good" || s.Theme != "dark" || s.Polls != 1 || !slices.Equal(s.Fetched, []string{"/dashboard/live"}) {
		t.Errorf("%+v", s)
	}
}

func TestATeamLeadSeesOneTeam(t *testing.T) {
	s := showPage(t, 200, liveAnswer(t), visit{team: "search", hover: -1})
	if strings.Contains(s.Texts["legend"]+s.Texts["budgets"]+s.Texts["refusals"], "ads") {
		t.Errorf("another team is shown: %q", s.Texts)
	}
	if s.Texts["rpm"] != "17" || s.Texts["refused"] != "7" || !strings.Contains(s.Texts["budgets"], "all-tpm") {
		t.Errorf("%q", s.Texts)
	}
}

func TestPointingAtAMinuteTellsItsFigures(t *testing.T) {
	s := showPage(t, 200, liveAnswer(t), visit{hover: 58})
	// The axis first, then what was pointed at: the minute before the current one.
	if !strings.Contains(s.Texts["chart"], "12,400") || !strings.Contains(s.Texts["chart"], "search 12,345 <b>ads</b> 55") {
		t.Errorf("the chart says %q", s.Texts["chart"])
	}
}

// hourOf is an answer in which teams used tokens, the first the most.
func hourOf(teams ...string) liveBody {
	b := (&handler{config: Config{Now: func() time.Time { return clock }}}).readLive(context.Background())
	b.Series = &books.Series{Start: clock.Add(-time.Minute), Refusals: []books.LimitSeries{}}
	for i, name := range teams {
		n := []int64{int64(100 - i), 1}
		b.Series.Teams = append(b.Series.Teams, books.TeamSeries{Team: name, Tokens: n, Reserved: n, Requests: n})
	}
	return b
}

func TestEachOfTheLargestTeamsHasAColourOfItsOwnHoweverManyCameBefore(t *testing.T) {
	first := hourOf("a", "b", "c", "d", "e", "f", "g", "h", "i")
	s := showPages(t, 200, []any{first, hourOf("x", "y", "a", "z", "b", "c", "d", "e", "f")}, visit{hover: -1})
	of := map[string]string{}
	for team, class := range s.Colours {
		if other, taken := of[class]; taken || class == "f8" && team != "1 others" || class == "" {
			t.Errorf("team %q is drawn as %q, team %q too", team, class, other)
		}
		of[class] = team
	}
	if len(s.Colours) != 9 || s.Colours["a"] != "f0" || s.Colours["e"] != "f4" {
		t.Errorf("%v: want eight teams and the rest, those that stay as they were", s.Colours)
	}
	if s := showPages(t, 200, []any{first, hourOf("x", "y")}, visit{team: "y", hover: -1}); s.Colours["y"] == "f8" || s.Colours["y"] == "" {
		t.Errorf("a team by itself: %v", s.Colours)
	}
}

func TestEveryColourHasADarkFormWithoutAScript(t *testing.T) {
	if !strings.Contains(dashboardCSS, "color-scheme: light dark;") || !strings.Contains(loginHTML, `<meta name="color-scheme" content="light dark">`) {
		t.Error("the login page does not follow the system's theme")
	}
	for _, m := range regexp.MustCompile(`--[a-z0-9-]+: [^;]+;`).FindAllString(dashboardCSS, -1) {
		if !strings.Contains(m, ": light-dark(") {
			t.Errorf("%s is the same in the dark", m)
		}
	}
}

func TestNoticesStandOnThePage(t *testing.T) {
	g := newGateway()
	g.Notices = func() []string { return []string{"This is the <demo>."} }
	b := (&handler{config: g.Config}).readLive(t.Context())
	if s := showPage(t, 200, b, visit{hover: -1}); s.Texts["notices"] != "This is the <demo>." {
		t.Errorf("%q", s.Texts["notices"])
	}
}

func TestTheDashboardLivesWithLittle(t *testing.T) {
	nothing := (&handler{config: Config{Now: func() time.Time { return clock }}}).readLive(t.Context())
	s := showPage(t, 200, nothing, visit{hover: -1})
	if !strings.Contains(s.Texts["budgets"], "No budgets") || !strings.Contains(s.Texts["providers"], "No providers") || !strings.Contains(s.Texts["estimates"], "Nothing") {
		t.Errorf("%q", s.Texts)
	}
	nothing.Series = &books.Series{Start: clock, Teams: []books.TeamSeries{}, Refusals: []books.LimitSeries{}}
	nothing.Status, nothing.Problems = "degraded", []string{"budgets: i/o timeout"}
	s = showPage(t, 200, nothing, visit{hover: -1})
	if !strings.Contains(s.Texts["legend"], "No tokens") || s.Classes["status"] != "pill warn" || s.Texts["problems"] != "budgets: i/o timeout" {
		t.Errorf("%+v", s)
	}
}

func TestTheDashboardGoesOnAfterAFailureAndAsksForTheTokenAgain(t *testing.T) {
	if s := showPage(t, 503, nil, visit{hover: -1}); s.Texts["status"] != "no answer" || s.Classes["status"] != "pill bad" || s.Polls != 1 {
		t.Errorf("after a failure: %+v", s)
	}
	if s := showPage(t, 401, nil, visit{hover: -1}); !slices.Contains(s.Fetched, "reload") || s.Polls != 0 {
		t.Errorf("after the pass has ended: %+v", s)
	}
}
