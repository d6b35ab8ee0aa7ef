package app

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"llmgw/internal/config"
	"llmgw/internal/estimate"
)

// body is a chat request for a model.
func body(model string) []byte {
	return fmt.Appendf(nil, `{"model":%q,"messages":[{"role":"user","content":"每个团队都有自己的预算"}]}`, model)
}

// written puts a configuration into a file.
func written(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "llmgw.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

const team = "\nteams: [{name: t, keys: [{id: k, sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08}]}]\n"

func TestEveryEncodingOfTheConfigurationCanBeCountedIn(t *testing.T) {
	seen := map[string]string{}
	for _, name := range estimate.Encodings {
		config := written(t, `providers: [{name: p, dialect: openai, base_url: "http://127.0.0.1:1/v1"}]
models: [{name: house, targets: [{provider: p}], encoding: `+name+`}]`+team)
		got, err := Estimate(EstimateOptions{ConfigFile: config, Path: "/v1/chat/completions", Body: body("house")})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		seen[fmt.Sprint(got.Parts.Text)] = name
	}
	if len(seen) < 5 {
		t.Errorf("texts cost the same in most encodings: %v", seen)
	}
}

func TestAModelWithSeveralTargetsReservesForTheOneThatNeedsMost(t *testing.T) {
	config := written(t, `providers:
  - {name: a, dialect: openai, base_url: "http://127.0.0.1:1/v1"}
  - {name: b, dialect: openai, flavor: vllm, base_url: "http://127.0.0.1:1/v1"}
  - {name: c, dialect: anthropic, base_url: "http://127.0.0.1:1"}
models:
  - {name: digits, targets: [{provider: a, model: gpt-4o}, {provider: b, model: qwen3-32b}, {provider: c, model: claude-opus-4-7}]}
  - {name: "*", targets: [{provider: c}]}`+team)
	digits := []byte(`{"messages":[{"role":"user","content":"3141592653589793238462643383279502884197"}]}`)
	text := func(o EstimateOptions) int64 {
		t.Helper()
		o.Path, o.Body = "/v1/chat/completions", digits
		got, err := Estimate(o)
		if err != nil {
			t.Fatal(err)
		}
		return int64(got.Parts.Text)
	}
	if got := text(EstimateOptions{ConfigFile: config, Model: "digits"}); got != 40 {
		t.Errorf("got %d tokens, want Qwen's 40: a digit each", got)
	}
	if got := text(EstimateOptions{Model: "gpt-4o"}); got != 14 {
		t.Errorf("without a configuration: got %d tokens, want 14", got)
	}
	if _, err := Estimate(EstimateOptions{ConfigFile: config, Model: "other", Path: "/v1/chat/completions", Body: digits}); err == nil {
		t.Error("a model that is not served by the API was estimated")
	}
}

func TestTheVocabulariesOfTheConfiguredModelsAreReadAtTheStart(t *testing.T) {
	target := func(names ...string) (all []config.Target) {
		for _, n := range names {
			all = append(all, config.Target{Provider: "p", Model: n})
		}
		return all
	}
	c := &config.Config{Models: []config.Model{
		{Name: "gpt-4", Targets: target("")},
		{Name: "house", Targets: target("Qwen/Qwen3-32B", "gpt-4o", "gpt-4-turbo")},
		{Name: "named", Encoding: "tekken", Targets: target("something")},
		{Name: "*", Targets: target("")},
	}}
	if got, want := encodingsOf(c), []string{"o200k_base", "cl100k_base", "qwen3", "tekken"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := encodingsOf(&config.Config{}), []string{"o200k_base"}; !slices.Equal(got, want) {
		t.Errorf("without models: got %q, want %q", got, want)
	}
}
