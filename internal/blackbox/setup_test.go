package blackbox

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"llmgw/internal/fakellm"
	"llmgw/internal/gatewaytest"
	"llmgw/internal/redistest"
)

const (
	secret = "sk-llmgw-blackbox-search"
	other  = "sk-llmgw-blackbox-other"
	chat   = "/v1/chat/completions"
)

// setup says what a case runs on. The zero setup is one gateway with counters
// in memory, one provider, and two teams without limits.
type setup struct {
	gateways  int    // 0: one
	redis     bool   // counters in a real Redis
	limits    string // of team search: list items in flow style, one a line
	keys      string // limits of its key
	common    string // of the whole gateway
	model     string // further keys of the model "*", one a line
	models    string // further models, one a line
	server    string // further keys of server
	provider  string // further keys of the provider
	store     string // further keys of store
	redisKey  string // further keys of store.redis
	top       string // further keys at the top, one a line
	providers string // further providers, one a line
	alone     bool   // nothing else runs meanwhile: the case measures time
	fake      fakellm.Options
}

// world is what a case runs on.
type world struct {
	*gatewaytest.Gateway // the first gateway
	all                  []*gatewaytest.Gateway
	provider             *gatewaytest.Provider
	redis                *redistest.Server
	books                string // the directory of the books, which all gateways share
	unbooked             string // why the books are not what limits were charged; empty: they are
	t                    *testing.T
}

func TestMain(m *testing.M) { os.Exit(gatewaytest.Main(m)) }

// start starts a case's world. After the test it checks that nothing is left
// over, unless the test has ended the gateways itself.
func start(t *testing.T, s setup) *world {
	t.Helper()
	if !s.alone {
		t.Parallel()
	}
	w := &world{t: t, provider: gatewaytest.StartProvider(t, s.fake), books: t.TempDir()}
	if s.redis {
		w.redis = redistest.Start(t)
	}
	for range max(1, s.gateways) {
		w.all = append(w.all, gatewaytest.Start(t, s.config(w)))
	}
	w.Gateway = w.all[0]
	return w
}

func (s setup) config(w *world) string {
	var b strings.Builder
	fmt.Fprintf(&b, "server:\n  listen: 127.0.0.1:0\n  admin_listen: 127.0.0.1:0\n%s", indent(2, s.server))
	if !strings.Contains(s.top, "records:") { // gateways of one machine can share a file
		fmt.Fprintf(&b, "records: {path: %q, spool: {path: %q}}\n", filepath.Join(w.books, "llmgw.db"), filepath.Join(w.books, "spool"))
	}
	if w.redis != nil {
		if s.redisKey == "" { // counts must be exact, however busy the machine is
			s.redisKey = "timeout: 2s"
		}
		fmt.Fprintf(&b, "store:\n  kind: redis\n%s  redis:\n    addrs: [%q]\n%s", indent(2, s.store), w.redis.Addr, indent(4, s.redisKey))
	} else {
		fmt.Fprintf(&b, "store:\n  kind: memory\n%s", indent(2, s.store))
	}
	fmt.Fprintf(&b, "providers:\n  - name: sim\n    dialect: openai\n    base_url: %s/v1\n    api_keys: [sk-provider]\n%s", w.provider.URL, indent(4, s.provider))
	fmt.Fprintf(&b, "  - name: sim-anthropic\n    dialect: anthropic\n    base_url: %s\n    api_keys: [sk-provider]\n", w.provider.URL)
	for _, p := range lines(s.providers) {
		fmt.Fprintf(&b, "  - %s\n", p)
	}
	fmt.Fprintf(&b, "models:\n  - name: \"*\"\n    targets: [{provider: sim}, {provider: sim-anthropic}]\n    prices: {input: 1, output: 4}\n%s", indent(4, s.model))
	for _, m := range lines(s.models) {
		fmt.Fprintf(&b, "  - %s\n", m)
	}
	b.WriteString(indent(0, s.top))
	list(&b, "limits", 0, s.common)
	b.WriteString("teams:\n  - name: search\n")
	list(&b, "limits", 4, s.limits)
	fmt.Fprintf(&b, "    keys:\n      - id: search-key\n        sha256: %s\n", gatewaytest.SHA256(secret))
	list(&b, "limits", 8, s.keys)
	fmt.Fprintf(&b, "  - name: other\n    keys: [{id: other-key, sha256: %s}]\n", gatewaytest.SHA256(other))
	return b.String()
}

// list writes a list of items, one a line; nothing if there are none.
func list(b *strings.Builder, name string, depth int, items string) {
	if strings.TrimSpace(items) == "" {
		return
	}
	pad := strings.Repeat(" ", depth)
	fmt.Fprintf(b, "%s%s:\n", pad, name)
	for _, item := range lines(items) {
		fmt.Fprintf(b, "%s  - %s\n", pad, item)
	}
}

func indent(depth int, text string) string {
	var b strings.Builder
	for _, l := range lines(text) {
		fmt.Fprintf(&b, "%s%s\n", strings.Repeat(" ", depth), l)
	}
	return b.String()
}

func lines(text string) []string {
	var all []string
	for _, l := range strings.Split(text, "\n") {
		if l = strings.TrimSpace(l); l != "" {
			all = append(all, l)
		}
	}
	return all
}

