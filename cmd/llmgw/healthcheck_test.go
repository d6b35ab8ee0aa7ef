package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestAHealthCheckFailsUnlessTheGatewayIsReady(t *testing.T) {
	status := http.StatusOK
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			status = http.StatusNotFound
		}
		if status == http.StatusFound {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(status)
	})
	plain, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	defer plain.Close()
	defer secure.Close()
	closed := httptest.NewServer(handler)
	closed.Close()
	for _, s := range []struct {
		what, url string
		status    int
		code      int
		err       string
	}{
		{"ready", plain.URL, http.StatusOK, exitOK, ""},
		{"ready, with a certificate of another name", secure.URL, http.StatusOK, exitOK, ""},
		{"draining", plain.URL, http.StatusServiceUnavailable, exitProblem, "answers 503"},
		{"a redirect is no answer of the gateway", plain.URL, http.StatusFound, exitProblem, "answers 302"},
		{"nobody there", closed.URL, http.StatusOK, exitProblem, "refused"},
		{"no URL", "127.0.0.1", http.StatusOK, exitProblem, "not a URL"},
	} {
		status = s.status
		code, out, errs := called(t, "healthcheck", s.url+"/readyz")
		if code != s.code || out != "" || !strings.Contains(errs, s.err) || (s.err == "") != (errs == "") {
			t.Errorf("%s: got code %d, stdout %q, stderr %q", s.what, code, out, errs)
		}
	}
	t.Setenv("LLMGW_LISTEN", strings.TrimPrefix(plain.URL, "http://"))
	status = http.StatusOK
	if code, _, errs := called(t, "healthcheck"); code != exitOK {
		t.Errorf("by LLMGW_LISTEN: got code %d, %s", code, errs)
	}
}

func TestAHealthCheckFindsTheGatewayOfThisMachine(t *testing.T) {
	for listen, want := range map[string]string{
		"":             "http://127.0.0.1:8080/readyz",
		":8000":        "http://127.0.0.1:8000/readyz",
		"0.0.0.0:8000": "http://127.0.0.1:8000/readyz",
		"[::]:8000":    "http://127.0.0.1:8000/readyz",
		"[::1]:8000":   "http://[::1]:8000/readyz",
		"10.0.0.5:80":  "http://10.0.0.5:80/readyz",
	} {
		if got := readyURL(listen); got != want {
			t.Errorf("%q: got %s, want %s", listen, got, want)
		}
	}
}
