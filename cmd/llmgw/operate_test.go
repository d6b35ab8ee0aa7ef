package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// asked is what the admin port of a test was asked.
type asked struct{ request, body, token, once string }

// adminPort answers everything with a status and a body, and notes what it was asked.
func adminPort(t *testing.T, status int, answer string) (url string, last *asked) {
	t.Helper()
	last = &asked{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*last = asked{r.Method + " " + r.URL.RequestURI(), string(body), r.Header.Get("Authorization"), r.Header.Get("Idempotency-Key")}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	return server.URL, last
}

func TestOperatorsWorkFromTheCommandLine(t *testing.T) {
	url, last := adminPort(t, 200, `{"id":"made","secret":"sk-llmgw-new"}`)
	t.Setenv("LLMGW_ADMIN_TOKEN", "hush")
	for _, s := range []struct{ args, request, body string }{
		{"key list", "GET /admin/v1/keys", ""},
		{"key new --team search --id made --models a,b --note why --priority batch", "POST /admin/v1/keys",
			`{"id":"made","models":["a","b"],"note":"why","priority":"batch","team":"search"}`},
		{"key change made --expires-at 2027-01-01T00:00:00Z", "PATCH /admin/v1/keys/made", `{"expires_at":"2027-01-01T00:00:00Z"}`},
		{"key rotate --grace 1h made", "POST /admin/v1/keys/made/rotate", `{"grace":"1h"}`},
		{"key delete made", "DELETE /admin/v1/keys/made", ""},
		{"credit team/search/monthly 50 --reason demo --idempotency-key one", "POST /admin/v1/credits",
			`{"amount":"50","limit":"team/search/monthly","reason":"demo"}`},
		{"credit --limit user/daily --amount 5k --value alice --team search --reason demo", "POST /admin/v1/credits?team=search",
			`{"amount":"5k","limit":"user/daily","reason":"demo","value":"alice"}`},
		{"override team/search/tpm 800k --until 2027-01-01T00:00:00Z --reason launch", "PUT /admin/v1/overrides/team%2Fsearch%2Ftpm",
			`{"amount":"800k","reason":"launch","until":"2027-01-01T00:00:00Z"}`},
		{"override remove team/search/tpm", "DELETE /admin/v1/overrides/team%2Fsearch%2Ftpm", ""},
		{"override reset user/daily --value alice --reason mistake", "POST /admin/v1/limits/user%2Fdaily/reset?value=alice", `{"reason":"mistake"}`},
		{"block team search --reason leak", "POST /admin/v1/blocks", `{"force":false,"reason":"leak","scope":"team","value":"search"}`},
		{"block list", "GET /admin/v1/blocks", ""},
		{"block remove blk_1", "DELETE /admin/v1/blocks/blk_1", ""},
	} {
		code, out, errs := called(t, append(strings.Fields(s.args), "--admin", url)...)
		if code != exitOK || last.request != s.request || last.body != s.body || last.token != "Bearer hush" || !strings.Contains(out, "made") {
			t.Errorf("%s: got %d, asked %+v: %s%s", s.args, code, *last, out, errs)
		}
		if want := strings.Contains(s.args, "--idempotency-key"); (last.once == "one") != want {
			t.Errorf("%s: Idempotency-Key is %q", s.args, last.once)
		}
	}
}

func TestATimeMayBeFromNowOn(t *testing.T) {
	url, last := adminPort(t, 200, "{}")
	for _, until := range []string{"36h", "7d"} {
		code, _, errs := called(t, "override", "a/b", "1", "--until", until, "--reason", "r", "--admin", url)
		var body struct{ Until string }
		if err := json.Unmarshal([]byte(last.body), &body); code != exitOK || err != nil || !strings.HasSuffix(body.Until, "Z") {
			t.Errorf("%s: got %d, %s: %s", until, code, last.body, errs)
		}
	}
	for _, until := range []string{"tomorrow", "-1h", "d"} {
		if code, _, errs := called(t, "override", "a/b", "1", "--until", until, "--admin", url); code != exitProblem || !strings.Contains(errs, "is neither a time") {
			t.Errorf("%s: got %d: %s", until, code, errs)
		}
	}
}

func TestWhatTheGatewayRefusesIsSaid(t *testing.T) {
	url, _ := adminPort(t, 409, `{"error":{"code":"conflict","message":"There is already a key \"made\"."}}`)
	code, out, errs := called(t, "key", "new", "--team", "search", "--admin", url)
	if code != exitProblem || out != "" || !strings.Contains(errs, `There is already a key "made".`) {
		t.Errorf("got %d: %q %q", code, out, errs)
	}
	for _, s := range []struct {
		args string
		code int
	}{
		{"key", exitUsage}, {"key sell x", exitUsage}, {"credit --admin " + url, exitUsage}, {"override one --admin " + url, exitUsage},
		{"block a b c --admin " + url, exitUsage}, {"block list", exitProblem}, {"key change x --limits no --admin " + url, exitProblem},
	} {
		if code, _, errs := called(t, strings.Fields(s.args)...); code != s.code {
			t.Errorf("%s: got %d, want %d: %s", s.args, code, s.code, errs)
		}
	}
}
