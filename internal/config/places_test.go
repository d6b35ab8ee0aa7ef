package config

import (
	"fmt"
	"strings"
	"testing"
)

// providersAndModels is what teams and passthroughs refer to, on three lines.
const providersAndModels = `
providers: [{name: p, dialect: openai, base_url: "http://p/v1"}]
models: [{name: m, targets: [{provider: p}], prices: {input: 1, output: 1}}, {name: free, targets: [{provider: p}]}]
`

const hashA = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"

func TestEachMistakeIsToldWithItsPlace(t *testing.T) {
	for _, s := range []struct {
		what string
		src  string
		want string // line:column: the beginning of what is wrong; more after a newline
	}{
		// Keys and kinds.
		{"an unknown key", "serve: {}", `1:1: unknown key "serve" (did you mean "server"?)`},
		{"one unlike any other", "server:\n  whatever_is_this: 1", `2:3: unknown key "whatever_is_this": here can be admin_hosts, `},
		{"swapped letters", "server: {lsiten: \":1\"}", `1:10: unknown key "lsiten" (did you mean "listen"?)`},
		{"another case", "Server: {}", `1:1: unknown key "Server" (did you mean "server"?)`},
		{"a repeated key", "server:\n  listen: :1\n  listen: :2", `3:3: the key "listen" is already there, at line 2`},
		{"two strangers and a repetition", "server: {a_stranger: 1, listen: \":1\", listen: \":2\", another_one: 2}", "1:10: unknown key\n1:39: the key \"listen\"\n1:53: unknown key"},
		{"a repeated section", "limits: []\nserver: {}\nlimits: []", `3:1: the key "limits" is already there, at line 1`},
		{"a value for an object", "server: 5", `1:9: this is a value where an object belongs`},
		{"a list for an object", "server: [1]", `1:9: this is a list where an object belongs`},
		{"an object for a list", "limits: {name: x}", `1:9: this is an object where a list belongs`},
		{"an object for a value", "enforcement: {mode: off}", `1:14: this is an object where a value belongs`},
		{"nothing for an object", "server:", `1:8: an object is missing here`},
		{"nothing for a value", "server:\n  listen:\n  tls: {}", `2:10: a value is missing here`},
		{"null for a value", "server: {listen: null}", `1:18: a value is missing here`},
		{"a list at the top", "- server", `1:1: this is a list where an object belongs`},
		{"a value at the top", "server", `1:1: this is a value where an object belongs`},

		// Single values.
		{"an address without a port", "server: {listen: 127.0.0.1}", `1:18: "127.0.0.1" is not an address`},
		{"a port too large", "server: {listen: \":65536\"}", `1:18: ":65536" has no port from 0 to 65535`},
		{"a duration without a unit", "server: {drain_delay: 30}", `1:23: "30" is not a duration such as 250ms`},
		{"a negative duration", "server: {drain_delay: -1s}", `1:23: "-1s" is shorter than 0s`},
		{"a duration of days", "server: {drain_delay: 25h}", `1:23: "25h" is longer than 24h0m0s`},
		{"a size in megabytes", "server: {max_body_bytes: 32MB}", `1:26: "32MB" is not a size such as 512KiB`},
		{"less for all bodies than for one", "server: {max_body_bytes: 1MiB, max_bodies_bytes: 2MiB}", `1:50: max_bodies_bytes must be at least three times max_body_bytes`},
		{"a size of nothing", "server: {max_body_bytes: 0}", `1:26: "0" is less than 1`},
		{"a size beyond all", "server: {max_body_bytes: 9999999999999GiB}", `1:26: "9999999999999GiB" is more than`},
		{"a network too long", "server: {trusted_proxies: [10.0.0.0/8, 10.0.0.0/33]}", `1:40: "10.0.0.0/33" is not a network`},
		{"a word that is none of them", "enforcement: on", `1:14: "on" is not enforce, shadow or off`},
		{"a word nearly one of them", "enforcement: shadwo", `1:14: "shadwo" is not enforce, shadow or off (did you mean "shadow"?)`},
		{"yes for true", "server: {expose_upstream_limits: yes}", `1:34: "yes" is neither true nor false`},
		{"a fraction of a number", "server: {max_waiting: 1.5}", `1:23: "1.5" is not a whole number from 0 to 1000000`},
		{"a negative number", "server: {max_waiting: -1}", `1:23: "-1" is not a whole number from 0 to 1000000`},
		{"a token that no header can carry", "server: {admin_token: \"a b\"}", `1:23: this value has a space`},

		{"an admin of a team that is not there", "server: {admins: [{name: a, sha256: " + hashA + ", role: admin, teams: [serch]}]}\nteams: [{name: search}]", `1:124: there is no team "serch" (did you mean "search"?)`},
		{"an admin without a role", "server: {admins: [{name: a, sha256: " + hashA + "}]}", `1:19: an admin needs "role"`},
		{"a role that is none", "server: {admins: [{name: a, sha256: " + hashA + ", role: owner}]}", `1:109: "owner" is not viewer, operator or admin`},
		{"an admin of no teams", "server: {admins: [{name: a, sha256: " + hashA + ", role: admin, teams: []}]}", `1:123: teams is empty`},
		{"two admins of one token", "server: {admins: [{name: a, sha256: " + hashA + ", role: admin}, {name: b, sha256: " + hashA + ", role: admin}]}", `1:135: this hash is already another key's`},

		// Things that belong together.
		{"one port for both planes", "server: {listen: \":1\", admin_listen: \":1\"}", `1:38: admin_listen is the address of listen`},
		{"a certificate without its key", "server: {tls: {cert_file: a}}", `1:15: tls needs cert_file and key_file`},
		{"a silence of one heartbeat", "store: {heartbeat: 5s, reclaim_after: 9s}", `1:39: reclaim_after is less than two heartbeats`},
		{"no Redis server", "store: {redis: {addrs: []}}", `1:24: addrs names no server`},
		{"a Redis server twice", "store: {redis: {addrs: [a:1, a:1]}}", `1:30: this address is already in the list`},
		{"a Redis server without a port", "store: {redis: {addrs: [a]}}", `1:25: "a" is not the address of a server`},
		{"a database of a cluster", "store: {redis: {addrs: [a:1, b:1], db: 2}}", `1:40: a Redis Cluster`},
		{"a prefix that would break hash tags", "store: {redis: {prefix: \"a{b\"}}", `1:25: "a{b" is no name`},

		// Providers.
		{"a provider of nothing", "providers: [{}]", "1:13: a provider needs \"name\"\n1:13: a provider needs \"dialect\"\n1:13: a provider needs \"base_url\""},
		{"a provider twice", "providers:\n- {name: p, dialect: openai, base_url: http://a}\n- {name: p, dialect: openai, base_url: http://b}", `3:10: "p" is already the name of a provider, at line 2`},
		{"a dialect that nobody speaks", "providers: [{name: p, dialect: anthropc, base_url: http://a}]", `1:32: "anthropc" is not openai, azure, anthropic, gemini, bedrock, cohere or ollama (did you mean "anthropic"?)`},
		{"a flavor of another dialect", "providers: [{name: p, dialect: gemini, base_url: http://a, flavor: vllm}]", `1:68: only the openai dialect has flavors`},
		{"a version of another dialect", "providers: [{name: p, dialect: openai, base_url: http://a, api_version: v1}]", `1:73: only the azure dialect has versions`},
		{"a version that is none", "providers: [{name: p, dialect: azure, base_url: http://a, api_version: 2024}]", `1:72: "2024" is not a version`},
		{"a region of another dialect", "providers: [{name: p, dialect: openai, base_url: http://a, region: eu-west-1}]", `1:68: only the bedrock dialect has regions`},
		{"a region that is none", "providers: [{name: p, dialect: bedrock, base_url: http://a, region: Europe}]", `1:69: "Europe" is not a region`},
		{"a key to sign with and no region", "providers: [{name: p, dialect: bedrock, base_url: http://a, api_keys: [\"AKIA:x\"]}]", `1:72: an access key and secret sign for a region`},
		{"a base URL without a scheme", "providers: [{name: p, dialect: openai, base_url: api.openai.com}]", `1:50: this value is not a URL`},
		{"a base URL with a query", "providers: [{name: p, dialect: openai, base_url: \"http://a?key=b\"}]", `1:50: this value has a query`},
		{"a base URL with a fragment", "providers: [{name: p, dialect: openai, base_url: \"http://a#b\"}]", `1:50: this value has a query or a fragment`},
		{"a base URL that ends in a question", "providers: [{name: p, dialect: openai, base_url: \"http://a?\"}]", `1:50: this value has a query or a fragment`},
		{"a base URL with a password", "providers: [{name: p, dialect: openai, base_url: \"http://a:b@c\"}]", `1:50: this value has a user name in it`},
		{"a rate of none", "providers: [{name: p, dialect: openai, base_url: http://a, limits: {requests_per_minute: 0}}]", `1:90: "0" is less than 1`},
		{"a rate that no provider has", "providers: [{name: p, dialect: openai, base_url: http://a, limits: {requests_per_minute: 11M}}]", `1:90: "11M" is more than 10000000`},
		{"an empty key", "providers: [{name: p, dialect: openai, base_url: http://a, api_keys: [\"\"]}]", `1:71: this value is empty`},

		// Models.
		{"a model of nothing", "models: [{}]", "1:10: a model needs \"name\"\n1:10: a model needs \"targets\""},
		{"a model without targets", "models: [{name: m, targets: []}]", `1:29: a model needs at least one target`},
		{"a model twice", "providers: [{name: p, dialect: openai, base_url: http://a}]\nmodels:\n- {name: m, targets: [{provider: p}]}\n- {name: m, targets: [{provider: p}]}", `4:10: "m" is already the name of a model, at line 3`},
		{"a provider that is not there", "models: [{name: m, targets: [{provider: p}]}]", `1:41: there is no provider "p"`},
		{"a target twice", "providers: [{name: p, dialect: openai, base_url: http://a}]\nmodels: [{name: m, targets: [{provider: p}, {provider: p, model: m}]}]", `2:45: the same provider and model`},
		{"a default above the maximum", "providers: [{name: p, dialect: openai, base_url: http://a}]\nmodels: [{name: m, targets: [{provider: p}], max_output: 10, default_max_output: 11}]", `2:82: is more than max_output, "10"`},
		{"an unknown vocabulary", "providers: [{name: p, dialect: openai, base_url: http://a}]\nmodels: [{name: m, targets: [{provider: p}], encoding: cl100k}]", `2:56: "cl100k" is not o200k_base, cl100k_base, p50k_base, p50k_edit, r50k_base, qwen3, deepseek_v3 or tekken`},
		{"half a price list", "providers: [{name: p, dialect: openai, base_url: http://a}]\nmodels: [{name: m, targets: [{provider: p}], prices: {input: 1}}]", `2:54: a price list needs "output"`},
		{"a class without a name", priced("audio: 1"), `3:13: unknown key "audio": here can be`},
		{"a class misspelt", priced("cache_write_1hr: 1"), `3:13: unknown key "cache_write_1hr" (did you mean "cache_write_1h"?)`},
		{"a price for something that nobody bills", priced("per_call: {web_serch: 0.01}"), `3:24: unknown key "web_serch" (did you mean "web_search"?)`},
		{"a price of a call beyond all bounds", priced("per_call: {web_search: 1001}"), `3:36: "1001" is not a decimal from 0 to 1000`},
		{"a tier that no API has", priced("tiers: {slow: 0.5}"), `3:21: unknown key "slow"`},
		{"a tier that costs nothing", priced("tiers: {flex: 0}"), `3:27: "0" is not a factor`},
		{"a factor beyond all bounds", priced("tiers: {flex: 1001}"), `3:27: "1001" is not a factor`},
		{"a bound that is no number", priced("above: {many: {input: 1}}"), `3:21: unknown key "many": a bound is a number of tokens`},
		{"a bound twice, however written", priced("above: {200000: {input: 1}, 200k: {input: 1}}"), `3:41: the key "200k" is already there, at line 3`},
		{"a bound without prices", priced("above: {200000: {}}"), `3:29: a bound needs at least one price`},
		{"a bound with a class misspelt", priced("above: {200000: {inputs: 1}}"), `3:30: unknown key "inputs" (did you mean "input"?)`},
		{"a bound of nothing but a price", priced("above: {200000: 5}"), `3:29: this is a value where an object belongs`},
		{"a price finer than a millionth", "providers: [{name: p, dialect: openai, base_url: http://a}]\nmodels: [{name: m, targets: [{provider: p}], prices: {input: 0.0000001, output: 1}}]", `2:62: "0.0000001" is not a decimal`},
		{"a negative weight", "providers: [{name: p, dialect: openai, base_url: http://a}]\nmodels: [{name: m, targets: [{provider: p}], weights: {input: -1}}]", `2:63: "-1" is not a decimal`},

		// Passthrough.
		{"a path that is none", providersAndModels + "passthrough: [{path: v1/files, methods: [GET], provider: p}]", `4:22: "v1/files" is not a plain path`},
		{"a path with a pattern", providersAndModels + "passthrough: [{path: \"/v1/files/:id\", methods: [GET], provider: p}]", `4:22: "/v1/files/:id" is not a plain path`},
		{"a path that leads upwards", providersAndModels + "passthrough: [{path: /v1/../admin, methods: [GET], provider: p}]", `4:22: "/v1/../admin" is not a plain path`},
		{"a path of the gateway's own", providersAndModels + "passthrough: [{path: /v1/chat/completions, methods: [POST], provider: p}]", `4:22: "/v1/chat/completions" is the gateway's own`},
		{"a path below one of its own", providersAndModels + "passthrough: [{path: /v1/responses/x, methods: [POST], provider: p}]", `4:22: "/v1/responses/x" is the gateway's own`},
		{"a pattern that covers a metered path", providersAndModels + "passthrough: [{path: /v1/**, methods: [POST], provider: p}]", `4:22: "/v1/**" covers /v1/messages, which is the gateway's own`},
		{"a parameter that covers one", providersAndModels + "passthrough: [{path: \"/v1/{x}/completions\", methods: [POST], provider: p}]", `4:22: "/v1/{x}/completions" covers /v1/chat/completions, `},
		{"one without its version", providersAndModels + "passthrough: [{path: \"/{x}/completions\", methods: [POST], provider: p}]", `4:22: "/{x}/completions" covers `},
		{"one in other letters", providersAndModels + "passthrough: [{path: /V1/Chat/**, methods: [POST], provider: p}]", `4:22: "/V1/Chat/**" covers /v1/chat/completions`},
		{"everything", providersAndModels + "passthrough: [{path: /**, methods: [POST], provider: p}]", `4:22: "/**" covers `},
		{"stars in the middle", providersAndModels + "passthrough: [{path: /v1/**/content, methods: [GET], provider: p}]", `4:22: "/v1/**/content" is not a plain path`},
		{"a broken parameter", providersAndModels + "passthrough: [{path: \"/v1/files/{a\", methods: [GET], provider: p}]", `4:22: "/v1/files/{a" is not a plain path`},
		{"a method that is none", providersAndModels + "passthrough: [{path: /x, methods: [get], provider: p}]", `4:36: "get" is not GET, HEAD, POST, PUT, PATCH or DELETE (did you mean "GET"?)`},
		{"no methods", providersAndModels + "passthrough: [{path: /x, methods: [], provider: p}]", `4:35: methods is empty`},
		{"a route twice", providersAndModels + "passthrough:\n- {path: /x, methods: [GET, POST], provider: p}\n- {path: /x, methods: [POST], provider: p}", `6:24: "POST" of this path is already passed through, at line 5`},
		{"a charge of nothing", providersAndModels + "passthrough: [{path: /x, methods: [GET], provider: p, charge: {requests: 0}}]", `4:63: a call that charges nothing would be unmetered`},

		// Teams and keys.
		{"a team twice", "teams:\n- name: a\n- name: a", `3:9: "a" is already the name of a team, at line 2`},
		{"a team with a space", "teams: [{name: a b}]", `1:16: "a b" is no name`},
		{"a model that is not there", providersAndModels + "teams: [{name: a, models: [m, fre]}]", `4:31: there is no model "fre" (did you mean "free"?)`},
		{"a share of nothing", "teams: [{name: a, weight: 0}]", `1:27: "0" is less than 1`},
		{"a key without a hash", "teams: [{name: a, keys: [{id: k}]}]", `1:26: a key needs "sha256"`},
		{"a secret in the place of its hash", "teams: [{name: a, keys: [{id: k, sha256: sk-llmgw-x}]}]", `1:42: this value is not a SHA-256 hash: 64 hexadecimal digits (this has 10 characters)`},
		{"a hash with another letter", "teams: [{name: a, keys: [{id: k, sha256: " + strings.Repeat("g", 64) + "}]}]", `1:42: this value is not a SHA-256 hash: 64 hexadecimal digits`},
		{"the hash of nothing", "teams: [{name: a, keys: [{id: k, sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855}]}]", `1:42: this is the hash of nothing`},
		{"a hash twice", "teams:\n- {name: a, keys: [{id: k, sha256: " + someHash("x") + "}]}\n- {name: b, keys: [{id: l, sha256: " + someHash("x") + "}]}", `3:36: this hash is already another key's, at line 2`},
		{"an id twice, in two teams", "teams:\n- {name: a, keys: [{id: k, sha256: " + someHash("x") + "}]}\n- {name: b, keys: [{id: k, sha256: " + someHash("y") + "}]}", `3:25: "k" is already the name of a key, at line 2`},
	} {
		t.Run(s.what, func(t *testing.T) { checkProblems(t, problemsOf(t, s.src, Lookups{}), s.want) })
	}
}

