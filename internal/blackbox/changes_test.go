package blackbox

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"llmgw/internal/gatewaytest"
	"llmgw/internal/pgtest"
)

// withinASecond is how soon a change is in force everywhere; a busy machine gets more.
const withinASecond = eventually

// madeKey is a key as it is answered to whoever made it.
type madeKey struct {
	ID, Secret string
}

// makeKey makes a key at g.
func makeKey(t *testing.T, g *gatewaytest.Gateway, body string) madeKey {
	t.Helper()
	a := g.Admin("POST", "/admin/v1/keys", body)
	var k madeKey
	if err := json.Unmarshal([]byte(a.Body), &k); a.Status != 201 || err != nil || !strings.HasPrefix(k.Secret, "sk-llmgw-") {
		t.Fatalf("got %d: %s (%v)", a.Status, a.Body, err)
	}
	return k
}

// inForce waits until every gateway answers a call with the secret with status.
func (w *world) inForce(what, key string, status int) {
	w.t.Helper()
	for i, g := range w.all {
		g.Eventually(fmt.Sprintf("%s at gateway %d", what, i), withinASecond, func() bool {
			return g.Post(key, chat, ask("sim-out1")).Status == status
		})
	}
}

func TestAKeyLivesAtEveryGatewayAndOutlivesRestarts(t *testing.T) {
	w := start(t, setup{gateways: 2, redis: true})
	k := makeKey(t, w.Gateway, `{"team":"search","id":"made","models":["sim-out1"],"note":"a trial"}`)
	if a := w.Post(k.Secret, chat, ask("sim-out1")); a.Status != 200 {
		t.Errorf("at the gateway that made it: got %d: %s", a.Status, a.Body)
	}
	w.inForce("the new key", k.Secret, 200)
	if a := w.all[1].Post(k.Secret, chat, ask("sim-out2")); a.Status != 404 {
		t.Errorf("another model: got %d, want 404", a.Status)
	}
	w.all[1].Eventually("it was used", eventually, func() bool {
		a := w.all[1].Admin("GET", "/admin/v1/keys/made", "")
		return a.Status == 200 && strings.Contains(a.Body, `"source":"runtime"`) && !strings.Contains(a.Body, `"last_used":null`)
	})

	a := w.all[1].Admin("POST", "/admin/v1/keys/made/rotate", `{"grace":"1h"}`)
	var rotated madeKey
	if err := json.Unmarshal([]byte(a.Body), &rotated); a.Status != 201 || err != nil || rotated.Secret == k.Secret {
		t.Fatalf("got %d: %s", a.Status, a.Body)
	}
	w.inForce("the new secret", rotated.Secret, 200)
	w.inForce("the old secret in its grace", k.Secret, 200)

	for _, g := range w.all {
		g.Kill()
		g.Restart()
		g.AwaitReady()
	}
	w.inForce("after a restart", rotated.Secret, 200)
	if a := w.Admin("DELETE", "/admin/v1/keys/made", ""); a.Status != 204 {
		t.Errorf("got %d: %s", a.Status, a.Body)
	}
	w.inForce("a deleted key", rotated.Secret, 401)
	for _, path := range []string{"/admin/v1/audit", "/admin/v1/keys"} {
		a := w.all[1].Admin("GET", path, "")
		for _, s := range []string{k.Secret, rotated.Secret, gatewaytest.SHA256(k.Secret), gatewaytest.SHA256(rotated.Secret)} {
			if a.Status != 200 || strings.Contains(a.Body, s) {
				t.Errorf("%s: got %d, with a secret or its hash: %s", path, a.Status, a.Body)
			}
		}
	}
	if dump := w.redis.Command(t, "LRANGE", "llmgw:list:changes", "0", "-1"); strings.Contains(dump, k.Secret) || strings.Contains(dump, rotated.Secret) {
		t.Error("a secret is in the store")
	}
}