// ask is a chat request for a scripted model. The prompt's words are counted by
// the gateway; what the provider reports is the script's.
func ask(model string, more ...string) string {
	return fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"hi"}]%s}`, model, strings.Join(append([]string{""}, more...), ","))
}

// promptTokens is what the gateway counts for ask's prompt: 1 for its word, 4
// around the message, 3 for the answer's start.
const promptTokens = 8

// bound is a maximum of output such that ask reserves total tokens.
func bound(total int) string { return fmt.Sprintf(`"max_tokens":%d`, total-promptTokens) }

// send sends a request of any method with a key, none if it is empty, and
// returns the whole answer.
func (w *world) send(method, path, key, body string, headers ...string) gatewaytest.Answer {
	w.t.Helper()
	r, err := http.NewRequest(method, w.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // read to its end
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, path, err)
	}
	return gatewaytest.Answer{Status: resp.StatusCode, Header: resp.Header, Body: string(b)}
}

// eventually bounds what the gateway does in its own time.
const eventually = 10 * time.Second

// together sends n requests at once, in turn to all gateways, and returns the
// answers.
func (w *world) together(n int, body string) []gatewaytest.Answer {
	w.t.Helper()
	answers := make([]gatewaytest.Answer, n)
	var ready, done sync.WaitGroup
	gate := make(chan struct{})
	ready.Add(n)
	for i := range n {
		done.Go(func() {
			ready.Done()
			<-gate
			a, err := w.all[i%len(w.all)].Try(secret, chat, body)
			if err != nil {
				w.t.Errorf("request %d: %v", i, err)
			}
			answers[i] = a
		})
	}
	ready.Wait()
	close(gate)
	done.Wait()
	return answers
}

// count is how many answers have that status.
func count(answers []gatewaytest.Answer, status int) int {
	n := 0
	for _, a := range answers {
		if a.Status == status {
			n++
		}
	}
	return n
}

// settled waits until no reservation is open, and checks the books: every
// reserved token is used or refunded, and the limits hold nothing.
func (w *world) settled() {
	w.t.Helper()
	var reserved, used, refunded, overrun float64
	for _, g := range w.all {
		g.Eventually("no request and no reservation open", 10*time.Second, func() bool {
			m := g.Metrics()
			return m.Sum("llmgw_reservations_open") == 0 && m.Sum("llmgw_inflight_requests") == 0
		})
		m := g.Metrics()
		reserved += m.Sum("llmgw_reserved_tokens_total")
		refunded += m.Sum("llmgw_refunded_tokens_total")
		overrun += m.Sum("llmgw_overrun_tokens_total")
		used += m.Sum("llmgw_tokens_total", "kind", "input") + m.Sum("llmgw_tokens_total", "kind", "output")
	}
	if reserved != used+refunded-overrun {
		w.t.Errorf("reserved %v, but used %v + refunded %v − overrun %v", reserved, used, refunded, overrun)
	}
	for _, l := range w.Team("search").Limits {
		if l.Unit == "concurrency" && l.Remaining != l.Amount {
			w.t.Errorf("%s: got %v free slots, want all %v", l.Name, l.Remaining, l.Amount)
		}
		if l.Open != 0 {
			w.t.Errorf("%s: got %v still open, want nothing", l.Name, l.Open)
		}
	}
	w.booked()
}

// booked compares what the books of the month say was charged to team search with
// what its limits of the month were charged: the two are the same (B1). A month
// that ends meanwhile is not compared.
func (w *world) booked() {
	w.t.Helper()
	if w.unbooked != "" {
		w.t.Logf("the books are not compared: %s", w.unbooked)
		return
	}
	month := time.Now().UTC().Format("2006-01") + "-01T00:00:00Z"
	for _, l := range w.Team("search").Limits {
		column := map[string]string{"tokens": "charged", "usd": "usd"}[l.Unit]
		if column == "" || l.Per != "month" || l.Scope != "team" {
			continue
		}
		spent, said := 0.0, ""
		same := func() bool {
			spent = l.Amount - w.Limit("search", l.Name).Remaining
			said = w.Admin("GET", "/admin/v1/usage?group_by=team&team=search&per=month&from="+month, "").Body
			var doc struct{ Rows []map[string]any }
			if json.Unmarshal([]byte(said), &doc) != nil {
				return false
			}
			booked := 0.0
			for _, row := range doc.Rows {
				booked += row[column].(float64)
			}
			return math.Abs(booked-spent) < 5e-7 // a micro-dollar is the least that is counted
		}
		deadline := time.Now().Add(6 * eventually) // of two busy gateways one waits for the other
		for !same() && time.Now().Before(deadline) {
			time.Sleep(20 * time.Millisecond)
		}
		if !same() && month == time.Now().UTC().Format("2006-01")+"-01T00:00:00Z" {
			w.t.Errorf("%s was charged %v, and the books say %s", l.Name, spent, said)
		}
	}
}

// monthly is a limit that does not refill within a test.
func monthly(name, unit string, amount int) string {
	return fmt.Sprintf("{name: %s, unit: %s, amount: %d, per: month}", name, unit, amount)
}

// copyAll reads an answer's body to its end.
func copyAll(to io.Writer, resp *http.Response) error {
	_, err := io.Copy(to, resp.Body)
	return err
}
