package blackbox

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestASecondSignalCutsAndSettlesWhatRuns(t *testing.T) {
	w := start(t, setup{redis: true, server: "drain_delay: 1h\nshutdown_grace: 1h", limits: tokensLimit()})
	resp, err := w.Open(secret, chat, ask("sim-hold1h", streamed, bound(100)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // it is cut
	w.Signal(syscall.SIGTERM)
	w.Eventually("not ready", eventually, func() bool { return w.Admin("GET", "/readyz", "").Status == 503 })
	began := time.Now()
	w.Signal(syscall.SIGTERM)
	if code := w.Wait(); code != 1 {
		t.Errorf("got the exit code %d, want 1: a stream was cut", code)
	}
	if took := time.Since(began); took > eventually {
		t.Errorf("it took %v", took)
	}
	for _, want := range []string{`"outcome":"shutdown"`, "1 calls were still running at a second signal and were cut"} {
		if !strings.Contains(w.Log(), want) {
			t.Errorf("the log does not say %s:\n%s", want, w.Log())
		}
	}
	w.Restart()
	if got := w.Team("search").Limits[0]; got.Open != 0 {
		t.Errorf("got %v still reserved, want 0", got.Open)
	}
}

func TestBothPlanesTellThatTheyLiveToWhoeverAsks(t *testing.T) {
	w := start(t, setup{server: "admin_token: hush"})
	for _, url := range []string{w.URL, w.AdminURL} {
		for _, method := range []string{"GET", "HEAD"} {
			r, err := http.NewRequest(method, url+"/healthz", nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != 200 {
				t.Errorf("%s %s: got %d, want 200", method, url, resp.StatusCode)
			}
		}
	}
}
