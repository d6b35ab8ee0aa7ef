package blackbox

import (
	"strings"
	"testing"
	"time"

	"llmgw/internal/gatewaytest"
)

func TestAnOpenAIClientReachesAnAzureDeployment(t *testing.T) {
	t.Parallel()
	provider := gatewaytest.StartProvider(t, setup{}.fake)
	for _, s := range []struct{ version, path, query string }{
		{"2024-10-21", "/openai/deployments/sim-in10-out20/chat/completions", "api-version=2024-10-21"},
		{"v1", "/openai/v1/chat/completions", ""},
	} {
		t.Run(s.version, func(t *testing.T) {
			provider.Reset()
			g := gatewaytest.Start(t, `
providers: [{name: azure, dialect: azure, base_url: "`+provider.URL+`", api_version: "`+s.version+`", api_keys: [sk-azure]}]
models: [{name: gpt-4o, targets: [{provider: azure, model: sim-in10-out20}]}]
teams: [{name: search, keys: [{id: k, sha256: `+gatewaytest.SHA256(secret)+`}], limits: [`+monthly("tokens", "tokens", 1000)+`]}]
`)
			a := g.Post(secret, chat, ask("gpt-4o", streamed, bound(100)))
			if a.Status != 200 || !strings.Contains(a.Body, "[DONE]") || strings.Contains(a.Body, "prompt_tokens") {
				t.Fatalf("got %d\n%s", a.Status, a.Body)
			}
			seen := provider.Stats().Last
			if len(seen) != 1 || seen[0].Path != s.path || seen[0].Query != s.query || seen[0].Key != "sk-azure" || seen[0].Header.Get("Authorization") != "" {
				t.Errorf("the provider saw %+v", seen)
			}
			g.Eventually("settled by what Azure reported", 5*time.Second, func() bool { return g.Limit("search", "tokens").Remaining == 970 })
		})
	}
}
