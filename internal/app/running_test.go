package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"llmgw/internal/fakellm"
)

// running is a gateway in this process, with its store in memory and a simulated
// provider beside it.
type running struct {
	*App
	t    *testing.T
	file string // its configuration
	log  *lines
	stop func() error // stops it and returns what Run did; the test's end calls it, too
}

const adminToken = "an-admin-token"

// sections are the configuration of a test. server are members of its server
// section, beside its addresses.
func sections(server, teams, provider string) string {
	return `
server: {listen: 127.0.0.1:0, admin_listen: 127.0.0.1:0, shutdown_grace: 2s` + server + `}
store: {kind: memory}
providers: [{name: p, dialect: openai, base_url: "` + provider + `/v1", api_keys: [sk-p], retries: {attempts: 0}}]
models: [{name: "*", targets: [{provider: p}], default_max_output: 64}, {name: priced, targets: [{provider: p, model: sim}], prices: {input: 1, output: 2}}]
teams: [{name: t, limits: [{name: tpm, unit: tokens, amount: 100k, per: minute}], keys: [{id: k, sha256: ` + digestOf("sk-llmgw-x") + `}]}` + teams + `]
`
}

func digestOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// run starts a gateway whose server section has these members, such as
// ", admin_token: x". It runs until the test ends.
func run(t *testing.T, server string) *running {
	t.Helper()
	provider := httptest.NewServer(fakellm.New(fakellm.Options{}))
	t.Cleanup(provider.Close)
	file := filepath.Join(t.TempDir(), "llmgw.yaml")
	r := &running{t: t, file: file, log: &lines{}}
	r.write(sections(server, "", provider.URL))
	r.start(Options{ConfigFile: file})
	return r
}

// start starts the gateway with o, but for its log.
func (r *running) start(o Options) {
	r.t.Helper()
	o.Logger = slog.New(slog.NewJSONHandler(r.log, nil))
	a, err := New(r.t.Context(), o)
	if err != nil {
		r.t.Fatal(err)
	}
	r.App = a
	ctx, stop := context.WithCancel(context.WithoutCancel(r.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	var result error
	done := false
	r.stop = func() error {
		if stop(); !done {
			result, done = <-ended, true
		}
		return result
	}
	r.t.Cleanup(func() { _ = r.stop() }) // a test that wants the error has asked
	r.await("readiness", func() bool { _, ok := a.ready(); return ok })
}

// write replaces the configuration.
func (r *running) write(config string) {
	r.t.Helper()
	if err := os.WriteFile(r.file, []byte(config), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// change replaces a part of the configuration.
func (r *running) change(from, to string) {
	r.t.Helper()
	text, err := os.ReadFile(r.file)
	if err != nil || !strings.Contains(string(text), from) {
		r.t.Fatalf("%q is not in the configuration (%v)", from, err)
	}
	r.write(strings.ReplaceAll(string(text), from, to))
}

// await polls until met.
func (r *running) await(what string, met func() bool) {
	r.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); !met(); <-tick.C {
		if time.Since(began) > 20*time.Second {
			r.t.Fatalf("no %s\n%s", what, r.log)
		}
	}
}

// reply is a response that was read to its end.
type reply struct {
	*http.Response
	body string
}

// send sends a request by client.
func (r *running) send(client *http.Client, method, url, body string, header ...string) reply {
	r.t.Helper()
	q, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(q)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return reply{resp, string(text)}
}

// admin asks the admin plane over plain HTTP with its token.
func (r *running) admin(method, path, body string) reply {
	r.t.Helper()
	return r.send(http.DefaultClient, method, "http://"+r.AdminAddr()+path, body, "Authorization", "Bearer "+adminToken)
}

// chat asks for a chat with model.
func (r *running) chat(model string) reply {
	r.t.Helper()
	return r.send(http.DefaultClient, "POST", "http://"+r.Addr()+"/v1/chat/completions",
		`{"model":"`+model+`","max_tokens":20,"messages":[{"role":"user","content":"hi"}]}`,
		"Authorization", "Bearer sk-llmgw-x", "Content-Type", "application/json")
}