func TestALimitThatCannotBeIsRefused(t *testing.T) {
	for _, s := range []struct {
		what  string
		limit string // in a list that begins at line 1, column 10
		want  string // column: the beginning
	}{
		{"of nothing", "{}", "10: a limit needs \"name\"\n10: a limit needs \"unit\"\n10: a limit needs \"amount\""},
		{"without a period", "{name: a, unit: tokens, amount: 1}", `10: a limit needs "per"`},
		{"a capacity of 0", "{name: a, unit: tokens, amount: 0, per: minute}", `42: "0" is less than 1`},
		{"a negative amount", "{name: a, unit: tokens, amount: -5, per: minute}", `42: "-5" is not an amount such as`},
		{"an amount of half a token", "{name: a, unit: tokens, amount: 0.5, per: minute}", `42: "0.5" is not an amount such as`},
		{"an amount with an exponent", "{name: a, unit: tokens, amount: 1e6, per: minute}", `42: "1e6" is not an amount such as`},
		{"an amount in another base", "{name: a, unit: tokens, amount: 0x10, per: minute}", `42: "0x10" is not an amount such as`},
		{"an amount of 2^53", "{name: a, unit: tokens, amount: 9007199254740992, per: day}", `42: "9007199254740992" is more than 2^53-1`},
		{"an amount beyond any number", "{name: a, unit: tokens, amount: 99999999999999999999999999999, per: day}", `42: "99999999999999999999999999999" is more than 2^53-1`},
		{"an amount that its suffix makes too large", "{name: a, unit: tokens, amount: 9007199255M, per: day}", `42: "9007199255M" is more than 2^53-1`},
		{"a rate that cannot be counted exactly", "{name: a, unit: tokens, amount: 9007199254740991, per: second}", `42: this limit cannot be: `},
		{"money finer than a millionth", "{name: a, unit: usd, amount: 0.0000001, per: day}", `39: "0.0000001" is not an amount of dollars`},
		{"no money", "{name: a, unit: usd, amount: 0.000000, per: day}", `39: "0.000000" is less than a millionth`},
		{"more money than can be counted", "{name: a, unit: usd, amount: 9007199255, per: day}", `39: "9007199255" is more than 9007199254 dollars`},
		{"a period that does not exist", "{name: a, unit: tokens, amount: 1, per: minit}", `50: "minit" is not second, minute, hour, day, week, month, quarter or year (did you mean "minute"?)`},
		{"a unit that does not exist", "{name: a, unit: token, amount: 1, per: minute}", `26: "token" is not tokens, input_tokens, output_tokens, requests, usd or concurrency (did you mean "tokens"?)`},
		{"concurrency per minute", "{name: a, unit: concurrency, amount: 1, per: minute}", `50: unit: concurrency has no use for "per"`},
		{"concurrency with a burst and a debt", "{name: a, unit: concurrency, amount: 1, burst: 2, max_debt: 1}", "50: unit: concurrency has no use for \"burst\"\n60: unit: concurrency has no use for \"max_debt\""},
		{"concurrency with an algorithm", "{name: a, unit: concurrency, amount: 1, algorithm: token_bucket}", `50: unit: concurrency has no use for "algorithm"`},
		{"a burst of a calendar budget", "{name: a, unit: tokens, amount: 1, per: day, burst: 2}", `55: algorithm: calendar has no use for "burst"`},
		{"a bank of a sliding window", "{name: a, unit: tokens, amount: 1, per: minute, algorithm: sliding_window, bank: 2}", `85: algorithm: sliding_window has no use for "bank"`},
		{"a time zone of a bucket", "{name: a, unit: tokens, amount: 1, per: minute, timezone: UTC}", `58: algorithm: token_bucket has no use for "timezone"`},
		{"a bucket per day", "{name: a, unit: tokens, amount: 1, per: day, algorithm: token_bucket}", `66: a token_bucket is per second, minute, hour or a length`},
		{"a calendar per minute", "{name: a, unit: tokens, amount: 1, per: minute, algorithm: calendar}", `69: a calendar budget is per day, week, month, quarter or year`},
		{"the algorithm of slots", "{name: a, unit: tokens, amount: 1, per: minute, algorithm: slots}", `69: "slots" is not token_bucket, calendar, sliding_window or sliding_log`},
		{"a log of too many", "{name: a, unit: requests, amount: 1M, per: minute, algorithm: sliding_log}", `44: this limit cannot be: algorithm sliding_log`},
		{"a zone that does not exist", "{name: a, unit: tokens, amount: 1, per: day, timezone: Europe/Atlantis}", `65: "Europe/Atlantis" is not a time zone`},
		{"the machine's own zone", "{name: a, unit: tokens, amount: 1, per: day, timezone: Local}", `65: "Local" is not a time zone`},
		{"an eighth day of the week", "{name: a, unit: tokens, amount: 1, per: week, reset_day: 8}", `67: the reset_day of a week is 1 (Monday) to 7`},
		{"a 32nd of the month", "{name: a, unit: tokens, amount: 1, per: month, reset_day: 32}", `68: "32" is more than 31`},
		{"a day of a day", "{name: a, unit: tokens, amount: 1, per: day, reset_day: 1}", `66: a day has no reset_day`},
		{"no bank", "{name: a, unit: tokens, amount: 1, per: minute, bank: 0}", `64: "0" is less than 1`},
		{"waiting without an end", "{name: a, unit: tokens, amount: 1, per: minute, on_exceed: wait}", `69: on_exceed: wait needs max_wait`},
		{"an end without waiting", "{name: a, unit: tokens, amount: 1, per: minute, max_wait: 5s}", `68: max_wait is for on_exceed: wait`},
		{"a candidate without an amount", "{name: a, unit: tokens, amount: 1, per: minute, candidate: {}}", `69: a candidate needs "amount"`},
		{"a candidate of nothing", "{name: a, unit: tokens, amount: 1, per: minute, candidate: {amount: 0}}", `78: "0" is less than 1`},
		{"a scope from elsewhere", "{name: a, scope: team, unit: tokens, amount: 1, per: minute}", `27: "team" is not gateway, user, ip or model`},
		{"a name twice", "{name: a, unit: tokens, amount: 1, per: day}, {name: a, unit: requests, amount: 1, per: day}", `63: "a" is already the name of a limit here, at line 1`},
	} {
		t.Run(s.what, func(t *testing.T) {
			want := "1:" + strings.ReplaceAll(s.want, "\n", "\n1:")
			checkProblems(t, problemsOf(t, "limits: ["+s.limit+"]", Lookups{}), want)
		})
	}
}

