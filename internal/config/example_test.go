package config

import (
	"bytes"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"llmgw/configs"
	"llmgw/internal/budget"
)

const configsDir = "../../configs"

// someHash is a different SHA-256 hash for each variable that asks for one.
func someHash(name string) string { return fmt.Sprintf("%064x", []byte(name)) }

// fullEnv has every variable that the example files name.
func fullEnv(name string) (string, bool) {
	if strings.HasSuffix(name, "_SHA256") {
		return someHash(name), true
	}
	if name == "REDIS_ADDR" || name == "REDIS_PASSWORD" {
		return "", true
	}
	return "value-of-" + name, true
}

// parseShipped parses a file of configs/ with all that it names.
func parseShipped(t *testing.T, name string) *Config {
	t.Helper()
	src, err := os.ReadFile(filepath.Join(configsDir, name))
	if err != nil {
		t.Fatal(err)
	}
	c, err := Parse(name, src, Lookups{
		Env:  fullEnv,
		File: func(path string) ([]byte, error) { return []byte("content-of-" + filepath.Base(path) + "\n"), nil },
	})
	if err != nil {
		t.Fatalf("got errors:\n%v", err)
	}
	return c
}

func TestEveryShippedConfigurationLoadsWithoutWarnings(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(configsDir, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, filepath.Base(f))
	}
	for _, name := range []string{"default.yaml", "llmgw.example.yaml", "single.yaml", "redis.yaml", "cluster.yaml", "providers.yaml"} {
		if !slices.Contains(names, name) {
			t.Errorf("configs/ has no %s", name)
		}
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			c := parseShipped(t, name)
			for _, w := range c.Warnings {
				t.Errorf("got the warning %v, want none", w)
			}
		})
	}
}

