package e2e

import (
	"os"
	"os/exec"
	"testing"
)

func TestTheNodeClients(t *testing.T) {
	for _, s := range []struct{ suite, file string }{
		{"openai-node", "node/openai.test.js"},
		{"anthropic-node", "node/anthropic.test.js"},
		{"google-node", "node/google.test.js"},
		{"aisdk-node", "node/aisdk.test.js"},
		{"langchain-node", "node/langchain.test.js"},
		{"cohere-node", "node/cohere.test.js"},
		{"ollama-node", "node/ollama.test.js"},
		{"bedrock-node", "node/bedrock.test.js"},
		{"azure-node", "node/azure.test.js"},
		{"mistral-node", "node/mistral.test.js"},
	} {
		t.Run(s.suite, func(t *testing.T) {
			cmd := exec.Command("node", "--test", s.file)
			cmd.Env = append(os.Environ(),
				"E2E_URL="+here.url,
				"E2E_PROVIDER="+here.provider,
				"E2E_KEY="+plainKey(s.suite),
				"E2E_SLOW_KEY="+slowKey(s.suite),
				"E2E_SPENT_KEY="+spentKey(s.suite),
			)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %v\n%s", s.file, err, out)
			}
			t.Logf("%s", out)
		})
	}
}
