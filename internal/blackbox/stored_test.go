package blackbox

import (
	"encoding/json"
	"strings"
	"testing"

	"llmgw/internal/fakellm"
	"llmgw/internal/gatewaytest"
)

func TestStoredResponsesAreReadAndEndedForARequestEach(t *testing.T) {
	w := start(t, setup{limits: tokensLimit() + "\n" + monthly("requests", "requests", 100)})
	a := w.Post(secret, "/v1/responses", `{"model":"sim-in10-out5","input":"hi"}`)
	var made struct{ ID string }
	if err := json.Unmarshal([]byte(a.Body), &made); err != nil || made.ID == "" {
		t.Fatalf("got %d, %v\n%s", a.Status, err, a.Body)
	}
	path := "/v1/responses/" + made.ID
	for i, s := range []struct {
		method, path string
		status       int
		requests     int
	}{
		{"GET", path, 200, 2},
		{"POST", path + "/cancel", 200, 3},
		{"DELETE", path, 200, 4},
		{"GET", path, 404, 4}, // the provider's own, which is refunded
	} {
		a := w.send(s.method, s.path, secret, "")
		if a.Status != s.status || a.Header.Get("X-LLMGW-Error-Code") != "" {
			t.Errorf("%d: %s %s: got %d, want the provider's %d\n%s", i, s.method, s.path, a.Status, s.status, a.Body)
		}
		w.Eventually("settled", eventually, func() bool { return w.spent("requests") == s.requests })
	}
	if got := w.spent("tokens"); got != 15 {
		t.Errorf("got %d tokens, want the 15 of the response that was made", got)
	}
	if a := w.send("GET", path, "", ""); a.Status != 401 {
		t.Errorf("without a key: got %d, want 401", a.Status)
	}
	if a := w.send("GET", "/v1/responses/..%2Ffiles", secret, ""); a.Status != 400 && a.Status != 404 {
		t.Errorf("an id that is a path: got %d", a.Status)
	}
	w.settled()
}

func TestTeamsWithAProviderEachDoNotSeeEachOthersResponses(t *testing.T) {
	first, second := gatewaytest.StartProvider(t, fakellm.Options{}), gatewaytest.StartProvider(t, fakellm.Options{})
	set := setup{
		providers: "{name: first, dialect: openai, base_url: " + first.URL + "/v1, api_keys: [sk-a]}\n{name: second, dialect: openai, base_url: " + second.URL + "/v1, api_keys: [sk-b]}",
		models:    "{name: mine, targets: [{provider: first, model: sim-out5}]}\n{name: theirs, targets: [{provider: second, model: sim-out5}]}",
	}
	w := start(t, set)
	w.WriteConfig(strings.NewReplacer(
		"  - name: search\n", "  - name: search\n    models: [mine]\n", "  - name: other\n", "  - name: other\n    models: [theirs]\n",
	).Replace(set.config(w)))
	if a := w.Admin("POST", "/admin/v1/reload", ""); a.Status != 200 {
		t.Fatalf("reload: %d %s", a.Status, a.Body)
	}
	a := w.Post(secret, "/v1/responses", `{"model":"mine","input":"hi"}`)
	var made struct{ ID string }
	if err := json.Unmarshal([]byte(a.Body), &made); err != nil || made.ID == "" {
		t.Fatalf("got %d, %v\n%s", a.Status, err, a.Body)
	}
	for _, s := range []struct {
		method, key string
		status      int
	}{{"GET", other, 404}, {"DELETE", other, 404}, {"GET", secret, 200}} {
		if a := w.send(s.method, "/v1/responses/"+made.ID, s.key, ""); a.Status != s.status {
			t.Errorf("%s by %s: got %d, want %d", s.method, s.key, a.Status, s.status)
		}
	}
	w.settled()
}

func TestCountingDrawsOnRequestsAlone(t *testing.T) {
	w := start(t, setup{limits: tokensLimit() + "\n" + monthly("requests", "requests", 100) + "\n" + monthly("money", "usd", 1)})
	for i, s := range []struct{ path, body string }{
		{"/v1/messages/count_tokens", `{"model":"sim","messages":[{"role":"user","content":"hi"}]}`},
		{"/v1/responses/input_tokens", `{"model":"sim","input":"hi"}`},
	} {
		if a := w.Post(secret, s.path, s.body); a.Status != 200 {
			t.Errorf("%s: got %d\n%s", s.path, a.Status, a.Body)
		}
		if got := w.spent("requests"); got != i+1 {
			t.Errorf("%s: got %d requests, want %d", s.path, got, i+1)
		}
	}
	if tokens, money := w.spent("tokens"), w.Limit("search", "money").Remaining; tokens != 0 || money != 1 {
		t.Errorf("got %d tokens and %v dollars left, want none spent", tokens, money)
	}
	w.settled()
}
