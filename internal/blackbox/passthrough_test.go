package blackbox

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestD19WhatIsNotConfiguredIsNotPassedThroughAndWhatIsIsCharged(t *testing.T) {
	w := start(t, setup{
		limits: tokensLimit() + "\n" + monthly("requests", "requests", 100),
		top:    "passthrough: [{path: /v1/moderation-log, methods: [POST], provider: sim, charge: {requests: 3, tokens: 100}}]",
	})
	for _, path := range []string{"/v1/files", "/v1/batches", "/v1/moderation-log/x", "/v1/moderation-logs", "/admin/v1/teams", "/"} {
		if a := w.Post(secret, path, "{}"); a.Status != 404 || a.Code() != "not_found" {
			t.Errorf("%s: got %d %q, want 404 not_found", path, a.Status, a.Code())
		}
	}
	if got := w.provider.Stats().Requests; got != 0 {
		t.Fatalf("%d calls reached the provider unmetered", got)
	}
	w.Post(secret, "/v1/moderation-log", `{"x":1}`) // the provider knows no such path: an error, which is refunded
	if got := w.spent("tokens"); got != 0 {
		t.Errorf("a call that failed was charged %d tokens", got)
	}
	w.settled()
}

func TestAPassedThroughAnswerIsChargedFlat(t *testing.T) {
	var saw http.Request
	files := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		saw = *r
		w.Header().Set("Content-Type", "application/x-thing")
		io.Copy(w, r.Body)
	}))
	t.Cleanup(files.Close)
	w := start(t, setup{
		limits:    tokensLimit() + "\n" + monthly("requests", "requests", 100),
		providers: "{name: files, dialect: openai, base_url: " + files.URL + "/v1, api_keys: [sk-files]}",
		top:       "passthrough: [{path: /v1/files, methods: [POST], provider: files, charge: {requests: 3, tokens: 100}}]",
	})
	a := w.Post(secret, "/v1/files?purpose=x", "not JSON", "Content-Type", "text/plain")
	if a.Status != 200 || a.Body != "not JSON" || a.Header.Get("Content-Type") != "application/x-thing" {
		t.Fatalf("got %d %q", a.Status, a.Body)
	}
	if saw.URL.Path != "/v1/files" || saw.URL.Query().Get("purpose") != "x" || saw.Header.Get("Authorization") != "Bearer sk-files" {
		t.Errorf("the provider saw %s with %v", saw.URL, saw.Header)
	}
	if got := w.spent("tokens"); got != 100 {
		t.Errorf("charged %d tokens, want 100", got)
	}
	if got := w.spent("requests"); got != 3 {
		t.Errorf("charged %d requests, want 3", got)
	}
	w.settled()
}