func TestAMoneyLimitWantsThePriceOfEveryModelItCanMeet(t *testing.T) {
	const usd = "{name: usd, unit: usd, amount: 1, per: day}"
	const unpriced = `this usd limit can meet the model "free", which has no prices (line 3)`
	for _, s := range []struct{ what, src, want string }{
		{"of the gateway", "limits: [" + usd + "]", "4:10: " + unpriced},
		{"of a team that may use all", "teams: [{name: t, limits: [" + usd + "]}]", "4:28: " + unpriced},
		{"of a team that may use it", "teams: [{name: t, limits: [" + usd + "], models: [m, free]}]", "4:28: " + unpriced},
		{"of a team with any model", "teams: [{name: t, limits: [" + usd + "], models: [\"*\"]}]", "4:28: " + unpriced},
		{"of a team that may not", "teams: [{name: t, models: [m], limits: [" + usd + "]}]", ""},
		{"of such a team's key", "teams: [{name: t, models: [m], keys: [{id: k, sha256: " + someHash("x") + ", limits: [" + usd + "]}]}]", ""},
		{"of a user within the gateway", "limits: [{scope: user, name: usd, unit: usd, amount: 1, per: day}]", "4:10: " + unpriced},
	} {
		t.Run(s.what, func(t *testing.T) {
			checkProblems(t, problemsOf(t, providersAndModels+s.src, Lookups{}), s.want)
		})
	}
	withAny := strings.Replace(providersAndModels, "name: free", `name: "*"`, 1)
	for _, s := range []struct{ models, want string }{
		{"[m]", ""},
		{"[m, other]", `4:44: this usd limit can meet the model "*", which has no prices`},
	} {
		t.Run("any other name, for a team of "+s.models, func(t *testing.T) {
			src := fmt.Sprintf("%steams: [{name: t, models: %-15s, limits: [%s]}]", withAny, s.models, usd)
			want := strings.Replace(s.want, "4:44", "4:53", 1)
			checkProblems(t, problemsOf(t, src, Lookups{}), want)
		})
	}
}

