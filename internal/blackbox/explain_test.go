package blackbox

import (
	"encoding/json"
	"fmt"
	"testing"
)

// Explaining a request of some user at some address tells of the counters that it
// would meet, and whether anything refuses it at all.
func TestExplainTellsOfTheUsersAndTheAddresssCounters(t *testing.T) {
	w := start(t, setup{limits: "{name: per-user, scope: user, unit: requests, amount: 2, per: month}\n{name: per-ip, scope: ip, unit: requests, amount: 9, per: month}"})
	for range 2 {
		w.Post(secret, chat, ask("sim-out1"), "X-LLMGW-User", "ann")
	}
	type explanation struct {
		Enforcement, Outcome, Binding string
		Limits                        []struct {
			Name, Value string
			Remaining   float64
		}
	}
	explain := func(who string) (status int, e explanation, body string) {
		t.Helper()
		a := w.Admin("POST", "/admin/v1/explain", fmt.Sprintf(`{"key_id":"search-key","path":%q%s,"body":%s}`, chat, who, ask("sim-out1")))
		if err := json.Unmarshal([]byte(a.Body), &e); err != nil {
			t.Fatalf("got %d, %v\n%s", a.Status, err, a.Body)
		}
		return a.Status, e, a.Body
	}
	for _, s := range []struct {
		what, who, outcome string
		user, ip           string
		userLeft, ipLeft   float64
	}{
		{"who has spent hers", `,"user":"ann","ip":"127.0.0.1"`, "insufficient_quota", "ann", "127.0.0.1", 0, 7},
		{"somebody else at the same address", `,"user":"bob","ip":"127.0.0.1"`, "granted", "bob", "127.0.0.1", 2, 7},
		{"another address", `,"user":"ann","ip":"192.0.2.1"`, "insufficient_quota", "ann", "192.0.2.1", 0, 9},
		{"an address of IPv6 is counted by its network", `,"user":"bob","ip":"2001:db8::7"`, "granted", "bob", "2001:db8::/64", 2, 9},
		{"nobody in particular", "", "granted", "anonymous", "unknown", 2, 9},
	} {
		status, e, body := explain(s.who)
		if status != 200 || e.Outcome != s.outcome || e.Enforcement != "enforce" || len(e.Limits) != 2 {
			t.Errorf("%s: got %d, want %s\n%s", s.what, status, s.outcome, body)
			continue
		}
		if u, ip := e.Limits[0], e.Limits[1]; u.Value != s.user || u.Remaining != s.userLeft || ip.Value != s.ip || ip.Remaining != s.ipLeft {
			t.Errorf("%s: got %+v, want %q with %v left and %q with %v", s.what, e.Limits, s.user, s.userLeft, s.ip, s.ipLeft)
		}
	}
	w.Admin("PUT", "/admin/v1/enforcement", `{"mode":"shadow"}`)
	if _, e, body := explain(`,"user":"ann"`); e.Outcome != "granted" || e.Enforcement != "shadow" || e.Limits[0].Remaining != 0 {
		t.Errorf("in shadow: got %s, want granted with nothing left", body)
	}
	w.Admin("POST", "/admin/v1/blocks", `{"scope":"user","value":"ann","reason":"for a test"}`)
	if status, _, body := explain(`,"user":"ann"`); status != 403 {
		t.Errorf("who is blocked: got %d, want 403\n%s", status, body)
	}
	if status, _, _ := explain(`,"user":"bob"`); status != 200 {
		t.Errorf("who is not: got %d, want 200", status)
	}
	w.settled()
}
