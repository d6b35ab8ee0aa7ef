package admin

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestWithoutATokenAStrangersNameIsRefused(t *testing.T) {
	h := New(Config{Hosts: []string{"llmgw.example.com"}})
	for host, allowed := range map[string]bool{
		"127.0.0.1:9090": true, "[::1]:9090": true, "10.0.0.7": true, "localhost:9090": true, "llmgw:9090": true, "a.localhost": true,
		"LLMGW.example.com.:9090": true, "evil.example:9090": false, "127.0.0.1.evil.example": false, "localhost.evil.example:9090": false,
	} {
		for _, s := range []struct{ method, path, body string }{{"PUT", "/admin/v1/enforcement", `{"mode":"off"}`}, {"GET", "/admin/v1/teams", ""}, {"GET", "/dashboard", ""}} {
			r := httptest.NewRequest(s.method, s.path, strings.NewReader(s.body))
			r.Host = host
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if (w.Code == http.StatusForbidden) == allowed {
				t.Errorf("%s %s as %s: got %d, allowed: want %v", s.method, s.path, host, w.Code, allowed)
			}
		}
	}
	r := httptest.NewRequest("GET", "/healthz", nil)
	r.Host = "evil.example"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Errorf("the health check: got %d", w.Code)
	}
}
