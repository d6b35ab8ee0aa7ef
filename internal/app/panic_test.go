package app

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/openai"
)

// lines are a log that is written while it is read.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// faulty is a dialect with a bug that shows itself at a place that the model
// names.
type faulty struct{ dialect.Dialect }

func (d faulty) Parse(r dialect.Request) (*dialect.Call, error) {
	c, err := d.Dialect.Parse(r)
	if err == nil && c.Model == "parse" {
		panic("a bug")
	}
	return c, err
}

func (d faulty) Prepare(c *dialect.Call, to dialect.Upstream) (dialect.Outbound, error) {
	if c.Model == "prepare" {
		panic("a bug")
	}
	return d.Dialect.Prepare(c, to)
}

func (d faulty) Meter(c *dialect.Call, a dialect.Answer, o dialect.MeterOptions) dialect.Meter {
	return &faultyMeter{Meter: d.Dialect.Meter(c, a, o), model: c.Model}
}

type faultyMeter struct {
	dialect.Meter
	model string
	fed   int
}

func (m *faultyMeter) Feed(p []byte) []byte {
	m.fed++
	if m.model == "first" || m.model == "second" && m.fed == 2 {
		panic("a bug")
	}
	return m.Meter.Feed(p)
}

func (m *faultyMeter) End() []byte {
	if m.model == "end" {
		panic("a bug")
	}
	return m.Meter.End()
}

// TestABugIsSettledAndTakesNothingElseDown panics in each phase of a call.
func TestABugIsSettledAndTakesNothingElseDown(t *testing.T) {
	next := map[string]chan struct{}{} // by model: a call that has failed takes nothing from the one after it
	for _, model := range []string{"parse", "prepare", "first", "second", "end", "none"} {
		next[model] = make(chan struct{}, 1)
	}
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ Model string }
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, part := range []string{"the", " budget"} {
			fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", part)
			w.(http.Flusher).Flush()
			select { // the client has seen the first before the second is sent
			case <-next[asked.Model]:
			case <-r.Context().Done():
				return
			}
		}
		fmt.Fprint(w, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":3}}\n\ndata: [DONE]\n\n")
	}))
	defer provider.Close()
	sum := sha256.Sum256([]byte("sk-llmgw-x"))
	file := filepath.Join(t.TempDir(), "llmgw.yaml")
	if err := os.WriteFile(file, []byte(`
server: {listen: 127.0.0.1:0, admin_listen: 127.0.0.1:0}
store: {kind: memory}
providers: [{name: p, dialect: openai, base_url: "`+provider.URL+`/v1", api_keys: [sk-p], retries: {attempts: 0}}]
models: [{name: "*", targets: [{provider: p}]}]
teams: [{name: t, limits: [{name: slots, unit: concurrency, amount: 5}, {name: month, unit: tokens, amount: 100000, per: month}], keys: [{id: k, sha256: `+hex.EncodeToString(sum[:])+`}]}]
`), 0o600); err != nil {
		t.Fatal(err)
	}
	var log lines
	a, err := New(t.Context(), Options{ConfigFile: file, Stdout: io.Discard, Logger: slog.New(slog.NewJSONHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := a.close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	a.gateway.Dialects = []dialect.Dialect{faulty{openai.New()}}
	server := httptest.NewServer(a.gateway.Handler())
	defer server.Close()

	for _, s := range []struct {
		model   string
		status  int
		broken  bool
		outcome string
	}{
		{"parse", 500, false, "internal"},
		{"prepare", 500, false, "internal"},
		{"first", 500, false, "internal"},
		{"second", 200, true, "internal"},
		{"end", 200, true, "internal"},
		{"none", 200, false, "completed"},
	} {
		r, err := http.NewRequest("POST", server.URL+"/v1/chat/completions", strings.NewReader(`{"model":"`+s.model+`","stream":true,"max_tokens":50,"messages":[{"role":"user","content":"hi"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer sk-llmgw-x")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatalf("%s: %v", s.model, err)
		}
		if s.status == 200 {
			next[s.model] <- struct{}{}
			if s.model != "second" {
				next[s.model] <- struct{}{}
			}
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != s.status || (err != nil) != s.broken || strings.Contains(string(body), "a bug") {
			t.Errorf("%s: got %d, %v, want %d, broken %v\n%s", s.model, resp.StatusCode, err, s.status, s.broken, body)
		}
		want := `llmgw_requests_total{endpoint="/v1/chat/completions",model="other",outcome="` + s.outcome + `",status="` + fmt.Sprint(s.status) + `"`
		if text := scrape(a); !strings.Contains(text, want) {
			t.Errorf("%s: there is no %s", s.model, want)
		}
	}
	for _, want := range []string{
		`llmgw_reservations_open 0`, `llmgw_inflight_requests 0`,
		`llmgw_limit_remaining{mode="enforce",name="slots",owner="t",per="",scope="team",unit="concurrency"} 5`,
		`llmgw_limit_remaining{mode="enforce",name="month",owner="t",per="month",scope="team",unit="tokens"} 99986`, // of the one that did not fail
	} {
		awaitLine(t, a, want)
	}
	if got := strings.Count(log.String(), "panic while serving"); got != 5 {
		t.Errorf("%d panics were logged, want 5", got)
	}
}

// awaitLine waits until the metrics have a line: they show limits with a delay.
func awaitLine(t *testing.T, a *App, want string) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); !strings.Contains(scrape(a), want+"\n"); <-tick.C {
		if time.Since(began) > 5*time.Second {
			t.Errorf("there is no %s", want)
			return
		}
	}
}

// scrape reads the metrics.
func scrape(a *App) string {
	w := httptest.NewRecorder()
	a.metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}
