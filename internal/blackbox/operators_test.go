package blackbox

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"llmgw/internal/gatewaytest"
)

func TestWhoIsBlockedIsRefusedByAllInstancesAtOnce(t *testing.T) {
	w := start(t, setup{gateways: 2, redis: true, server: "trusted_proxies: [127.0.0.1/32]"})
	for _, s := range []struct {
		scope, value string
		headers      []string
	}{
		{"key", "search-key", nil},
		{"team", "search", nil},
		{"user", "ada", []string{"X-LLMGW-User", "ada"}},
		{"ip", "192.0.2.7", []string{"X-Forwarded-For", "192.0.2.7"}},
		{"ip", "198.51.100.0/24", []string{"X-Forwarded-For", "203.0.113.1, 198.51.100.9"}},
	} {
		call := func(g *gatewaytest.Gateway) gatewaytest.Answer {
			return g.Post(secret, chat, ask("sim-out1"), s.headers...)
		}
		a := w.Admin("POST", "/admin/v1/blocks", fmt.Sprintf(`{"scope":%q,"value":%q,"reason":"a leak","ttl":"1h"}`, s.scope, s.value))
		var block struct{ ID string }
		if err := json.Unmarshal([]byte(a.Body), &block); a.Status != 201 || err != nil || block.ID == "" {
			t.Fatalf("block %s: got %d %s", s.scope, a.Status, a.Body)
		}
		if a := call(w.all[0]); a.Status != 403 || a.Code() != "blocked" || !strings.Contains(a.Body, "a leak") {
			t.Errorf("%s: got %d %q, want 403 blocked with the reason\n%s", s.scope, a.Status, a.Code(), a.Body)
		}
		w.Eventually("blocked by the other instance", eventually, func() bool { return call(w.all[1]).Status == 403 })
		if a := w.all[1].Post(other, chat, ask("sim-out1-tag2"), "X-Forwarded-For", "203.0.113.1"); a.Status != 200 {
			t.Errorf("%s: somebody else got %d", s.scope, a.Status)
		}
		if a := w.all[1].Admin("GET", "/admin/v1/blocks", ""); !strings.Contains(a.Body, block.ID) {
			t.Errorf("%s: it is not listed: %s", s.scope, a.Body)
		}
		if a := w.all[1].Admin("DELETE", "/admin/v1/blocks/"+block.ID, ""); a.Status/100 != 2 {
			t.Errorf("%s: unblocking: got %d", s.scope, a.Status)
		}
		if a := call(w.all[1]); a.Status != 200 {
			t.Errorf("%s: unblocked: got %d", s.scope, a.Status)
		}
		w.Eventually("unblocked by the other instance", eventually, func() bool { return call(w.all[0]).Status == 200 })
	}
	w.settled()
}

func TestABlockEndsByItself(t *testing.T) {
	w := start(t, setup{})
	until := time.Now().Add(3 * time.Second).UTC().Format(time.RFC3339Nano)
	if a := w.Admin("POST", "/admin/v1/blocks", `{"scope":"team","value":"search","expires_at":"`+until+`"}`); a.Status != 201 {
		t.Fatalf("got %d %s", a.Status, a.Body)
	}
	if a := w.Post(secret, chat, ask("sim-out1")); a.Status != 403 {
		t.Errorf("got %d, want 403", a.Status)
	}
	w.Eventually("unblocked", eventually, func() bool { return w.Post(secret, chat, ask("sim-out1")).Status == 200 })
	for _, body := range []string{
		`{}`, `x`, `{"scope":"planet","value":"earth"}`, `{"scope":"ip","value":"earth"}`, `{"scope":"key","value":"k","ttl":"-1s"}`,
		`{"scope":"key","value":"k","expires_at":"2020-01-01T00:00:00Z"}`, `{"scope":"key","value":"k","wrong":1}`,
	} {
		if a := w.Admin("POST", "/admin/v1/blocks", body); a.Status != 400 {
			t.Errorf("%s: got %d, want 400", body, a.Status)
		}
	}
	if a := w.Admin("DELETE", "/admin/v1/blocks/nothing", ""); a.Status != 404 {
		t.Errorf("an unknown block: got %d, want 404", a.Status)
	}
	if got := strings.Count(w.Log(), `"msg":"blocked"`); got != 1 {
		t.Errorf("the log has %d blocks, want the one", got)
	}
}

