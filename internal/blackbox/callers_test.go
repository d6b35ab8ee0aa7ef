package blackbox

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func TestAnAddressIsTheClientsBehindATrustedProxy(t *testing.T) {
	const limit = "{name: ip-rpd, scope: ip, unit: requests, amount: 1, per: month}"
	trusted := start(t, setup{common: limit, server: "trusted_proxies: [127.0.0.1/32, 10.0.0.0/8]"})
	for _, s := range []struct {
		what, forwarded string
		status          int
	}{
		{"the first of an address", "192.0.2.1", 200},
		{"its second", "192.0.2.1", 429},
		{"another address", "192.0.2.2", 200},
		{"what a client adds on the left is not believed", "203.0.113.9, 192.0.2.2", 429},
		{"trusted proxies on the right are passed over", "192.0.2.2, 10.1.2.3", 429},
		{"an address of IPv6", "2001:db8:1:2::1", 200},
		{"its network is one client", "2001:db8:1:2::ffff", 429},
		{"another network", "2001:db8:1:3::1", 200},
	} {
		a := trusted.Post(secret, chat, ask("sim-out1"), "X-Forwarded-For", s.forwarded)
		if a.Status != s.status || a.Status == 429 && a.LimitedBy() != "ip/ip-rpd" {
			t.Errorf("%s: got %d by %q, want %d", s.what, a.Status, a.LimitedBy(), s.status)
		}
	}
}

func TestNobodysForwardedForIsBelievedByDefault(t *testing.T) {
	w := start(t, setup{common: "{name: ip-rpd, scope: ip, unit: requests, amount: 1, per: month}"})
	for i, want := range []int{200, 429} {
		if a := w.Post(secret, chat, ask("sim-out1"), "X-Forwarded-For", []string{"192.0.2.1", "192.0.2.2"}[i]); a.Status != want {
			t.Errorf("request %d: got %d, want %d", i, a.Status, want)
		}
	}
}

func TestEachUserOfATeamHasACounter(t *testing.T) {
	w := start(t, setup{limits: "{name: each, scope: user, unit: requests, amount: 1, per: month}", models: "{name: claude, targets: [{provider: sim-anthropic, model: sim-out1}]}"})
	for _, s := range []struct {
		what, path, body, header string
		status                   int
	}{
		{"by the header", chat, ask("sim-out1"), "ada", 200},
		{"in the body, the same", chat, ask("sim-out1", `"user":"ada"`), "", 429},
		{"the header wins", chat, ask("sim-out1", `"user":"ada"`), "bob", 200},
		{"safety_identifier", chat, ask("sim-out1", `"safety_identifier":"bob"`), "", 429},
		{"metadata.user_id", "/v1/messages", `{"model":"claude","max_tokens":9,"metadata":{"user_id":"bob"},"messages":[{"role":"user","content":"hi"}]}`, "", 429},
		{"nobody", chat, ask("sim-out1"), "", 200},
		{"nobody shares a counter", chat, ask("sim-out1"), "", 429},
		{"which has a name", chat, ask("sim-out1"), "anonymous", 429},
	} {
		var headers []string
		if s.header != "" {
			headers = []string{"X-LLMGW-User", s.header}
		}
		if a := w.Post(secret, s.path, s.body, headers...); a.Status != s.status || a.Status == 429 && a.LimitedBy() != "user/each" {
			t.Errorf("%s: got %d by %q, want %d", s.what, a.Status, a.LimitedBy(), s.status)
		}
	}
}

func TestATeamUsesItsModelsAlone(t *testing.T) {
	s := setup{models: "{name: theirs, targets: [{provider: sim, model: sim-out1}]}\n{name: ours, targets: [{provider: sim, model: sim-out1}]}"}
	w := start(t, s)
	w.WriteConfig(strings.Replace(s.config(w), "- name: other\n", "- name: other\n    models: [ours, sim-out2]\n", 1))
	if a := w.Admin("POST", "/admin/v1/reload", ""); a.Status != 200 {
		t.Fatalf("reload: got %d %s", a.Status, a.Body)
	}
	for _, s := range []struct {
		model  string
		status int
		code   string
	}{{"ours", 200, ""}, {"sim-out2", 200, ""}, {"theirs", 403, "model_not_allowed"}, {"sim-out1", 404, "model_not_found"}} {
		if a := w.Post(other, chat, ask(s.model)); a.Status != s.status || a.Code() != s.code {
			t.Errorf("%s: got %d %q, want %d %q", s.model, a.Status, a.Code(), s.status, s.code)
		}
	}
	for model, labels := range map[string][]string{
		"theirs": {"status", "403", "outcome", "refused"}, "ours": {"status", "200", "outcome", "completed"}, "other": {"status", "404", "outcome", "invalid"},
	} {
		w.Eventually("counted under "+model, eventually, func() bool {
			return w.Metrics().Sum("llmgw_requests_total", append(labels, "endpoint", chat, "model", model)...) == 1
		})
	}
	listed := func(key string) (ids []string) {
		t.Helper()
		var list struct {
			Object string
			Data   []struct{ ID, Object string }
		}
		a := w.send("GET", "/v1/models", key, "")
		if err := json.Unmarshal([]byte(a.Body), &list); err != nil || a.Status != 200 || list.Object != "list" {
			t.Fatalf("got %d, %v\n%s", a.Status, err, a.Body)
		}
		for _, m := range list.Data {
			ids = append(ids, m.ID)
		}
		return ids
	}
	if got := listed(other); !slices.Equal(got, []string{"ours", "sim-out2"}) {
		t.Errorf("the team that may use two: got %v", got)
	}
	if got := listed(secret); !slices.Equal(got, []string{"ours", "theirs"}) {
		t.Errorf("the team that may use all: got %v", got)
	}
	for path, want := range map[string]int{"/v1/models/ours": 200, "/v1/models/sim-out2": 200, "/v1/models/theirs": 404, "/v1/models/nothing": 404} {
		if a := w.send("GET", path, other, ""); a.Status != want {
			t.Errorf("%s: got %d, want %d", path, a.Status, want)
		}
	}
	if got := w.Metrics().Sum("llmgw_requests_total", "endpoint", "/v1/models/{model}", "status", "404", "outcome", "invalid"); got != 2 {
		t.Errorf("got %v invalid requests for a model that is not there, want 2", got)
	}
	if a := w.send("GET", "/v1/models", "", ""); a.Status != 401 {
		t.Errorf("without a key: got %d, want 401", a.Status)
	}
}

func TestWhoIsNotKnownIsToldWhatIsWrongWithTheKey(t *testing.T) {
	w := start(t, setup{})
	for _, s := range []struct {
		what, path string
		headers    []string
		want       string
	}{
		{"none", chat, []string{"Authorization", ""}, "No API key provided"},
		{"another one", chat, []string{"Authorization", "Bearer sk-other"}, "Incorrect API key provided"},
		{"two that differ", chat, []string{"x-api-key", "sk-other"}, "Several API keys provided"},
		{"two that differ, one in the query", chat + "?key=sk-other", nil, "Several API keys provided"},
	} {
		a := w.Post(secret, s.path, ask("sim-out1"), s.headers...)
		if a.Status != 401 || a.Code() != "invalid_api_key" || !strings.Contains(a.Body, s.want) {
			t.Errorf("%s: got %d %q, want 401 with %q\n%s", s.what, a.Status, a.Code(), s.want, a.Body)
		}
	}
}
