package admin

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"llmgw/internal/testenv"
)

// browse opens an address in a real browser and returns the document, without its
// script, after that ran for three seconds of the browser's own time. That time
// stands still while an answer is awaited. A message on the console fails t.
func browse(t *testing.T, url string, flags ...string) string {
	t.Helper()
	chromium := testenv.Program(t, "chromium")
	// The browser's helpers may write there a little longer than it runs, so that
	// t.TempDir, which must be able to remove it, does not fit.
	profile, err := os.MkdirTemp("", "llmgw-browser")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(profile) })
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	args := append([]string{"--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
		"--user-data-dir=" + profile, "--enable-logging=stderr", "--virtual-time-budget=3000", "--dump-dom"}, flags...)
	cmd := exec.CommandContext(ctx, chromium, append(args, url)...)
	cmd.WaitDelay = 10 * time.Second
	var dom, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &dom, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("chromium: %v\n%s", err, errs.String())
	}
	for line := range strings.Lines(errs.String()) {
		if strings.Contains(line, "CONSOLE") {
			t.Errorf("on the console: %s", line)
		}
	}
	shown, _, _ := strings.Cut(dom.String(), "<script>")
	return shown
}

func TestABrowserShowsWhatTheGatewaysAreAt(t *testing.T) {
	live := liveAnswer(t)
	var mu sync.Mutex
	asked := map[string]int{}
	admin := New(newGateway().Config)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked[r.URL.Path]++
		mu.Unlock()
		if r.URL.Path == "/dashboard/live" {
			reply(w, http.StatusOK, live)
			return
		}
		admin.ServeHTTP(w, r)
	}))
	defer server.Close()

	for _, v := range []struct {
		what, path   string
		flags        []string
		shown, never []string
	}{
		{"the overview, in the light", "/dashboard", nil, []string{`data-theme="light"`, "42.5K left", "4 in debt", "/dashboard/teams/ads", "12.4K", "&lt;b&gt;ads&lt;/b&gt;", "provider paused"}, []string{"no answer"}},
		{"the overview, in the dark", "/dashboard", []string{"--blink-settings=preferredColorScheme=0"}, []string{`data-theme="dark"`, "42.5K left"}, []string{"no answer"}},
		{"a team", "/dashboard/teams/search", nil, []string{"42.5K left", `<option value="search">`}, []string{"no answer", "4 in debt"}},
	} {
		dom := browse(t, server.URL+v.path, v.flags...)
		for _, part := range v.shown {
			if !strings.Contains(dom, part) {
				t.Errorf("%s: no %q in %s", v.what, part, dom)
			}
		}
		for _, part := range v.never {
			if strings.Contains(dom, part) {
				t.Errorf("%s: %q is shown", v.what, part)
			}
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if asked["/dashboard/live"] < 3 || len(asked) != 3 {
		t.Errorf("asked for %v", asked)
	}
}
