package config

import (
	"errors"
	"strings"
	"testing"
)

const effectiveSource = `
providers: [{name: p, dialect: openai, base_url: "http://p"}]
models:
  - {name: m, targets: [{provider: p}], prices: {input: 1, output: 1}, limits: [{name: of-m, unit: tokens, amount: 500k, per: minute}]}
  - {name: x, targets: [{provider: p}], prices: {input: 3, cached_input: 0.3, cache_write_1h: 6, output: 15, per_call: {web_search: 0.01}, tiers: {fast: 6}, above: {200k: {input: 6}}}, limits: [{name: of-x, unit: tokens, amount: 1M, per: minute}]}
limits: [{name: ip, scope: ip, unit: requests, amount: 600, per: minute, burst: 60}]
teams:
  - name: a
    models: [m]
    limits:
      - {name: slots, unit: concurrency, amount: 20, on_exceed: wait, max_wait: 5s}
      - {name: money, unit: usd, amount: 1234.5, per: month, when_store_down: closed}
    keys:
      - {id: a-1, sha256: ` + "%s" + `, limits: [{name: mine, unit: tokens, amount: 40k, per: minute, mode: shadow, candidate: {amount: 30k}}]}
      - {id: a-2, sha256: ` + "%t" + `}
`

func TestTheTableHasEveryLimitThatAKeyCanMeet(t *testing.T) {
	src := strings.NewReplacer("%s", someHash("1"), "%t", someHash("2")).Replace(effectiveSource)
	var got strings.Builder
	if err := Effective(&got, mustParse(t, src)); err != nil {
		t.Fatal(err)
	}
	want := strings.TrimPrefix(`
KEY  TEAM  LIMIT         SCOPE  UNIT         AMOUNT           BURST    ALGORITHM     ON_EXCEED  WHEN_STORE_DOWN  MODE
a-1  a     gateway/ip    ip     requests     600/minute       60       token_bucket  reject     local            enforce
a-1  a     model/m/of-m  model  tokens       500,000/minute   500,000  token_bucket  reject     local            enforce
a-1  a     team/a/slots  team   concurrency  20               -        slots         wait 5s    local            enforce
a-1  a     team/a/money  team   usd          $1,234.50/month  -        calendar      reject     closed           enforce
a-1  a     key/a-1/mine  key    tokens       40,000/minute    40,000   token_bucket  reject     local            shadow, candidate 30,000
a-2  a     gateway/ip    ip     requests     600/minute       60       token_bucket  reject     local            enforce
a-2  a     model/m/of-m  model  tokens       500,000/minute   500,000  token_bucket  reject     local            enforce
a-2  a     team/a/slots  team   concurrency  20               -        slots         wait 5s    local            enforce
a-2  a     team/a/money  team   usd          $1,234.50/month  -        calendar      reject     closed           enforce

MODEL  PRICES
m      input: 1, cached_input: 1, cache_write: 1, output: 1
x      input: 3, cached_input: 0.3, cache_write: 3, cache_write_1h: 6, output: 15, per_call: {web_search: 0.01}, tiers: {fast: 6}, above: {200000: {input: 6}}
`, "\n")
	if got.String() != want {
		t.Errorf("got\n%swant\n%s", got.String(), want)
	}
}

func TestAKeyWithoutLimitsIsInTheTable(t *testing.T) {
	var got strings.Builder
	if err := Effective(&got, mustParse(t, "teams: [{name: a, keys: [{id: k, sha256: "+someHash("k")+"}]}]")); err != nil {
		t.Fatal(err)
	}
	if want := "k    a     (none)\n"; !strings.HasSuffix(got.String(), want) {
		t.Errorf("got %q, want it to end with %q", got.String(), want)
	}
}

// fullDisk takes nothing.
type fullDisk struct{}

var errFull = errors.New("no space left")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func TestTheTableTellsOfAWriterThatFails(t *testing.T) {
	if err := Effective(fullDisk{}, mustParse(t, "server: {}")); !errors.Is(err, errFull) {
		t.Errorf("got %v, want %v", err, errFull)
	}
}

func TestWarnings(t *testing.T) {
	model := func(extra string) string {
		return "providers: [{name: p, dialect: openai, base_url: \"http://p\"}]\nmodels: [{name: m, targets: [{provider: p}], prices: {input: 1, output: 10}" + extra + "}]\n"
	}
	for _, s := range []struct{ what, src, want string }{
		{"a budget below the default maximum", model("") + "limits: [{name: l, unit: tokens, amount: 4095, per: minute}]", "3:10: a request for \"m\" that sets no maximum"},
		{"one that just holds it", model("") + "limits: [{name: l, unit: tokens, amount: 4096, per: minute}]", ""},
		{"a burst below it", model("") + "limits: [{name: l, unit: tokens, amount: 1M, per: minute, burst: 100}]", "3:10: a request for \"m\""},
		{"output that weighs double", model(", weights: {output: 2}") + "limits: [{name: l, unit: tokens, amount: 8191, per: minute}]", "3:10: a request for \"m\""},
		{"output tokens, not weighted", model(", weights: {output: 2}") + "limits: [{name: l, unit: output_tokens, amount: 4096, per: minute}]", ""},
		{"money", model("") + "limits: [{name: l, unit: usd, amount: 0.04, per: day}]", "3:10: a request for \"m\""},
		{"input does not matter", model("") + "limits: [{name: l, unit: input_tokens, amount: 1, per: day}]", ""},
		{"a smaller default", model(", default_max_output: 10") + "limits: [{name: l, unit: tokens, amount: 10, per: minute}]", ""},
		{"a learned reserve", model(", reserve_output: learned") + "limits: [{name: l, unit: tokens, amount: 10, per: minute}]", ""},
		{"a limit that refuses nobody", model("") + "limits: [{name: l, unit: tokens, amount: 10, per: minute, mode: shadow}]", ""},
		{"a team that cannot ask for it", model("") + "teams: [{name: a, models: [], limits: [{name: l, unit: tokens, amount: 10, per: minute}]}]", ""},
		{"an admin plane open to all", "server: {admin_listen: \":9090\"}", `1:24: ":9090" can be reached from other machines`},
		{"one that only a token opens", "server: {admin_listen: \":9090\", admin_token: x}", ""},
		{"one of this machine alone", "server: {admin_listen: \"[::1]:9090\"}", ""},
		{"one of this machine by name", "server: {admin_listen: \"localhost:9090\"}", ""},
		{"Redis that is not used", "store:\n  redis: {db: 1}", "2:3: the redis section is not used"},
		{"Redis left out on purpose", "store: {kind: memory, redis: {db: 1}}", ""},
		{"proxies that are everybody", "server: {trusted_proxies: [10.0.0.0/8, 0.0.0.0/0]}", "1:40: \"0.0.0.0/0\" trusts everybody"},
	} {
		t.Run(s.what, func(t *testing.T) { checkProblems(t, Errors(mustParse(t, s.src).Warnings), s.want) })
	}
}