func TestALeakedKeyIsBlockedThoughTheStoreIsAway(t *testing.T) {
	w := start(t, setup{gateways: 2, redis: true, redisKey: "timeout: 20ms"})
	w.redis.Pause()
	if a := w.Admin("POST", "/admin/v1/blocks", `{"scope":"key","value":"search-key","reason":"leaked"}`); a.Status != 201 {
		t.Fatalf("block: got %d: %s", a.Status, a.Body)
	}
	if a := w.Post(secret, chat, ask("sim-out1")); a.Status != 403 {
		t.Errorf("got %d at once, want 403", a.Status)
	}
	w.redis.Resume()
	w.Eventually("the other gateway knows of it", eventually, func() bool {
		a, err := w.all[1].Try(secret, chat, ask("sim-out1"))
		return err == nil && a.Status == 403
	})
}

func TestWhatCannotBeReadInTheStoreKeepsNoGatewayFromServing(t *testing.T) {
	s := setup{redis: true}
	w := start(t, s)
	for _, field := range [][]string{{"blocks", "blk_later", `{"scope":["two"]}`}, {"ratios", "learned", "of a later version"}, {"enforcement", "mode", "perhaps"}} {
		w.redis.Command(t, "hset", "llmgw:shared:"+field[0], field[1], field[2])
	}
	later := gatewaytest.Start(t, s.config(w)) // which waits until it is ready
	if a := w.Admin("PUT", "/admin/v1/enforcement", `{"mode":"shadow"}`); a.Status != 200 {
		t.Fatalf("got %d %s", a.Status, a.Body)
	}
	later.Eventually("the switch turned", eventually, func() bool {
		return strings.Contains(later.Admin("GET", "/admin/v1/enforcement", "").Body, `"shadow"`)
	})
	if got := strings.Count(later.Log(), "block blk_later"); got != 1 {
		t.Errorf("the log names the block that cannot be read %d times, want once\n%s", got, later.Log())
	}
	if a := later.Post(secret, chat, ask("sim-out1")); a.Status != 200 {
		t.Errorf("got %d, want 200", a.Status)
	}
}

func TestTheMainSwitchIsForAllInstances(t *testing.T) {
	w := start(t, setup{gateways: 2, redis: true, limits: monthly("two", "requests", 2)})
	for i, want := range []int{200, 200, 429} {
		if a := w.all[i%2].Post(secret, chat, ask("sim-out1")); a.Status != want {
			t.Fatalf("request %d: got %d, want %d", i, a.Status, want)
		}
	}
	set := func(mode string) {
		t.Helper()
		if a := w.Admin("PUT", "/admin/v1/enforcement", `{"mode":"`+mode+`"}`); a.Status != 200 {
			t.Fatalf("%s: got %d %s", mode, a.Status, a.Body)
		}
		for _, g := range w.all {
			g.Eventually(mode+" everywhere", eventually, func() bool {
				return strings.Contains(g.Admin("GET", "/admin/v1/enforcement", "").Body, `"mode":"`+mode+`"`)
			})
		}
	}
	set("shadow")
	if a := w.all[1].Post(secret, chat, ask("sim-out1")); a.Status != 200 || a.Header.Get("RateLimit") != "" || a.Header.Get("x-ratelimit-limit-requests") != "" {
		t.Errorf("in shadow: got %d and limits %q, want 200 and none: they are not enforced", a.Status, a.Header.Get("RateLimit"))
	}
	if got := w.all[1].Metrics().Sum("llmgw_rejections_total", "mode", "shadow", "limit", "two", "scope", "team", "team", "search", "code", "insufficient_quota"); got != 1 {
		t.Errorf("got %v would-be refusals, want 1", got)
	}
	set("off")
	if a := w.all[1].Post(secret, chat, ask("sim-out1")); a.Status != 200 || a.Header.Get("RateLimit") != "" {
		t.Errorf("off: got %d and limits %q, want 200 and none", a.Status, a.Header.Get("RateLimit"))
	}
	set("enforce")
	if a := w.all[1].Post(secret, chat, ask("sim-out1")); a.Status != 429 {
		t.Errorf("enforced again: got %d, want 429", a.Status)
	}
	if a := w.Admin("PUT", "/admin/v1/enforcement", `{"mode":"maybe"}`); a.Status != 400 {
		t.Errorf("a mode that is none: got %d, want 400", a.Status)
	}
}

