package upstream

import (
	"testing"

	"llmgw/internal/dialect"
	"llmgw/internal/tokens"
)

func TestProvidersCountTokensInTheirOwnWays(t *testing.T) {
	used := tokens.Usage{Input: 1000, CachedInput: 800, CacheWrite: 100, Output: 50, Reasoning: 20}
	for _, s := range []struct {
		what, dialect, flavor, model string
		arrival, end                 tokens.Count
	}{
		{"OpenAI", "openai", "openai", "gpt-4o", 1500, 1050},
		{"Azure", "azure", "", "gpt-4o", 1500, 1050},
		{"Anthropic: output as it comes, cache reads free", "anthropic", "", "claude-sonnet-5", 1000, 250},
		{"Gemini: input alone", "gemini", "", "gemini-2.5-pro", 1000, 1000},
		{"Groq: cache reads free", "openai", "groq", "llama", 1500, 250},
		{"Bedrock: output of an older Claude counts five times", "bedrock", "", "us.anthropic.claude-sonnet-4-7-v1:0", 1500, 450},
		{"of Claude 4.8 fifteen times", "bedrock", "", "anthropic.claude-opus-4-8", 1500, 950},
		{"of Sonnet 5 ten times", "bedrock", "", "us.anthropic.claude-sonnet-5-v1:0", 1500, 700},
		{"of others once", "bedrock", "", "amazon.nova-pro-v1:0", 1500, 250},
		{"Mistral", "openai", "mistral", "mistral-large", 1500, 1050},
	} {
		q := (&Provider{Dialect: s.dialect, Flavor: s.flavor}).flavor().Quota
		if got := q.Arrival(1000, 500); got != s.arrival {
			t.Errorf("%s: %d at arrival, want %d", s.what, got, s.arrival)
		}
		if got := q.Used(s.model, used); got != s.end {
			t.Errorf("%s: %d at the end, want %d", s.what, got, s.end)
		}
	}
	absurd := tokens.Usage{Input: 10, CachedInput: 90, Output: tokens.MaxCount}
	if got := (&Provider{Dialect: "bedrock"}).flavor().Quota.Used("claude", absurd); got != tokens.MaxCount {
		t.Errorf("an absurd usage counts %d", got)
	}
}

func TestOnlyOpenAIAndAzureKeepWhatTheyCountedAtArrival(t *testing.T) {
	for _, s := range []struct {
		what            string
		dialect, flavor string
		stated          bool
		capped          tokens.Count
		want            bool
	}{
		{"OpenAI, of a stated bound", "openai", "openai", true, 0, true},
		{"OpenAI, of a bound that we wrote", "openai", "", false, 100, true},
		{"OpenAI, of none", "openai", "openai", false, 0, false},
		{"Azure", "azure", "", true, 0, true},
		{"vLLM", "openai", "vllm", true, 0, false},
		{"Anthropic", "anthropic", "", true, 0, false},
	} {
		j := &Job{Call: &dialect.Call{HasMaxOutput: s.stated}, CapOutput: s.capped}
		if got := keeps(&Provider{Dialect: s.dialect, Flavor: s.flavor}, j); got != s.want {
			t.Errorf("%s: %v", s.what, got)
		}
	}
}

func TestWhatTheProviderKeepsIsNotGivenBack(t *testing.T) {
	m := newMemory()
	p := provider("a", func(p *Provider) { p.Limits = Limits{TokensPerMinute: 6_000_000} })
	j := job("r", Target{Provider: p})
	j.Call = &dialect.Call{Request: j.Call.Request, HasMaxOutput: true}
	for id, used := range map[string]tokens.Usage{"less": {Input: 10, Output: 5}, "more": {Input: 400, Output: 90}} {
		j.RequestID, j.Input, j.Output = id, 10, 300
		r, err := client(t, m, &script{}, nil, p).Do(t.Context(), j)
		if err != nil {
			t.Fatal(err)
		}
		r.Settle(used)
		r.Close()
		if got, want := m.settled[id+"/1"][0], map[string]int64{"less": 310, "more": 490}[id]; got != want {
			t.Errorf("%s than was counted at arrival: settled as %d, want %d", id, got, want)
		}
	}
}