func TestAKeyExpiresAndAnIDIsTakenOnce(t *testing.T) {
	w := start(t, setup{})
	soon := time.Now().Add(5 * time.Second).UTC().Format(time.RFC3339Nano)
	k := makeKey(t, w.Gateway, `{"team":"search","expires_at":"`+soon+`"}`)
	w.inForce("an expired key", k.Secret, 401)
	makeKey(t, w.Gateway, `{"team":"search","id":"made"}`)
	for _, s := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", "/admin/v1/keys", `{"team":"search","id":"made"}`, 409},
		{"POST", "/admin/v1/keys", `{"team":"search","id":"search-key"}`, 409},
		{"POST", "/admin/v1/keys", `{"team":"nobody"}`, 400},
		{"POST", "/admin/v1/keys", `{"team":"search","id":"a b"}`, 400},
		{"POST", "/admin/v1/keys", `{"team":"search","priority":"high"}`, 400},
		{"POST", "/admin/v1/keys", `{"team":"search","expires_at":"2020-01-01T00:00:00Z"}`, 400},
		{"POST", "/admin/v1/keys", `{"team":"search","limits":[{"name":"x"}]}`, 400},
		{"PATCH", "/admin/v1/keys/search-key", `{"note":"mine"}`, 409},
		{"DELETE", "/admin/v1/keys/search-key", "", 409},
		{"POST", "/admin/v1/keys/search-key/rotate", "{}", 409},
		{"DELETE", "/admin/v1/keys/nobody", "", 404},
		{"PATCH", "/admin/v1/keys/made", `{"team":"other"}`, 400},
	} {
		if a := w.Admin(s.method, s.path, s.body); a.Status != s.status {
			t.Errorf("%s %s %s: got %d, want %d: %s", s.method, s.path, s.body, a.Status, s.status, a.Body)
		}
	}
	if a := w.Admin("GET", "/admin/v1/keys/search-key", ""); a.Status != 200 || !strings.Contains(a.Body, `"source":"file"`) {
		t.Errorf("got %d: %s", a.Status, a.Body)
	}
}

func TestAKeysOwnLimitsBindAndCanBeChanged(t *testing.T) {
	w := start(t, setup{})
	k := makeKey(t, w.Gateway, `{"team":"search","id":"made","limits":[{"name":"own","unit":"requests","amount":1,"per":"month"}]}`)
	if first, second := w.Post(k.Secret, chat, ask("sim-out1")), w.Post(k.Secret, chat, ask("sim-out1")); first.Status != 200 || second.Status != 429 ||
		second.Header.Get("X-LLMGW-Limited-By") != "key/made/own" {
		t.Fatalf("got %d, then %d by %s", first.Status, second.Status, second.Header.Get("X-LLMGW-Limited-By"))
	}
	if a := w.Admin("PATCH", "/admin/v1/keys/made", `{"limits":[{"name":"own","unit":"requests","amount":2,"per":"month"}]}`); a.Status != 200 {
		t.Fatalf("got %d: %s", a.Status, a.Body)
	}
	if first, second := w.Post(k.Secret, chat, ask("sim-out1")), w.Post(k.Secret, chat, ask("sim-out1")); first.Status != 200 || second.Status != 429 {
		t.Errorf("with one more: got %d, then %d", first.Status, second.Status)
	}
}

// amounts are what the team's page says of its first limit.
type amounts struct {
	Amount, Configured, Remaining json.Number
	Override                      *struct{ Until, Reason string }
}

func amountsOf(t *testing.T, g *gatewaytest.Gateway) amounts {
	t.Helper()
	var team struct{ Limits []amounts }
	a := g.Admin("GET", "/admin/v1/teams/search", "")
	if err := json.Unmarshal([]byte(a.Body), &team); err != nil || len(team.Limits) == 0 {
		t.Fatalf("got %d: %s", a.Status, a.Body)
	}
	return team.Limits[0]
}

