package config

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"llmgw/internal/tokens"
)

func TestEverythingThatAServerCanSay(t *testing.T) {
	got := mustParse(t, `
server:
  listen: ":1"
  admin_listen: "[::1]:0"
  admin_token: t
  admins: [{name: lead, sha256: 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae, role: operator, teams: [search]}, {name: all, sha256: fcde2b2edba56bf408601fb721fe9b5c338d10ee429ea04fae5511b68fbf8fb9, role: viewer}]
  max_body_bytes: 1KiB
  max_bodies_bytes: 3KiB
  trusted_proxies: [192.0.2.1, "2001:db8::/32"]
  drain_delay: 1s
  shutdown_grace: 2s
  on_client_gone: drain
  drain: {max_time: 3s, max_bytes: 4}
  max_waiting: 0
  expose_upstream_limits: true
  tls: {cert_file: c.pem, key_file: k.pem}
  admin_tls: {cert_file: ac.pem, key_file: ak.pem}
  admin_hosts: [Gateway.example]
  max_connections_per_address: 7
  ip_prefix: {v4: 24, v6: 56}
  socket: /run/llmgw.sock
  socket_key: ci
  ratelimit_listen: ":8081"
  ratelimit_tls: {cert_file: r.pem, key_file: rk.pem}
teams: [{name: search}]
`).Server
	want := Server{
		Listen: ":1", AdminListen: "[::1]:0", AdminToken: "t",
		Admins:       []Admin{{"lead", sha256.Sum256([]byte("foo")), "operator", []string{"search"}}, {"all", sha256.Sum256([]byte("bar")), "viewer", nil}},
		MaxBodyBytes: 1024, MaxBodiesBytes: 3072,
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("2001:db8::/32")},
		DrainDelay:     time.Second, ShutdownGrace: 2 * time.Second, OnClientGone: DrainAnswer,
		Drain: Drain{MaxTime: 3 * time.Second, MaxBytes: 4}, ExposeUpstreamLimits: true,
		TLS: TLS{CertFile: "c.pem", KeyFile: "k.pem"}, AdminTLS: TLS{CertFile: "ac.pem", KeyFile: "ak.pem"},
		AdminHosts: []string{"gateway.example"}, MaxConnections: 7, IPPrefix: IPPrefix{V4: 24, V6: 56}, Socket: "/run/llmgw.sock", SocketKey: "ci", RatelimitListen: ":8081", RatelimitTLS: TLS{CertFile: "r.pem", KeyFile: "rk.pem"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestTwoPlanesMayBothTakeAnyPort(t *testing.T) {
	c := mustParse(t, "server: {listen: 127.0.0.1:0, admin_listen: 127.0.0.1:0}")
	if c.Server.Listen != c.Server.AdminListen {
		t.Errorf("got %q and %q", c.Server.Listen, c.Server.AdminListen)
	}
}

func TestEverythingThatAStoreCanSay(t *testing.T) {
	got := mustParse(t, `
store:
  kind: redis
  heartbeat: 100ms
  reclaim_after: 200ms
  crash_charge: full
  leases: off
  redis: {addrs: [a:1, b:2], master_name: m, username: u, password: "p w", db: 3, tls: true, prefix: x, timeout: 1ms}
`).Store
	want := Store{
		Kind: "redis", Heartbeat: 100 * time.Millisecond, ReclaimAfter: 200 * time.Millisecond, CrashCharge: "full", Leases: "off",
		Redis: Redis{Addrs: []string{"a:1", "b:2"}, MasterName: "m", Username: "u", Password: "p w", DB: 3, TLS: true, Prefix: "x", Timeout: time.Millisecond},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestTelemetryAndTheSwitch(t *testing.T) {
	c := mustParse(t, "telemetry: {otlp_endpoint: \"http://otel:4318/\", max_label_values: 5}\nenforcement: off\n")
	if want := (Telemetry{"http://otel:4318", 5}); c.Telemetry != want || c.Enforcement != Off {
		t.Errorf("got %+v and %q, want %+v and off", c.Telemetry, c.Enforcement, want)
	}
}

func TestEverythingThatAProviderCanSay(t *testing.T) {
	got := mustParse(t, `
providers:
  - {name: a, dialect: openai, base_url: "https://a/v1///", flavor: vllm, api_keys: [k1, k2], max_wait: 0s, retries: {attempts: 0},
     timeouts: {connect: 1s, first_byte: 2s, idle: 3s}, inject_usage: off, failures_count: false,
     limits: {requests_per_minute: 10M, tokens_per_minute: 10000M, concurrency: 3, kind: bucket, window: 10s, per_key: true}}
  - {name: b, dialect: azure, base_url: https://b, api_version: 2024-10-21-preview}
  - {name: c, dialect: bedrock, base_url: https://c, region: us-gov-west-1, api_keys: ["AKIA:secret:token"]}
  - {name: d, dialect: bedrock, base_url: https://d, api_keys: [bearer]}
`).Providers
	a := Provider{
		Name: "a", Dialect: "openai", Flavor: "vllm", BaseURL: "https://a/v1", APIKeys: []string{"k1", "k2"},
		Limits:   ProviderLimits{RequestsPerMinute: 10_000_000, TokensPerMinute: 10_000_000_000, Concurrency: 3, Kind: "bucket", Window: 10 * time.Second, PerKey: true},
		Timeouts: Timeouts{time.Second, 2 * time.Second, 3 * time.Second}, InjectUsage: "off",
	}
	b, c, d := defaultProvider(), defaultProvider(), defaultProvider()
	b.Name, b.Dialect, b.BaseURL, b.APIVersion = "b", "azure", "https://b", "2024-10-21-preview"
	c.Name, c.Dialect, c.BaseURL, c.Region, c.APIKeys = "c", "bedrock", "https://c", "us-gov-west-1", []string{"AKIA:secret:token"}
	d.Name, d.Dialect, d.BaseURL, d.APIKeys = "d", "bedrock", "https://d", []string{"bearer"}
	for i, want := range []Provider{a, b, c, d} {
		if !reflect.DeepEqual(got[i], want) {
			t.Errorf("got  %+v\nwant %+v", got[i], want)
		}
	}
}

func TestEveryDialectAndFlavorOfTheProductIsKnown(t *testing.T) {
	for _, dialect := range strings.Fields("openai azure anthropic gemini bedrock cohere ollama") {
		c := mustParse(t, fmt.Sprintf("providers: [{name: p, dialect: %s, base_url: http://a}]", dialect))
		want := ""
		if dialect == "openai" {
			want = "openai"
		}
		if got := c.Providers[0]; got.Dialect != dialect || got.Flavor != want {
			t.Errorf("got %q of flavor %q, want %q of %q", got.Dialect, got.Flavor, dialect, want)
		}
	}
	for _, flavor := range strings.Fields("openai mistral deepseek groq openrouter together fireworks xai perplexity vllm llamacpp lmstudio") {
		c := mustParse(t, fmt.Sprintf("providers: [{name: p, dialect: openai, flavor: %s, base_url: http://a}]", flavor))
		if got := c.Providers[0].Flavor; got != flavor {
			t.Errorf("got %q, want %q", got, flavor)
		}
	}
}

func TestWhatAModelLeavesOut(t *testing.T) {
	for _, s := range []struct {
		what string
		text string
		want func(m *Model)
	}{
		{"nearly everything", "name: m", func(*Model) {}},
		{"a maximum below the default is the default", "name: m, max_output: 100", func(m *Model) { m.MaxOutput, m.DefaultMaxOutput = 100, 100 }},
		{"a maximum above it is not", "name: m, max_output: 100k", func(m *Model) { m.MaxOutput = 100_000 }},
		{"a default that is the maximum", "name: m, max_output: 5, default_max_output: 5", func(m *Model) { m.MaxOutput, m.DefaultMaxOutput = 5, 5 }},
		{"weights that are not said are 1", "name: m, weights: {cached_input: 0, output: 2.5}", func(m *Model) { m.Weights.CachedInput, m.Weights.Output = 0, 2_500_000 }},
		{"cached prices that are not said are the input's", "name: m, prices: {input: 2.5, output: 10}", func(m *Model) {
			m.Prices = pricesOf(2_500_000, 10_000_000, nil)
		}},
		{"prices that are said", "name: m, prices: {output: 0, input: 0.000001, cache_write: 1, cached_input: 0}", func(m *Model) {
			m.Prices = pricesOf(1, 0, map[tokens.Class]tokens.Rate{tokens.CacheWrite: 1_000_000, tokens.CachedInput: 0})
		}},
		{"the rest", "name: m, encoding: cl100k_base, reserve_output: learned, cap_output: true", func(m *Model) {
			m.Encoding, m.ReserveOutput, m.CapOutput = "cl100k_base", "learned", true
		}},
		{"any other name is passed on", `name: "*"`, func(m *Model) { m.Name, m.Targets[0].Model = "*", "" }},
	} {
		t.Run(s.what, func(t *testing.T) {
			c := mustParse(t, "providers: [{name: p, dialect: openai, base_url: http://a}]\nmodels: [{targets: [{provider: p}], "+s.text+"}]\n")
			want := Model{
				Name: "m", Targets: []Target{{"p", "m", 1, 1}}, DefaultMaxOutput: 4096, ReserveOutput: "max",
				Weights: tokens.Rates{Input: 1_000_000, CachedInput: 1_000_000, CacheWrite: 1_000_000, Output: 1_000_000},
			}
			s.want(&want)
			if got := c.Models[0]; !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

// pricesOf is a price list of input, output and some other classes.
func pricesOf(input, output tokens.Rate, others map[tokens.Class]tokens.Rate) *tokens.Prices {
	p := new(tokens.Prices)
	p.Set(tokens.Input, input)
	p.Set(tokens.Output, output)
	for c, r := range others {
		p.Set(c, r)
	}
	p.Fill()
	return p
}

func TestOneProviderMayServeAModelUnderSeveralNames(t *testing.T) {
	c := mustParse(t, "providers: [{name: p, dialect: openai, base_url: http://a}]\nmodels: [{name: m, targets: [{provider: p, weight: 3}, {provider: p, model: n, weight: 0}]}]\n")
	if got, want := c.Models[0].Targets, []Target{{"p", "m", 1, 3}, {"p", "n", 1, 0}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestAPassthroughChargesOneRequestUnlessItSaysOtherwise(t *testing.T) {
	got := mustParse(t, providersAndModels+`
passthrough:
  - {path: /v1/files, methods: [GET, POST], provider: p}
  - {path: /v1/files, methods: [DELETE], provider: p, charge: {tokens: 2k}}
  - {path: /v1/batches, methods: [POST], provider: p, charge: {requests: 0, tokens: 1}}
  - {path: /v1/chat, methods: [POST], provider: p}
  - {path: "/v1/batches/{id}/cancel", methods: [POST], provider: p}
  - {path: /v1/files/**, methods: [GET], provider: p}
  - {path: "/openai/files/{id}", methods: [GET], provider: p}
`).Passthrough
	want := []Passthrough{
		{"/v1/files", []string{"GET", "POST"}, "p", 1, 0},
		{"/v1/files", []string{"DELETE"}, "p", 1, 2000},
		{"/v1/batches", []string{"POST"}, "p", 0, 1},
		{"/v1/chat", []string{"POST"}, "p", 1, 0},
		{"/v1/batches/{id}/cancel", []string{"POST"}, "p", 1, 0},
		{"/v1/files/**", []string{"GET"}, "p", 1, 0},
		{"/openai/files/{id}", []string{"GET"}, "p", 1, 0},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestATeamMayUseAllModelsNoneOrSome(t *testing.T) {
	anyToo := strings.Replace(providersAndModels, "name: free", `name: "*"`, 1)
	for _, s := range []struct {
		what, src string
		want      []string
	}{
		{"all", "teams: [{name: a}]", nil},
		{"none", "teams: [{name: a, models: []}]", []string{}},
		{"some", providersAndModels + "teams: [{name: a, models: [m]}]", []string{"m"}},
		{"all, said so", "teams: [{name: a, models: [\"*\"]}]", []string{"*"}},
		{"one that only \"*\" serves", anyToo + "teams: [{name: a, models: [other]}]", []string{"other"}},
	} {
		got := mustParse(t, s.src).Teams[0]
		if !reflect.DeepEqual(got.Models, s.want) || got.Weight != 1 {
			t.Errorf("%s: got %#v and the weight %d, want %#v and 1", s.what, got.Models, got.Weight, s.want)
		}
	}
}

func TestAHashMayBeInAnyCase(t *testing.T) {
	upper := strings.ToUpper(fmt.Sprintf("%x", mustHash("secret")))
	c := mustParse(t, "teams: [{name: a, weight: 3, keys: [{id: k, sha256: "+upper+"}]}]")
	if got := c.Teams[0].Keys[0]; got.SHA256 != mustHash("secret") || got.ID != "k" || c.Teams[0].Weight != 3 {
		t.Errorf("got %+v", got)
	}
}

func TestNames(t *testing.T) {
	long := strings.Repeat("x", 128)
	for _, s := range []struct {
		text        string
		name, model bool
	}{
		{"search", true, true}, {"azAZ09", true, true}, {"a~!", false, true}, {"search-prod_2.a:b@c+d", true, true}, {long, true, true}, {"0", true, true},
		{"meta-llama/Llama-3.3-70B-Instruct", false, true}, {"*", false, true}, {long + "x", false, true}, {"a{b}", false, true},
		{strings.Repeat("x", 257), false, false}, {"", false, false}, {"a b", false, false}, {"é", false, false}, {"a\n", false, false}, {"a\x7f", false, false},
	} {
		_, err := name(s.text)
		_, err2 := modelName(s.text)
		if (err == nil) != s.name || (err2 == nil) != s.model {
			t.Errorf("%.20q: got %v and %v, want %v as a name and %v as a model", s.text, err, err2, s.name, s.model)
		}
	}
}

func TestAValueIsShownInShort(t *testing.T) {
	checkProblems(t, problemsOf(t, "enforcement: "+strings.Repeat("ä", 100), Lookups{}),
		`1:14: "`+strings.Repeat("ä", 60)+`…" is not enforce`)
}

func TestAnAmountFromOutsideIsNotTold(t *testing.T) {
	src := "limits: [{name: l, unit: tokens, amount: \"${A}\", per: hour, max_debt: 9007199254740991}]"
	got := problemsOf(t, src, Lookups{Env: func(string) (string, bool) { return "770077", true }})
	checkProblems(t, got, "1:42: this limit cannot be: its amounts cannot be counted exactly")
}

func TestTheTableHasTheLimitsOfAnyOtherModel(t *testing.T) {
	c := mustParse(t, `
providers: [{name: p, dialect: openai, base_url: http://a}]
models:
  - {name: m, targets: [{provider: p}]}
  - {name: "*", targets: [{provider: p}], limits: [{name: rest, unit: requests, amount: 1, per: minute}]}
teams:
  - {name: a, models: [m], keys: [{id: k, sha256: `+someHash("k")+`}]}
  - {name: b, models: [other], keys: [{id: l, sha256: `+someHash("l")+`}]}
`)
	var got strings.Builder
	if err := Effective(&got, c); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(got.String(), "k    a     (none)") || !strings.Contains(got.String(), "l    b     model/*/rest") {
		t.Errorf("got\n%s", got.String())
	}
}
