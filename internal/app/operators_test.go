package app

import (
	"net/http"
	"strings"
	"testing"
)

func TestOperatorsSeeAndChangeARunningGateway(t *testing.T) {
	r := run(t, ", admin_token: "+adminToken)
	if a := r.chat("sim-out5"); a.StatusCode != 200 {
		t.Fatalf("a chat: got %d %s", a.StatusCode, a.body)
	}
	question := `{"key_id":"k","path":"/v1/chat/completions","body":{"model":"m","messages":[{"role":"user","content":"hi"}]}}`
	for _, s := range []struct {
		what, request, body string
		status              int
		says                string
	}{
		{"the teams", "GET /admin/v1/teams", "", 200, `"limited_by":"team/t/tpm"`},
		{"a team", "GET /admin/v1/teams/t", "", 200, `"capacity":100000`},
		{"an explanation", "POST /admin/v1/explain", question, 200, `"team/t/tpm"`},
		{"one of an unknown key", "POST /admin/v1/explain", strings.Replace(question, `"k"`, `"other"`, 1), 404, "no such key"},
		{"the page's figures", "GET /dashboard/live", "", 200, `"name":"p"`},
		{"a block of a misspelt team", "POST /admin/v1/blocks", `{"scope":"team","value":"tt"}`, 404, `Did you mean`},
		{"a block", "POST /admin/v1/blocks", `{"scope":"key","value":"k","ttl":"1h","reason":"a leak"}`, 201, `"expires_at"`},
		{"the switch", "PUT /admin/v1/enforcement", `{"mode":"shadow"}`, 200, `"shadow"`},
		{"how it stands", "GET /admin/v1/enforcement", "", 200, `"shadow"`},
	} {
		method, path, _ := strings.Cut(s.request, " ")
		a := r.admin(method, path, s.body)
		if a.StatusCode != s.status || !strings.Contains(a.body, s.says) {
			t.Errorf("%s: got %d, want %d with %s: %s", s.what, a.StatusCode, s.status, s.says, a.body)
		}
		if at := a.Header.Get("Location"); at != "" {
			if blocked := r.chat("sim-out5"); blocked.StatusCode != 403 || !strings.Contains(blocked.body, "a leak") {
				t.Errorf("while blocked: got %d %s", blocked.StatusCode, blocked.body)
			}
			if a := r.admin("DELETE", at, ""); a.StatusCode != 204 {
				t.Errorf("unblocking: got %d %s", a.StatusCode, a.body)
			}
		}
	}
	if a := r.chat("sim-out5"); a.StatusCode != 200 {
		t.Errorf("unblocked: got %d %s", a.StatusCode, a.body)
	}
	if err := r.stop(); err != nil {
		t.Errorf("it stopped with %v", err)
	}
}

func TestAReloadTakesUpTheFileOrLeavesWhatWas(t *testing.T) {
	r := run(t, ", admin_token: "+adminToken)
	r.change("amount: 100k", "amount: 200k")
	r.change("kind: memory}", "kind: memory, heartbeat: 3s}\nenforcement: shadow\ntelemetry: {max_label_values: 50}")
	if a := r.admin("POST", "/admin/v1/reload", ""); a.StatusCode != 200 {
		t.Fatalf("got %d %s", a.StatusCode, a.body)
	}
	if a := r.admin("GET", "/admin/v1/teams/t", ""); !strings.Contains(a.body, `"amount":200000`) {
		t.Errorf("the new amount is not in force: %s", a.body)
	}
	if a := r.admin("GET", "/admin/v1/enforcement", ""); !strings.Contains(a.body, "shadow") {
		t.Errorf("the file's switch is not in force: %s", a.body)
	}
	for _, line := range []string{"the store changes with a restart only", "telemetry changes with a restart only"} {
		if !strings.Contains(r.log.String(), line) {
			t.Errorf("the log does not say %q", line)
		}
	}
	r.change("amount: 200k", "amount: many")
	if a := r.admin("POST", "/admin/v1/reload", ""); a.StatusCode != 422 || !strings.Contains(a.body, "many") {
		t.Errorf("a bad file: got %d %s", a.StatusCode, a.body)
	}
	r.change("amount: many", "amount: 300k")
	r.change("admin_token: "+adminToken, "admin_token: another-token")
	r.await("reload of the changed file", func() bool {
		return r.send(http.DefaultClient, "GET", "http://"+r.AdminAddr()+"/admin/v1/teams", "", "Authorization", "Bearer another-token").StatusCode == 200
	})
}

func TestTheDemoGreetsAndServes(t *testing.T) {
	var out lines
	r := &running{t: t, log: &lines{}}
	r.start(Options{Listen: "127.0.0.1:0", AdminListen: "127.0.0.1:0", Stdout: &out})
	r.await("greeting", func() bool { return strings.Contains(out.String(), "Dashboard: http://"+r.AdminAddr()) })
	a := r.send(http.DefaultClient, "POST", "http://"+r.Addr()+"/v1/chat/completions", `{"model":"sim-out5","messages":[{"role":"user","content":"hi"}]}`,
		"Authorization", "Bearer sk-llmgw-demo", "Content-Type", "application/json")
	if a.StatusCode != 200 {
		t.Errorf("got %d %s", a.StatusCode, a.body)
	}
	if a := r.send(http.DefaultClient, "POST", "http://"+r.AdminAddr()+"/admin/v1/reload", ""); a.StatusCode != 422 || !strings.Contains(a.body, "no file") {
		t.Errorf("a reload: got %d %s", a.StatusCode, a.body)
	}
	if a := r.send(http.DefaultClient, "GET", "http://"+r.AdminAddr()+"/dashboard/live", ""); !strings.Contains(a.body, "This is the demo") {
		t.Errorf("the page does not say so: %.300s", a.body)
	}
}

func TestWhatIsRefusedBeforeItsKeyDoesNotCountByAddress(t *testing.T) {
	r := run(t, ", admin_token: "+adminToken)
	r.change("\nteams:", "\nlimits: [{name: ip-rpm, scope: ip, unit: requests, amount: 2, per: hour}]\nteams:")
	if a := r.admin("POST", "/admin/v1/reload", ""); a.StatusCode != 200 {
		t.Fatalf("got %d %s", a.StatusCode, a.body)
	}
	url := "http://" + r.Addr()
	for range 3 {
		for _, s := range []struct {
			method, path string
			status       int
			header       []string
		}{
			{"POST", "/v9/nothing", 404, nil},
			{"PUT", "/v1/chat/completions", 405, nil},
			{"GET", "/v1/responses", 426, []string{"Connection", "Upgrade", "Upgrade", "websocket"}},
		} {
			if a := r.send(http.DefaultClient, s.method, url+s.path, "", s.header...); a.StatusCode != s.status {
				t.Errorf("%s %s: got %d, want %d", s.method, s.path, a.StatusCode, s.status)
			}
		}
	}
	for i, want := range []int{200, 200, 429} {
		if a := r.chat("sim-out5"); a.StatusCode != want {
			t.Errorf("chat %d: got %d, want %d: %s", i+1, a.StatusCode, want, a.body)
		}
	}
}
