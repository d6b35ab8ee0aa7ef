package e2e

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// suites are the clients. Each has keys of its own, so that none waits for
// what another used.
var suites = []string{
	"openai-go", "anthropic-go", "openai-node", "anthropic-node",
	"google-node", "aisdk-node", "langchain-node", "cohere-node", "ollama-node", "bedrock-node", "azure-node", "mistral-node",
}

// The keys of a suite: one without limits that it could meet, one whose team
// may make a request every slowInterval, one whose team may make one in an hour,
// and one whose team has a small budget for the month.
func plainKey(suite string) string   { return "sk-llmgw-e2e-plain-" + suite }
func slowKey(suite string) string    { return "sk-llmgw-e2e-slow-" + suite }
func limitedKey(suite string) string { return "sk-llmgw-e2e-limited-" + suite }
func spentKey(suite string) string   { return "sk-llmgw-e2e-spent-" + suite }

// configuration is the gateway's, with the simulated provider at provider, and
// at signed what lets through to it only what is signed as AWS wants it.
func configuration(listen, admin, provider, signed string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `
server: {listen: %q, admin_listen: %q, shutdown_grace: 5s}
store: {kind: memory}
providers:
  - {name: sim-openai, dialect: openai, base_url: "%[3]s/v1", api_keys: [provider-key], retries: {attempts: 0}}
  - {name: sim-anthropic, dialect: anthropic, base_url: %[3]q, api_keys: [provider-key], retries: {attempts: 0}}
  - {name: sim-azure, dialect: azure, base_url: %[3]q, api_version: "2024-10-21", api_keys: [provider-key], retries: {attempts: 0}}
  - {name: sim-gemini, dialect: gemini, base_url: %[3]q, api_keys: [provider-key], retries: {attempts: 0}}
  - {name: sim-bedrock, dialect: bedrock, base_url: %[4]q, region: %[5]s, api_keys: ["%[6]s:%[7]s"], retries: {attempts: 0}}
  - {name: sim-cohere, dialect: cohere, base_url: %[3]q, api_keys: [provider-key], retries: {attempts: 0}}
  - {name: sim-ollama, dialect: ollama, base_url: %[3]q, retries: {attempts: 0}}
models:
  - name: gpt-4o-mini
    targets: [{provider: sim-openai, model: sim-in12-out5}]
  - name: on-azure
    targets: [{provider: sim-azure, model: sim-in20-out5}]
%[8]s  - name: "*"
    targets: [{provider: sim-openai}, {provider: sim-anthropic}, {provider: sim-gemini}, {provider: sim-bedrock}, {provider: sim-cohere}, {provider: sim-ollama}]
teams:
`, listen, admin, provider, signed, awsRegion, awsKey, awsSecret, agentModels())
	for _, suite := range suites {
		team(&b, suite+"-plain", plainKey(suite), `{name: tpm, unit: tokens, amount: 100M, per: minute}, {name: rpm, unit: requests, amount: 100k, per: minute}`)
		team(&b, suite+"-slow", slowKey(suite), `{name: rpm, unit: requests, amount: 40, per: minute, burst: 1}`)
		team(&b, suite+"-spent", spentKey(suite), `{name: monthly, unit: tokens, amount: 200, per: month}`)
	}
	for _, a := range agents {
		team(&b, a.name+"-plain", plainKey(a.name), `{name: tpm, unit: tokens, amount: 100M, per: minute}`)
		team(&b, a.name+"-limited", limitedKey(a.name), `{name: rpm, unit: requests, amount: 1, per: hour}`)
		team(&b, a.name+"-spent", spentKey(a.name), `{name: monthly, unit: tokens, amount: 200k, per: month}`)
	}
	return b.String()
}

// agentModels are the models that agents ask for.
func agentModels() string {
	var b strings.Builder
	model := func(name, script string) {
		fmt.Fprintf(&b, "  - name: %s\n    targets: [{provider: sim-openai, model: %[2]s}, {provider: sim-anthropic, model: %[2]s}, {provider: sim-gemini, model: %[2]s}]\n", name, script)
	}
	for i, a := range agents {
		model(a.chat, "sim-in20-out5")
		model(a.tool, toolScript(i))
	}
	return b.String()
}

func team(b *strings.Builder, name, key, limits string) {
	fmt.Fprintf(b, "  - {name: %s, limits: [%s], keys: [{id: %s, sha256: %x}]}\n", name, limits, name, sha256.Sum256([]byte(key)))
}