func TestTheAdminPlaneWantsItsToken(t *testing.T) {
	w := start(t, setup{server: "admin_token: hush"})
	for _, s := range []struct {
		method, path string
		open         bool
	}{
		{"GET", "/healthz", true}, {"GET", "/readyz", true},
		{"GET", "/metrics", false}, {"GET", "/dashboard", false}, {"GET", "/admin/v1/teams", false}, {"GET", "/admin/v1/teams/search", false},
		{"GET", "/admin/v1/usage", false}, {"GET", "/admin/v1/blocks", false}, {"GET", "/admin/v1/enforcement", false}, {"POST", "/admin/v1/reload", false},
	} {
		without, wrong, right := w.Admin(s.method, s.path, ""), w.Admin(s.method, s.path, "", "Authorization", "Bearer hash"), w.Admin(s.method, s.path, "", "Authorization", "Bearer hush")
		if (without.Status == 200) != s.open || (wrong.Status == 200) != s.open || right.Status != 200 {
			t.Errorf("%s: got %d without the token, %d with another, %d with it", s.path, without.Status, wrong.Status, right.Status)
		}
		if !s.open && without.Status != 401 {
			t.Errorf("%s: got %d, want 401", s.path, without.Status)
		}
	}
}

func TestAReloadReplacesTheAdminToken(t *testing.T) {
	s := setup{server: "admin_token: hush"}
	w := start(t, s)
	teams := func(token string) int {
		return w.Admin("GET", "/admin/v1/teams", "", "Authorization", "Bearer "+token).Status
	}
	if got := teams("hush"); got != 200 {
		t.Fatalf("got %d, want 200", got)
	}
	s.server = "admin_token: leaked-no-more"
	w.WriteConfig(s.config(w))
	w.Signal(syscall.SIGHUP)
	w.Eventually("guarded by the new token", eventually, func() bool { return teams("leaked-no-more") == 200 })
	if got := teams("hush"); got != 401 {
		t.Errorf("the old token: got %d, want 401", got)
	}
}

func TestExplainTellsWhatWouldHappenAndChargesNothing(t *testing.T) {
	w := start(t, setup{limits: tokensLimit() + "\n" + monthly("one", "requests", 1) + "\n{name: slots, unit: concurrency, amount: 3}"})
	type explanation struct {
		Estimate struct {
			InputTokens  int `json:"input_tokens"`
			OutputTokens int `json:"output_tokens"`
			TotalTokens  int `json:"total_tokens"`
			Parts        map[string]float64
		}
		Outcome, Binding string
		WaitMS           *int64 `json:"wait_ms"`
		Limits           []struct {
			Name      string
			Remaining float64
		}
	}
	explain := func(body string) (e explanation) {
		t.Helper()
		a := w.Admin("POST", "/admin/v1/explain", `{"key_id":"search-key","path":"/v1/chat/completions","body":`+body+`}`)
		if err := json.Unmarshal([]byte(a.Body), &e); a.Status != 200 || err != nil {
			t.Fatalf("got %d, %v\n%s", a.Status, err, a.Body)
		}
		return e
	}
	text, err := json.Marshal(ask("sim-in10-out10", bound(100)))
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{ask("sim-in10-out10", bound(100)), string(text)} {
		e := explain(body)
		if e.Outcome != "granted" || e.Estimate.TotalTokens != 100 || e.Estimate.InputTokens != promptTokens || len(e.Estimate.Parts) == 0 || len(e.Limits) != 3 || e.WaitMS == nil || *e.WaitMS != 0 {
			t.Errorf("got %+v", e)
		}
	}
	if got := w.spent("one"); got != 0 {
		t.Errorf("explaining was charged %d requests", got)
	}
	w.Post(secret, chat, ask("sim-in10-out10", bound(100)))
	if e := explain(ask("sim-in10-out10", bound(100))); e.Outcome != "insufficient_quota" || e.Binding != "team/search/one" || e.WaitMS == nil || *e.WaitMS <= 0 {
		t.Errorf("got %+v", e)
	}
	if a := w.Admin("POST", "/admin/v1/explain", `{"key_id":"nobody","path":"/v1/chat/completions","body":{}}`); a.Status != 404 {
		t.Errorf("an unknown key: got %d, want 404", a.Status)
	}
}

