package blackbox

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"llmgw/internal/alerts"
)

func TestAlertsAreToldOnceForTheFleetAndOutliveTheirSender(t *testing.T) {
	var mu sync.Mutex
	var got []alerts.Alert
	status := http.StatusServiceUnavailable
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var a alerts.Alert
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, &a); err != nil || !strings.HasPrefix(r.Header.Get("X-LLMGW-Signature"), "sha256=") {
			t.Errorf("got %s (%v), signed %q", body, err, r.Header.Get("X-LLMGW-Signature"))
		}
		mu.Lock()
		defer mu.Unlock()
		if status == http.StatusOK {
			got = append(got, a)
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(hook.Close)
	w := start(t, setup{
		gateways: 2, redis: true, limits: monthly("budget", "requests", 4),
		top: "alerts: {receivers: [{name: ops, url: \"" + hook.URL + "/hook?a=b\", secret: hush, allow_private: true}], " +
			"rules: [{name: budgets, on: budget, limits: [\"team/*/budget\"], at: [50, 75, 100], to: [ops]}]}",
	})
	for range 3 {
		w.Post(secret, chat, ask("sim-out1"))
	}
	tried := func() bool { return strings.Contains(w.all[0].Log()+w.all[1].Log(), "an alert cannot be delivered") }
	w.Eventually("a try that fails", 3*eventually, tried)
	w.all[0].Kill()
	mu.Lock()
	status = http.StatusOK
	mu.Unlock()
	told := func() (thresholds []int64) {
		mu.Lock()
		defer mu.Unlock()
		for _, a := range got {
			thresholds = append(thresholds, a.Threshold)
		}
		slices.Sort(thresholds)
		return thresholds
	}
	// What the dead gateway was about to send is sent when it is taken for dead.
	w.all[1].Eventually("both thresholds", 6*eventually, func() bool { return slices.Equal(told(), []int64{50, 75}) })
	w.all[0].Restart()
	w.all[0].AwaitReady()
	w.all[0].Post(secret, chat, ask("sim-out1"))
	w.Eventually("the last one", 3*eventually, func() bool { return slices.Contains(told(), 100) })
	if !slices.Equal(told(), []int64{50, 75, 100}) {
		t.Errorf("got %v", told())
	}
}

func TestAnAlertOfALoneGatewayOutlivesIt(t *testing.T) {
	var up, told atomic.Bool
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !up.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		told.Store(true)
	}))
	t.Cleanup(hook.Close)
	w := start(t, setup{limits: monthly("budget", "requests", 4), top: "records: {kind: sqlite, path: " + filepath.Join(t.TempDir(), "books.db") + "}\n" +
		"alerts: {receivers: [{name: ops, url: \"" + hook.URL + "\", format: slack, allow_private: true}], rules: [{name: budgets, on: budget, at: [25], to: [ops]}]}"})
	w.Post(secret, chat, ask("sim-out1"))
	w.Eventually("a try that fails", 3*eventually, func() bool { return strings.Contains(w.Log(), "an alert cannot be delivered") })
	w.Kill()
	up.Store(true)
	w.Restart() // what it had counted in memory is gone
	w.AwaitReady()
	w.Eventually("the alert", 6*eventually, told.Load)
}
