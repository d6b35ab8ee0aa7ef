package watch

import (
	"testing"

	"llmgw/internal/tokens"
)

// told makes a report of some fields.
func told(pairs ...int) *counts {
	c := &counts{}
	for i := 0; i < len(pairs); i += 2 {
		c.put(pairs[i], tokens.Count(pairs[i+1]))
	}
	return c
}

func TestEveryWayOfCountingHasOneNormalForm(t *testing.T) {
	for _, s := range []struct {
		what          string
		told          *counts
		want          tokens.Usage
		input, output bool
	}{
		{"nothing", told(), tokens.Usage{}, false, false},
		{"OpenAI", told(Prompt, 100, Cached, 40, Written, 10, Output, 50, Reasoning, 20, Total, 150), tokens.Usage{Input: 100, CachedInput: 40, CacheWrite: 10, Output: 50, Reasoning: 20}, true, true},
		{"Anthropic", told(Prompt, 100, CacheApart, 40, WrittenApart, 10, Output, 50), tokens.Usage{Input: 150, CachedInput: 40, CacheWrite: 10, Output: 50}, true, true},
		{"Gemini", told(Prompt, 100, Cached, 40, PromptApart, 5, Output, 50, ThoughtsApart, 30), tokens.Usage{Input: 105, CachedInput: 40, Output: 80, Reasoning: 30}, true, true},
		{"xAI", told(Prompt, 32, Cached, 6, Output, 9, Reasoning, 228, Total, 269), tokens.Usage{Input: 32, CachedInput: 6, Output: 237, Reasoning: 228}, true, true},
		{"xAI, more cached than read", told(Prompt, 10, Cached, 30, Output, 5, Total, 45), tokens.Usage{Input: 40, CachedInput: 30, Output: 5}, true, true},
		{"xAI, more cached than read, which the total has not", told(Prompt, 10, Cached, 100, Output, 5, Reasoning, 200, Total, 215), tokens.Usage{Input: 110, CachedInput: 100, Output: 205, Reasoning: 200}, true, true},
		{"xAI, more cached than read and some reasoning", told(Prompt, 10, Cached, 100, Output, 5, Reasoning, 20, Total, 135), tokens.Usage{Input: 110, CachedInput: 100, Output: 25, Reasoning: 20}, true, true},
		{"xAI, more cached than read, and nothing else", told(Prompt, 10, Cached, 100, Output, 5, Total, 15), tokens.Usage{Input: 110, CachedInput: 100, Output: 5}, true, true},
		{"all of the input cached", told(Prompt, 20, Cached, 20, Output, 5, Total, 25), tokens.Usage{Input: 20, CachedInput: 20, Output: 5}, true, true},
		{"llama.cpp's timings", told(Fresh, 1, Cached, 236, Output, 35), tokens.Usage{Input: 237, CachedInput: 236, Output: 35}, true, true},
		{"llama.cpp's usage and timings", told(Prompt, 237, Fresh, 1, Cached, 236, Output, 35, Total, 272), tokens.Usage{Input: 237, CachedInput: 236, Output: 35}, true, true},
		{"a total alone", told(Total, 50), tokens.Usage{}, false, false},
		{"an input and a total", told(Prompt, 30, Total, 50), tokens.Usage{Input: 30, Output: 20}, true, true},
		{"an input and its total", told(Prompt, 30, Total, 30), tokens.Usage{Input: 30}, true, false},
		{"an output alone", told(Output, 9), tokens.Usage{Output: 9}, false, true},
		{"a cache alone", told(CacheApart, 9), tokens.Usage{Input: 9, CachedInput: 9}, true, false},
		{"an input of 0", told(Prompt, 0, Output, 0), tokens.Usage{}, true, true},
		{"parts larger than their whole", told(Prompt, 10, Cached, 8, Written, 9, Output, 3, Reasoning, 7), tokens.Usage{Input: 10, CachedInput: 8, CacheWrite: 2, Output: 3, Reasoning: 3}, true, true},
		{
			"as much as can be counted",
			told(Prompt, int(tokens.MaxCount), CacheApart, int(tokens.MaxCount), Output, int(tokens.MaxCount), ThoughtsApart, 1),
			tokens.Usage{Input: tokens.MaxCount, CachedInput: tokens.MaxCount, Output: tokens.MaxCount, Reasoning: 1}, true, true,
		},
	} {
		if got := s.told.usage(); got != s.want || s.told.inputKnown() != s.input || s.told.outputKnown() != s.output {
			t.Errorf("%s: got %+v (%v, %v), want %+v (%v, %v)", s.what, got, s.told.inputKnown(), s.told.outputKnown(), s.want, s.input, s.output)
		}
	}
}

func TestMergingOverwritesAndAddingAdds(t *testing.T) {
	c := told(Prompt, 1, Output, 2)
	c.merge(told(Output, 5, Cached, 0))
	if *c != *told(Prompt, 1, Output, 5, Cached, 0) {
		t.Errorf("merged to %+v", c)
	}
	c.add(told(Prompt, 10, Reasoning, 3))
	if *c != *told(Prompt, 11, Output, 5, Cached, 0, Reasoning, 3) {
		t.Errorf("added to %+v", c)
	}
	c.add(told(Prompt, int(tokens.MaxCount)))
	if c.get(Prompt) != tokens.MaxCount {
		t.Errorf("added to %d", c.get(Prompt))
	}
	if !told().zero() || !told(Prompt, 0).zero() || told(Prompt, 0, Total, 1).zero() {
		t.Error("zeros are not told from counts")
	}
}

func TestWhatIsNoCountIsLeftOut(t *testing.T) {
	for text, want := range map[string]*counts{
		"7": told(Prompt, 7), "7.0": told(Prompt, 7), "0": told(Prompt, 0), "-1": told(), "1.5": told(), "null": told(), `"7"`: told(), "": told(), "1e99": told(), "9007199254740992": told(), "9007199254740991": told(Prompt, int(tokens.MaxCount)),
	} {
		c := &counts{}
		c.read(Prompt, []byte(text))
		if *c != *want {
			t.Errorf("%q: got %+v, want %+v", text, c, want)
		}
	}
}