func TestAnOverrideIsInForceEverywhereUntilItEnds(t *testing.T) {
	w := start(t, setup{gateways: 2, redis: true, limits: monthly("budget", "requests", 1)})
	w.Post(secret, chat, ask("sim-out1"))
	w.inForce("spent", secret, 429)
	until := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	body := `{"amount":4,"until":"` + until + `","reason":"launch"}`
	if a := w.Admin("PUT", "/admin/v1/overrides/team%2Fsearch%2Fbudget", body); a.Status != 200 {
		t.Fatalf("got %d: %s", a.Status, a.Body)
	}
	w.all[1].Eventually("the override is seen", withinASecond, func() bool {
		got := amountsOf(t, w.all[1])
		return got.Amount == "4" && got.Configured == "1" && got.Override != nil && got.Override.Reason == "launch"
	})
	a := w.all[1].Post(secret, chat, ask("sim-out1"))
	if a.Status != 200 || !strings.Contains(a.Header.Get("RateLimit-Policy"), "q=4") {
		t.Errorf("got %d with %q", a.Status, a.Header)
	}
	if a := w.all[1].Admin("DELETE", "/admin/v1/overrides/team/search/budget", ""); a.Status != 204 {
		t.Errorf("got %d: %s", a.Status, a.Body)
	}
	w.inForce("without it", secret, 429)
	if a := w.Admin("DELETE", "/admin/v1/overrides/team/search/budget", ""); a.Status != 404 {
		t.Errorf("got %d: %s", a.Status, a.Body)
	}

	soon := time.Now().Add(5 * time.Second).UTC().Format(time.RFC3339Nano)
	if a := w.Admin("PUT", "/admin/v1/overrides/team/search/budget", `{"amount":9,"until":"`+soon+`","reason":"soon over"}`); a.Status != 200 {
		t.Fatalf("got %d: %s", a.Status, a.Body)
	}
	w.all[1].Eventually("the override ends", eventually, func() bool { got := amountsOf(t, w.all[1]); return got.Amount == "1" && got.Override == nil })
}

func TestACreditRaisesThePeriodOnce(t *testing.T) {
	w := start(t, setup{gateways: 2, redis: true, limits: monthly("budget", "tokens", 60) + "\n{name: tpm, unit: tokens, amount: 1000, per: minute}"})
	if a := w.Post(secret, chat, ask("sim-out1", bound(100))); a.Status != 400 {
		t.Fatalf("beyond the budget: got %d: %s", a.Status, a.Body)
	}
	give := func(g *gatewaytest.Gateway, key, body string) gatewaytest.Answer {
		return g.Admin("POST", "/admin/v1/credits", body, "Idempotency-Key", key)
	}
	body := `{"limit":"team/search/budget","amount":50,"reason":"a demo"}`
	first, again, at2 := give(w.all[0], "one", body), give(w.all[0], "one", body), give(w.all[1], "one", body)
	if first.Status != 201 || again.Status != 201 || at2.Status != 201 || first.Body != again.Body || first.Body != at2.Body {
		t.Errorf("got %d %s, then %d %s and %d %s", first.Status, first.Body, again.Status, again.Body, at2.Status, at2.Body)
	}
	for _, s := range []struct {
		key, body string
		status    int
	}{
		{"one", strings.Replace(body, "50", "51", 1), 409},
		{"two", strings.Replace(body, "budget", "tpm", 1), 400},
		{"three", strings.Replace(body, "budget", "none", 1), 404},
		{"four", strings.Replace(body, "50", "0", 1), 400},
		{"five", strings.Replace(body, "50", "-5", 1), 400},
		{"six", `{"limit":"team/search/budget","amount":5}`, 400},
	} {
		if a := give(w.Gateway, s.key, s.body); a.Status != s.status {
			t.Errorf("%s: got %d, want %d: %s", s.body, a.Status, s.status, a.Body)
		}
	}
	w.all[1].Eventually("the credit is seen", withinASecond, func() bool { return amountsOf(t, w.all[1]).Amount == "110" })
	if a := w.all[1].Post(secret, chat, ask("sim-out1", bound(100))); a.Status != 200 {
		t.Errorf("with the credit: got %d: %s", a.Status, a.Body)
	}
}

