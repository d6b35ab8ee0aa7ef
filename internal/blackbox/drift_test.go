package blackbox

import (
	"strings"
	"syscall"
	"testing"

	"llmgw/internal/gatewaytest"
)

// Two gateways of one Redis on different files: the newer file's amounts are in
// force, and the gateway on the older one tells them to clients and operators and
// says that the files differ, until it has the newer one too.
func TestAGatewayOnAnOlderFileTellsTheAmountsInForce(t *testing.T) {
	const (
		before = "{name: tpm, unit: tokens, amount: 1000, per: hour, burst: 500}\n{name: rpm, unit: requests, amount: 100, per: month}\n{name: same, unit: tokens, amount: 90k, per: month}"
		after  = "{name: tpm, unit: tokens, amount: 2000, per: hour, burst: 800}\n{name: rpm, unit: requests, amount: 3, per: month}\n{name: same, unit: tokens, amount: 90k, per: month}"
	)
	w := start(t, setup{redis: true, limits: before})
	newer := setup{redis: true, limits: after}.config(w)
	body := ask("sim-in8-out8", bound(20))
	call := func(g *gatewaytest.Gateway, tokens, requests string) {
		t.Helper()
		a := g.Post(secret, chat, body)
		policy := a.Header.Get("RateLimit-Policy")
		if a.Status != 200 || a.Header.Get("X-Ratelimit-Limit-Tokens") != tokens || a.Header.Get("X-Ratelimit-Limit-Requests") != requests ||
			!strings.Contains(policy, `"tpm";q=`+tokens+";") || !strings.Contains(policy, `"rpm";q=`+requests+";") {
			t.Errorf("got %d %v, want limits of %s tokens and %s requests", a.Status, a.Header, tokens, requests)
		}
	}
	call(w.Gateway, "1000", "100")
	fleet := gatewaytest.Start(t, newer)
	call(fleet, "2000", "3")
	call(w.Gateway, "2000", "3")

	says := func(what string, a gatewaytest.Answer, status int, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if a.Status != status || !strings.Contains(a.Body, part) {
				t.Errorf("%s: got %d, want %d with %s\n%s", what, a.Status, status, part, a.Body)
			}
		}
	}
	says("too large", w.Post(secret, chat, ask("sim-in8-out8", bound(900))), 400, `"amount":800`, "800 tokens", "exceeds_limit")
	says("explain", w.Admin("POST", "/admin/v1/explain", `{"key_id": "search-key", "path": "`+chat+`", "body": `+body+`}`), 200,
		`"amount":2000`, `"capacity":800`, `"amount":3,`)
	for _, path := range []string{"/admin/v1/teams", "/admin/v1/teams/search", "/dashboard/live"} {
		says(path, w.Admin("GET", path, ""), 200, `"amount":2000,"configured":1000`, `"capacity":800`, `"amount":3,"configured":100`, `"amount":90000,"configured":90000`)
	}
	drift := func(g *gatewaytest.Gateway) float64 { return g.Metrics().Sum("llmgw_limit_drift") }
	w.Eventually("the drift is counted", eventually, func() bool { return drift(w.Gateway) == 2 })
	if got := drift(fleet); got != 0 {
		t.Errorf("the newest file drifts from %v limits", got)
	}
	if got := w.Metrics().Sum("llmgw_limit_amount", "name", "tpm"); got != 2000 {
		t.Errorf("the metric says %v tokens, want 2000", got)
	}
	w.Eventually("the page says so", eventually, func() bool { return strings.Contains(w.Admin("GET", "/dashboard/live", "").Body, "for 2 limits") })
	w.Post(secret, chat, body) // the third that there is
	says("over", w.Post(secret, chat, body), 429, `"amount":3`, "3 requests per month")

	w.WriteConfig(newer)
	w.Signal(syscall.SIGHUP)
	w.Eventually("the files agree", eventually, func() bool { return drift(w.Gateway) == 0 && w.Limit("search", "tpm").Amount == 2000 })
	says("over, after the reload", w.Post(secret, chat, body), 429, `"amount":3`)
	says("the page", w.Admin("GET", "/admin/v1/teams/search", ""), 200, `"amount":2000,"configured":2000`)
	if strings.Contains(w.Admin("GET", "/dashboard/live", "").Body, "another gateway") {
		t.Error("the page still says that the files differ")
	}
	const begun, ended = "the configuration of another gateway is newer", "those of this configuration again"
	w.Eventually("the log says so", eventually, func() bool { return strings.Contains(w.Log(), ended) })
	if n, m := strings.Count(w.Log(), begun), strings.Count(w.Log(), ended); n != 1 || m != 1 {
		t.Errorf("the log tells the beginning %d times and the end %d, want once each", n, m)
	}
	if strings.Contains(fleet.Log(), begun) {
		t.Error("the gateway on the newest file says that another is newer")
	}
}