func TestAllMistakesAreToldAtOnceInTheOrderOfTheFile(t *testing.T) {
	got := problemsOf(t, `
teams:
  - {name: a, models: [nope], limits: [{name: x, unit: tokens, amount: 0, per: minute}]}
models: [{name: m, targets: [{provider: gone}]}]
server: {listen: x, nonsense: 1}
store: {kind: disk}
`, Lookups{})
	checkProblems(t, got, `3:24: there is no model "nope"
3:72: "0" is less than 1
4:41: there is no provider "gone"
5:18: "x" is not an address
5:21: unknown key "nonsense"
6:15: "disk" is not memory or redis`)
	if want := "f:3:24: there is no model \"nope\"\nf:3:72: "; !strings.HasPrefix(got.Error(), want) {
		t.Errorf("got %q, want it to begin with %q", got.Error(), want)
	}
}

// checkProblems compares problems, by place and beginning, with the lines of
// want; none at all with an empty want.
func checkProblems(t *testing.T, got Errors, want string) {
	t.Helper()
	var lines []string
	if want != "" {
		lines = strings.Split(want, "\n")
	}
	if len(got) != len(lines) {
		t.Fatalf("got %d problems, want %d:\n%v", len(got), len(lines), got)
	}
	for i, p := range got {
		line := fmt.Sprintf("%d:%d: %s", p.Line, p.Column, p.What)
		if !strings.HasPrefix(line, lines[i]) {
			t.Errorf("got  %s\nwant %s…", line, lines[i])
		}
	}
}