func TestAResetBeginsACounterAnew(t *testing.T) {
	w := start(t, setup{gateways: 2, redis: true, limits: monthly("budget", "requests", 2) + "\n{name: each, scope: user, unit: requests, amount: 5, per: day}"})
	for range 2 {
		w.Post(secret, chat, ask("sim-out1"), "X-LLMGW-User", "alice")
	}
	w.inForce("spent", secret, 429)
	if a := w.Admin("POST", "/admin/v1/limits/team/search/budget/reset", `{"reason":"a mistake of ours"}`); a.Status != 200 || !strings.Contains(a.Body, `"remaining":2`) {
		t.Fatalf("got %d: %s", a.Status, a.Body)
	}
	w.inForce("anew", secret, 200)
	for path, status := range map[string]int{
		"/admin/v1/limits/user/each/reset":                         400,
		"/admin/v1/limits/user%2Feach/reset?value=alice":           200,
		"/admin/v1/limits/team/search/none/reset":                  404,
		"/admin/v1/limits/team/search/budget":                      404,
		"/admin/v1/limits/team%2Fsearch%2Fbudget/reset?value=some": 400,
	} {
		if a := w.Admin("POST", path, `{"reason":"why"}`); a.Status != status {
			t.Errorf("%s: got %d, want %d: %s", path, a.Status, status, a.Body)
		}
	}
}

func TestChangesAreRefusedWhileTheirStoreIsAwayAndCaughtUp(t *testing.T) {
	w := start(t, setup{gateways: 2, redis: true})
	before := makeKey(t, w.Gateway, `{"team":"search","id":"before"}`)
	w.inForce("a key", before.Secret, 200)
	w.all[1].Pause() // it is cut off
	later := makeKey(t, w.Gateway, `{"team":"search","id":"later"}`)
	if a := w.Admin("DELETE", "/admin/v1/keys/before", ""); a.Status != 204 {
		t.Errorf("got %d: %s", a.Status, a.Body)
	}
	w.all[1].Resume()
	w.inForce("made meanwhile", later.Secret, 200)
	w.inForce("deleted meanwhile", before.Secret, 401)

	w.redis.Kill()
	w.Eventually("no change without the store", eventually, func() bool {
		return w.Admin("POST", "/admin/v1/keys", `{"team":"search"}`).Status == 503
	})
	if a := w.Post(later.Secret, chat, ask("sim-out1")); a.Status != 200 {
		t.Errorf("what was known: got %d: %s", a.Status, a.Body)
	}
	w.redis.Restart(t) // it has lost everything
	w.Eventually("changes are taken again", eventually, func() bool {
		return w.Admin("POST", "/admin/v1/keys", `{"team":"search"}`).Status == 201
	})
	for _, g := range w.all {
		g.Stop()
		g.Restart()
		g.AwaitReady()
	}
	w.inForce("what the gateways knew", later.Secret, 200)
}

func TestOneGatewaysChangesOutliveItInSQLite(t *testing.T) {
	w := start(t, setup{top: "records: {kind: sqlite, path: " + filepath.Join(t.TempDir(), "books.db") + "}"})
	k := makeKey(t, w.Gateway, `{"team":"search","id":"made"}`)
	w.Kill()
	w.Restart()
	w.AwaitReady()
	if a := w.Post(k.Secret, chat, ask("sim-out1")); a.Status != 200 {
		t.Errorf("got %d: %s", a.Status, a.Body)
	}
}

