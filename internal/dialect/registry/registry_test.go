package registry_test

import (
	"slices"
	"testing"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/registry"
)

func TestProvidersHaveTheNamesOfTheConventions(t *testing.T) {
	for _, s := range []struct{ dialect, flavor, want string }{
		{"openai", "", "openai"}, {"openai", "openai", "openai"}, {"openai", "mistral", "mistral_ai"}, {"openai", "xai", "x_ai"},
		{"openai", "deepseek", "deepseek"}, {"openai", "vllm", "vllm"}, {"azure", "", "azure.ai.openai"}, {"anthropic", "", "anthropic"},
		{"gemini", "", "gcp.gemini"}, {"bedrock", "", "aws.bedrock"}, {"cohere", "", "cohere"}, {"ollama", "", "ollama"},
	} {
		if got := registry.Flavor(s.dialect, s.flavor).System; got != s.want {
			t.Errorf("%s %s: got %s, want %s", s.dialect, s.flavor, got, s.want)
		}
	}
}

func TestEveryDialectSaysWhatOthersNeed(t *testing.T) {
	for _, d := range registry.Dialects() {
		p := d.Profile()
		if len(p.Flavors) == 0 {
			t.Errorf("%s has no flavor", d.Name())
		}
		for _, f := range p.Flavors {
			if f.System == "" {
				t.Errorf("%s %s has no name for telemetry", d.Name(), f.Name)
			}
			if (f.Name == "") != (len(p.Flavors) == 1) {
				t.Errorf("%s: flavor %q of %d", d.Name(), f.Name, len(p.Flavors))
			}
		}
		if l := p.Listing; len(l.Paths) > 0 && (l.All == nil || l.One == nil) {
			t.Errorf("%s lists models in no form", d.Name())
		}
		for _, other := range p.Accepts {
			if !slices.Contains(registry.Names(nil), other) {
				t.Errorf("%s accepts calls of %s, which is not known", d.Name(), other)
			}
		}
	}
}

func TestWhatIsNotKnownHasNoProfile(t *testing.T) {
	if p := registry.Profile("x"); len(p.Flavors) != 0 || p.BasePath != "" {
		t.Errorf("an unknown dialect: %+v", p)
	}
	if f := registry.Flavor("openai", "x"); f.System != "" || f.DefaultBound {
		t.Errorf("an unknown flavor: %+v", f)
	}
	if got := registry.Names(func(p *dialect.Profile) bool { return p.Region.Form != nil }); !slices.Equal(got, []string{"bedrock"}) {
		t.Errorf("%v have regions", got)
	}
	if !registry.Serves("azure", "openai") || !registry.Serves("openai", "azure") || registry.Serves("openai", "gemini") {
		t.Error("OpenAI and Azure serve each other's calls, and nobody else's")
	}
}