// TestTheExampleHasEveryKey asks each object of the example what keys it could
// have, and wants to see all of them somewhere.
func TestTheExampleHasEveryKey(t *testing.T) {
	src, err := os.ReadFile(filepath.Join(configsDir, "llmgw.example.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	root, problems := readTree("example", src)
	if root == nil {
		t.Fatal(problems)
	}
	const stranger = "an_unknown_key_like_no_other"
	var objects []*node
	bounds := map[*node]bool{} // of prices: the classes of tokens again; and names of people's own
	walk(root, func(n *node) {
		for _, e := range n.entries {
			bounds[e.value] = e.key.text == "200000" || e.key.text == "match"
		}
		if n.kind == object && !bounds[n] {
			objects = append(objects, n)
		}
	})
	missing := map[string]map[string]bool{} // by the kind of object: its list of keys
	for _, o := range objects {
		o.entries = append(o.entries, entry{
			key:   &node{kind: scalar, raw: stranger, text: stranger},
			value: &node{kind: scalar},
		})
		d := newDecoder(0)
		d.config(root)
		has := o.entries[:len(o.entries)-1]
		o.entries = has
		if strings.Contains(Errors(d.problems).Error(), stranger+"\": a bound is a number") {
			continue // its keys are values
		}
		_, known, found := strings.Cut(Errors(d.problems).Error(), stranger+"\": here can be ")
		if !found {
			t.Fatalf("the object at %d:%d took the unknown key", o.line, o.column)
		}
		known, _, _ = strings.Cut(known, "\n")
		if missing[known] == nil {
			missing[known] = map[string]bool{}
			for _, key := range strings.Split(strings.ReplaceAll(known, " or ", ", "), ", ") {
				missing[known][key] = true
			}
		}
		for _, e := range has {
			delete(missing[known], e.key.text)
		}
	}
	for known, keys := range missing {
		for key := range keys {
			t.Errorf("no object of {%s} in the example has %q", known, key)
		}
	}
	if len(missing) < 15 {
		t.Errorf("got %d kinds of objects, want at least 15: %v", len(missing), slices.Sorted(maps.Keys(missing)))
	}
}

// walk visits n and everything under it.
func walk(n *node, visit func(*node)) {
	visit(n)
	for _, item := range n.items {
		walk(item, visit)
	}
	for _, e := range n.entries {
		walk(e.value, visit)
	}
}

func TestAFileThatSaysNothingHasTheDocumentedDefaults(t *testing.T) {
	got, err := Parse("small.yaml", []byte("enforcement: enforce\n"), Lookups{})
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		Server: Server{
			Listen: "127.0.0.1:8080", AdminListen: "127.0.0.1:9090", MaxBodyBytes: 33_554_432, MaxBodiesBytes: 536_870_912,
			ShutdownGrace: 30 * time.Second, OnClientGone: "cancel",
			Drain: Drain{MaxTime: 30 * time.Second, MaxBytes: 10_485_760}, MaxWaiting: 1000,
			MaxConnections: 10_000, IPPrefix: IPPrefix{V4: 32, V6: 64},
		},
		Store: Store{
			Kind: "memory", Heartbeat: time.Second, ReclaimAfter: 10 * time.Second, CrashCharge: "progress", Leases: "auto",
			Redis: Redis{Addrs: []string{"127.0.0.1:6379"}, Prefix: "llmgw", Timeout: 20 * time.Millisecond},
		},
		Records: Records{
			Kind: "sqlite", Path: "llmgw.db", Requests: "all",
			Keep:  Keep{Requests: 720 * time.Hour, Minutes: 336 * time.Hour, Hours: 9600 * time.Hour},
			Spool: Spool{Path: "llmgw-spool", MaxBytes: 1_073_741_824},
		},
		Enforcement: "enforce",
		Telemetry:   Telemetry{MaxLabelValues: 1000},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// withoutExamples is the example without what its comments call not the default.
func withoutExamples(c *Config) Config {
	small := *c
	small.Server.TrustedProxies, small.Server.AdminToken, small.Server.AdminHosts = nil, "", nil
	small.Server.Admins, small.Alerts = nil, Alerts{}
	small.Store.Kind, small.Records.Chosen = "memory", false
	small.Providers, small.Models, small.Teams = nil, nil, nil
	small.Limits, small.Passthrough, small.Warnings, small.Descriptors = nil, nil, nil, nil
	return small
}

func TestTheExampleSaysTheDefaultsWhereItSaysSo(t *testing.T) {
	example := parseShipped(t, "llmgw.example.yaml")
	nothing, err := Parse("small.yaml", []byte("enforcement: enforce\n"), Lookups{})
	if err != nil {
		t.Fatal(err)
	}
	if got := withoutExamples(example); !reflect.DeepEqual(&got, nothing) {
		t.Errorf("got  %+v\nwant %+v", got, *nothing)
	}

	plain := mustParse(t, `
providers: [{name: p, dialect: openai, base_url: "https://api.openai.com/v1"}]
models: [{name: gpt-4o, targets: [{provider: p}]}]
teams: [{name: search, limits: [{name: tpm, unit: tokens, amount: 100k, per: minute}]}]
`)
	p, want := example.Providers[0], plain.Providers[0]
	want.Name, want.APIKeys, want.Limits = p.Name, p.APIKeys, p.Limits
	if !reflect.DeepEqual(p, want) {
		t.Errorf("provider: got %+v\nwant %+v", p, want)
	}
	if got := p.Limits.Window; got != plain.Providers[0].Limits.Window {
		t.Errorf("window: got %v, want %v", got, plain.Providers[0].Limits.Window)
	}
	m, wantModel := example.Models[0], plain.Models[0]
	wantModel.Targets, wantModel.Encoding, wantModel.MaxOutput = m.Targets, m.Encoding, m.MaxOutput
	wantModel.Prices, wantModel.Limits = m.Prices, m.Limits
	if !reflect.DeepEqual(m, wantModel) {
		t.Errorf("model: got %+v\nwant %+v", m, wantModel)
	}
	if got, want := *example.Teams[0].Limits[0], *plain.Teams[0].Limits[0]; !reflect.DeepEqual(got, want) {
		t.Errorf("limit: got %+v\nwant %+v", got, want)
	}
	if got := example.Teams[0].Weight; got != plain.Teams[0].Weight {
		t.Errorf("team's weight: got %d, want %d", got, plain.Teams[0].Weight)
	}
}

func TestTheExampleMeansWhatItSays(t *testing.T) {
	c := parseShipped(t, "llmgw.example.yaml")
	for _, v := range []struct {
		what      string
		got, want any
	}{
		{"trusted proxies", c.Server.TrustedProxies, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}},
		{"store", c.Store.Kind, "redis"},
		{"provider limits", c.Providers[0].Limits, ProviderLimits{5000, 800_000, 200, "window", time.Second, false}},
		{"retries", c.Providers[0].RetryAttempts, 2},
		{"timeouts", c.Providers[0].Timeouts, Timeouts{5 * time.Second, 10 * time.Minute, 2 * time.Minute}},
		{"api key", c.Providers[0].APIKeys, []string{"value-of-OPENAI_API_KEY"}},
		{"key from a file", c.Providers[2].APIKeys, []string{"content-of-bedrock-key.txt"}},
		{"targets", c.Models[0].Targets, []Target{{"openai", "gpt-4o", 1, 1}, {"azure", "my-gpt-4o-deployment", 2, 1}}},
		{"prices", c.Models[0].Prices.String(), "input: 2.5, cached_input: 1.25, cache_write: 2.5, cache_write_1h: 2.5, audio_input: 40, cached_audio_input: 2.5, " +
			"image_input: 2.5, citations: 2.5, output: 10, reasoning: 10, audio_output: 80, image_output: 10, " +
			"per_call: {web_search: 0.01, x_search: 0.005, file_search: 0.0025, code_interpreter: 0.03, source: 0.025, search_unit: 0.002, image: 0.04, request: 0}, " +
			"tiers: {flex: 0.5, priority: 1.75, fast: 2, batch: 0.5, scale: 1, optimized: 1, us: 1.1, other: 1}, above: {200000: {input: 5, output: 15}}"},
		{"passthrough", c.Passthrough, []Passthrough{
			{"/v1/files", []string{"GET", "POST"}, "openai", 1, 100}, {"/v1/batches/{id}/cancel", []string{"POST"}, "openai", 1, 0}, {"/v1/batches/**", []string{"GET"}, "openai", 1, 0},
		}},
		{"descriptors", c.Descriptors, []Descriptor{{"llm", map[string]string{"team": "*", "model": "*"}, []string{"team/{team}/tpm"}, ChargeBefore}}},
		{"team's models", c.Teams[0].Models, []string{"gpt-4o", "claude-sonnet"}},
		{"monthly", c.Teams[0].Limits[3].Amount, int64(500_000_000)},
		{"monthly's zone", c.Teams[0].Limits[3].Location.String(), "Europe/Athens"},
		{"candidate", c.Teams[0].Limits[4].Candidate, int64(4500)},
		{"key's id", c.Teams[0].Keys[0].ID, "search-prod"},
	} {
		if !reflect.DeepEqual(v.got, v.want) {
			t.Errorf("%s: got %v, want %v", v.what, v.got, v.want)
		}
	}
}

func TestTheBuiltInConfigurationServesTheDemoKey(t *testing.T) {
	c, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	if c.Store.Kind != "memory" {
		t.Errorf("got the store %q, want memory", c.Store.Kind)
	}
	key := c.Teams[0].Keys[0]
	if want := mustHash(DemoKey); key.ID != "demo" || c.Teams[0].Name != "demo" || key.SHA256 != want {
		t.Errorf("got key %q of team %q with hash %x, want demo of demo with %x", key.ID, c.Teams[0].Name, key.SHA256, want)
	}
	var units []budget.Unit
	for _, l := range c.Teams[0].Limits {
		units = append(units, l.Unit)
	}
	if want := []budget.Unit{budget.Tokens, budget.Requests, budget.Concurrency, budget.USD}; !slices.Equal(units, want) {
		t.Errorf("got limits of %v, want %v", units, want)
	}
	if last := c.Models[len(c.Models)-1]; last.Name != "*" || last.Targets[0] != (Target{"simulated", "", 1, 1}) {
		t.Errorf("got the last model %+v, want \"*\" at simulated under the name that was asked for", last)
	}
	if file, err := os.ReadFile(filepath.Join(configsDir, "default.yaml")); err != nil || !bytes.Equal(file, []byte(configs.Default())) {
		t.Errorf("the embedded text is not configs/default.yaml (%v)", err)
	}
}