func TestGatewaysShareChangesInPostgres(t *testing.T) {
	server := pgtest.Start(t)
	w := start(t, setup{gateways: 2, top: "records: {kind: postgres, url: \"" + server.Database(t, "books") + "\"}"})
	var k madeKey
	w.Eventually("the first change", eventually, func() bool {
		a := w.Admin("POST", "/admin/v1/keys", `{"team":"search","id":"made"}`)
		return a.Status == 201 && json.Unmarshal([]byte(a.Body), &k) == nil
	})
	w.inForce("the new key", k.Secret, 200)
	server.Kill()
	w.Eventually("no change without the database", eventually, func() bool {
		return w.Admin("DELETE", "/admin/v1/keys/made", "").Status == 503
	})
	if a := w.Post(k.Secret, chat, ask("sim-out1")); a.Status != 200 {
		t.Errorf("what was known: got %d: %s", a.Status, a.Body)
	}
	server.Restart(t)
	w.Eventually("the database is back", 3*eventually, func() bool {
		return w.Admin("DELETE", "/admin/v1/keys/made", "").Status == 204
	})
	w.inForce("a deleted key", k.Secret, 401)
}

func TestAnAppAsksAboutItself(t *testing.T) {
	w := start(t, setup{
		limits: monthly("budget", "requests", 5), common: "{name: all, unit: requests, amount: 100, per: day}", keys: monthly("own", "usd", 3),
		models: "{name: sim-out1, targets: [{provider: sim}], prices: {input: 2.5, output: 10, per_call: {web_search: 0.01}}}",
	})
	if a := w.Post(secret, chat, ask("sim-out1")); a.Status != 200 {
		t.Fatalf("got %d: %s", a.Status, a.Body)
	}
	w.settled()
	var me struct {
		Team   string
		KeyID  string `json:"key_id"`
		Models []struct {
			Name   string
			Prices map[string]any
		}
		Limits []struct {
			LimitedBy string `json:"limited_by"`
			Remaining json.Number
			ResetMS   *int64 `json:"reset_ms"`
		}
		Usage map[string]struct {
			Requests int
			USD      float64
		}
	}
	a := w.send("GET", "/llmgw/v1/me", secret, "")
	if err := json.Unmarshal([]byte(a.Body), &me); a.Status != 200 || err != nil {
		t.Fatalf("got %d: %s (%v)", a.Status, a.Body, err)
	}
	left := map[string]string{}
	for _, l := range me.Limits {
		left[l.LimitedBy] = l.Remaining.String()
	}
	if me.Team != "search" || me.KeyID != "search-key" || left["team/search/budget"] != "4" || left["gateway/all"] != "99" || left["key/search-key/own"] != "2.99997" {
		t.Errorf("got %+v with %v left", me, left)
	}
	if len(me.Models) != 1 || me.Models[0].Prices["input"] != 2.5 || me.Usage["today"].Requests != 1 || me.Usage["month"].USD == 0 {
		t.Errorf("got %s", a.Body)
	}
	if a := w.send("GET", "/llmgw/v1/me", "sk-llmgw-nobody", ""); a.Status != 401 {
		t.Errorf("a stranger: got %d: %s", a.Status, a.Body)
	}
}

func TestOneUserOfALimitCanHaveAnAmountOfItsOwn(t *testing.T) {
	w := start(t, setup{limits: "{name: each, scope: user, unit: requests, amount: 1, per: day}"})
	until := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	if a := w.Admin("PUT", "/admin/v1/overrides/user/each?value=alice", `{"amount":3,"until":"`+until+`","reason":"launch"}`); a.Status != 200 {
		t.Fatalf("got %d: %s", a.Status, a.Body)
	}
	if a := w.Admin("POST", "/admin/v1/credits", `{"limit":"user/each","value":"bob","amount":1,"reason":"sorry"}`); a.Status != 201 {
		t.Fatalf("got %d: %s", a.Status, a.Body)
	}
	for user, want := range map[string]int{"alice": 3, "bob": 2, "carol": 1} {
		granted := 0
		for range 4 {
			if a := w.Post(secret, chat, ask("sim-out1"), "X-LLMGW-User", user); a.Status == 200 {
				granted++
			}
		}
		if granted != want {
			t.Errorf("%s: got %d requests, want %d", user, granted, want)
		}
	}
}