// priced is a file with one model whose prices begin, at line 3, with more.
func priced(more string) string {
	return "providers: [{name: p, dialect: openai, base_url: http://a}]\nmodels: [{name: m, targets: [{provider: p}], prices: {\n            " + more + ", input: 1, output: 1}}]"
}

func TestAPriceOfOneTokenIsWarnedOf(t *testing.T) {
	for prices, want := range map[string]bool{
		"input: 0.000003, output: 2":                                    true, // a Claude's, of one token
		"input: 3, output: 0.000015":                                    true,
		"input: 3, output: 15, cached_input: 0.0003":                    true,
		"input: 3, output: 15, above: {200k: {input: 0.000006}}":        true,
		"input: 0, output: 0":                                           false,
		"input: 0.01, output: 0.02, cached_input: 0.0025":               false,
		"input: 3, output: 15, per_call: {web_search: 0.000001}":        false,
		"input: 3, output: 15, tiers: {flex: 0.000001}":                 false,
		"input: 0.001, output: 0.001, reasoning: 0.001, image_input: 1": false,
	} {
		c := mustParse(t, "providers: [{name: p, dialect: openai, base_url: http://a}]\nmodels:\n  - name: m\n    targets: [{provider: p}]\n    prices: {"+prices+"}\n")
		switch {
		case !want && len(c.Warnings) == 0:
		case !want || len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0].What, "dollars per million tokens"):
			t.Errorf("%s: got %v", prices, c.Warnings)
		case c.Warnings[0].Line != 5:
			t.Errorf("%s: got %v, want line 5", prices, c.Warnings)
		}
	}
}