func TestUsageAddsUpWhatWasUsed(t *testing.T) {
	w := start(t, setup{models: "{name: priced, targets: [{provider: sim, model: sim-in100-out10-cached40-reason3}], prices: {input: 1, cached_input: 0.5, output: 4}}"})
	w.Post(secret, chat, ask("priced"))
	w.Post(secret, chat, ask("priced"))
	w.Post(other, chat, ask("sim-in7-out3"))
	w.Post(secret, chat, ask("sim-fail400"))
	type row struct {
		Team, Model string
		Requests    int
		Input       int `json:"input_tokens"`
		Cached      int `json:"cached_input_tokens"`
		Output      int `json:"output_tokens"`
		Reasoning   int `json:"reasoning_tokens"`
		USD         float64
	}
	usage := func(query string) map[string]row {
		t.Helper()
		var doc struct{ Rows []row }
		a := w.Admin("GET", "/admin/v1/usage"+query, "")
		if err := json.Unmarshal([]byte(a.Body), &doc); a.Status != 200 || err != nil {
			t.Fatalf("%s: got %d, %v\n%s", query, a.Status, err, a.Body)
		}
		rows := map[string]row{}
		for _, r := range doc.Rows {
			rows[r.Team+"/"+r.Model] = r
		}
		return rows
	}
	w.Eventually("booked", eventually, func() bool { return usage("")["other/sim-in7-out3"].Requests == 1 })
	want := row{Team: "search", Model: "priced", Requests: 2, Input: 200, Cached: 80, Output: 20, Reasoning: 6, USD: 2 * (60*1 + 40*0.5 + 10*4) / 1e6}
	if got := usage("?group_by=team,model")["search/priced"]; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := usage("?group_by=model"); got["/priced"].Input != 200 || got["/sim-in7-out3"].Output != 3 {
		t.Errorf("by model: got %+v", got)
	}
	if got := usage("?group_by=team"); got["search/"].Input != 200 || got["other/"].Input != 7 {
		t.Errorf("by team: got %+v", got)
	}
	if got := usage("?from=2020-01-01T00:00:00Z&to=2020-02-01T00:00:00Z"); len(got) != 0 {
		t.Errorf("long ago: got %+v", got)
	}
	if a := w.Admin("GET", "/admin/v1/usage?from=yesterday", ""); a.Status != 400 {
		t.Errorf("a time that is none: got %d, want 400", a.Status)
	}
}

func TestStoppingFailsReadinessAtOnceAndServesForTheDelay(t *testing.T) {
	w := start(t, setup{server: "drain_delay: 4s\nshutdown_grace: 20s", limits: tokensLimit()})
	resp, err := w.Open(secret, chat, ask("sim-out8-every800ms", streamed))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // read to its end
	w.Signal(syscall.SIGTERM)
	w.Eventually("not ready", 3*time.Second, func() bool { return w.Admin("GET", "/readyz", "").Status == http.StatusServiceUnavailable })
	if a := w.Admin("GET", "/healthz", ""); a.Status != 200 {
		t.Errorf("healthz: got %d, want 200", a.Status)
	}
	if a, err := w.Try(secret, chat, ask("sim-out1")); err != nil || a.Status != 200 {
		t.Errorf("during the delay: got %d, %v; want 200", a.Status, err)
	}
	w.Eventually("closed", eventually, func() bool {
		_, err := http.Get(w.URL + "/healthz") //nolint:bodyclose // it is an error that is waited for
		return err != nil
	})
	body := new(strings.Builder)
	if err := copyAll(body, resp); err != nil || !strings.HasSuffix(body.String(), "data: [DONE]\n\n") {
		t.Errorf("the stream ended with %v:\n%s", err, body)
	}
	if code := w.Wait(); code != 0 {
		t.Errorf("exit code: got %d, want 0\n%s", code, w.Log())
	}
}

func TestAHangupReloadsAndARenamedTeamIsANewOne(t *testing.T) {
	s := setup{limits: monthly("tokens", "tokens", 1000)}
	w := start(t, s)
	w.Post(secret, chat, ask("sim-in100-out100", bound(400)))
	w.Signal(syscall.SIGHUP) // of a file that has not changed
	w.Eventually("reloaded by the signal alone", eventually, func() bool { return strings.Contains(w.Log(), "configuration reloaded") })
	w.WriteConfig(strings.Replace(s.config(w), "name: search", "name: found", 1))
	w.Signal(syscall.SIGHUP)
	w.Eventually("reloaded", eventually, func() bool { return w.Admin("GET", "/admin/v1/teams/search", "").Status == 404 })
	if got := w.Limit("found", "tokens").Remaining; got != 1000 {
		t.Errorf("got %v left of a new team's budget, want all 1000", got)
	}
	w.WriteConfig(strings.Replace(s.config(w), "per: month", "per: week", 1))
	w.Signal(syscall.SIGHUP)
	w.Eventually("reloaded", eventually, func() bool { return w.Admin("GET", "/admin/v1/teams/search", "").Status == 200 })
	if got := w.Limit("search", "tokens").Remaining; got != 1000 {
		t.Errorf("got %v left of a budget with another period, want all 1000", got)
	}
}
