package estimate

import (
	"testing"

	"llmgw/internal/dialect"
	"llmgw/internal/tokens"
)

func TestAPictureCostsByItsSizeAndQuality(t *testing.T) {
	for _, s := range []struct {
		model, size, quality string
		partial              tokens.Count
		want                 tokens.Count
	}{
		{"gpt-image-1", "1024x1024", "low", 0, 272},
		{"gpt-image-1", "1024x1536", "low", 0, 408},
		{"gpt-image-1", "1536x1024", "low", 0, 400},
		{"gpt-image-1", "1024x1024", "medium", 0, 1056},
		{"gpt-image-1", "1024x1024", "high", 0, 4160},
		{"gpt-image-1", "1536x1024", "high", 0, 6208},
		{"gpt-image-1", "auto", "high", 0, 6240},
		{"gpt-image-1", "1024x1024", "auto", 0, 4160},
		{"gpt-image-1", "", "", 0, 6240},
		{"gpt-image-1", "7x7", "standard", 0, 6240}, // as the largest, whatever it is
		{"gpt-image-1", "1024x1024", "low", 3, 572},
		{"gpt-image-1.5-2025-12-16", "1024x1536", "medium", 0, 1584},
		{"openai/gpt-image-1-mini", "1024x1024", "medium", 0, 1056},
		{"gpt-image-2", "1024x1024", "high", 0, 7024},
		{"gpt-image-2", "1536x1024", "high", 0, 5488},
		{"gpt-image-2", "1024x1536", "high", 0, 5488},
		{"gpt-image-2", "1792x1024", "high", 0, 5063},
		{"gpt-image-2", "1024x1024", "low", 0, 196},
		{"gpt-image-2", "auto", "auto", 0, 7024},
		{"gpt-image-2", "0x1024", "high", 0, 7024},
		{"gpt-image-2", "65535x65535", "high", 0, 23719},
		{"gpt-image-2", "65535x1", "high", 0, 0},
		{"chatgpt-image-latest", "", "", 0, 7024},
	} {
		got, ok := pictureOutput(s.model, dialect.Picture{Size: s.size, Quality: s.quality, Partial: s.partial})
		if !ok || got != s.want {
			t.Errorf("%s %s %s with %d partial ones: got %d (%v), want %d", s.model, s.size, s.quality, s.partial, got, ok, s.want)
		}
	}
	for _, model := range []string{"dall-e-3", "flux", "gpt-4o", ""} {
		if _, ok := pictureOutput(model, dialect.Picture{}); ok {
			t.Errorf("%q is taken to be billed by tokens", model)
		}
	}
}

func TestPicturesAreReservedByTheRuleOfTheirModel(t *testing.T) {
	e := New(Config{})
	rules := Rules{Model: "art", ProviderModel: "gpt-image-1", DefaultMaxOutput: 700}
	c := call(t, dialect.Images, `{"prompt":"a cat","n":3}`)
	c.Choices, c.Picture = 3, dialect.Picture{Quality: "low"}
	if got := estimated(t, e, c, rules).Output; got != 3*408 {
		t.Errorf("three pictures: got %d, want 3 × 408", got)
	}
	rules.MaxOutput = 300
	if got := estimated(t, e, c, rules).Output; got != 3*300 {
		t.Errorf("three pictures of at most 300: got %d", got)
	}
	rules.MaxOutput, rules.ProviderModel = 0, "dall-e-3"
	if got := estimated(t, e, c, rules).Output; got != 3*700 {
		t.Errorf("a model without a rule: got %d, want 3 × the default", got)
	}
	chat := call(t, dialect.Chat, `{"messages":[]}`)
	if got := estimated(t, e, chat, Rules{Model: "gpt-image-1", DefaultMaxOutput: 700}).Output; got != 700 {
		t.Errorf("a chat: got %d, want the default", got)
	}
}

func TestAFormsPromptAndPicturesAreInput(t *testing.T) {
	e := New(Config{})
	form := "a form that holds: make the sky blue"
	c := &dialect.Call{Request: dialect.Request{Body: []byte(form), Endpoint: dialect.Endpoint{Operation: dialect.Images}}, Model: "gpt-image-1", Choices: 1}
	if got := estimated(t, e, c).Input; got != 0 {
		t.Errorf("a form of which nothing is known: got %d", got)
	}
	c.Picture.Prompt = dialect.Span{Start: 19, End: len(form)}
	words := estimated(t, e, c).Input
	if words < 4 || words > 6 {
		t.Errorf("four words: got %d", words)
	}
	c.Picture.Sources = 2
	two := estimated(t, e, c)
	if two.Parts.Images == 0 || two.Input != words+two.Parts.Images {
		t.Errorf("two pictures: got %+v", two)
	}
	c.Picture.Fidelity = "high"
	if got := estimated(t, e, c).Parts.Images; got != two.Parts.Images+2*faithfulSource {
		t.Errorf("two pictures to be kept to: got %d, want %d more than %d", got, 2*faithfulSource, two.Parts.Images)
	}
	c.Picture.Fidelity = ""
	c.Picture.Sources, c.Picture.Prompt.End = 1<<40, 1<<40
	if got := estimated(t, e, c).Parts.Images; got != two.Parts.Images*maxSources/2 {
		t.Errorf("very many pictures: got %d", got)
	}
}
