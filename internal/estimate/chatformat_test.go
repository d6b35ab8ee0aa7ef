package estimate

import "testing"

func TestTheFormatsOfChats(t *testing.T) {
	openAIs := chatFormat{message: 3, name: 1, reply: 3, tools: 9, call: 3, together: 19, typescript: true}
	with := func(change func(*chatFormat)) chatFormat {
		f := openAIs
		change(&f)
		return f
	}
	for _, s := range []struct {
		names []string
		want  chatFormat
	}{
		{[]string{"gpt-4o", "gpt-4-0613", "gpt-3.5-turbo", "gpt-35-turbo", "gpt-4.1-mini"}, openAIs},
		{[]string{"gpt-3.5-turbo-0301"}, with(func(f *chatFormat) { f.message, f.name = 4, -1 })},
		{[]string{"o1", "o1-mini", "o3-pro", "o4-mini"}, with(func(f *chatFormat) { f.reply, f.tools = 2, 12 })},
		{[]string{"gpt-5", "gpt-5-mini-2025-08-07"}, with(func(f *chatFormat) { f.reply, f.tools = 2, 17 })},
		{[]string{"gpt-5.1", "gpt-5.2-pro", "gpt-5.6", "gpt-6-sol", "us.openai.gpt-5.6-sol-v1:0"}, with(func(f *chatFormat) { f.reply, f.tools = 2, 96 })},
		{[]string{"gpt-oss-20b", "openai.gpt-oss-120b-1:0"}, with(func(f *chatFormat) { f.reply, f.tools, f.together = 2, 17, 0 })},
		{[]string{"gemini-2.5-pro", "gemma-3-27b"}, chatFormat{message: 1, call: 8}},
		{[]string{"qwen3-32b", "qwen-plus"}, chatFormat{message: 5, reply: 3, tools: 92, call: 18}},
		{[]string{"deepseek-chat", "deepseek-coder"}, chatFormat{message: 2, reply: 2, call: 12}},
		{[]string{"mistral-nemo", "codestral"}, chatFormat{message: 2, reply: 1, tools: 2, call: 18}},
		{[]string{"llama-3.3-70b"}, chatFormat{message: 5, reply: 5, call: 12}},
		{[]string{"command-a"}, with(func(f *chatFormat) { f.together, f.typescript = 0, false })},
	} {
		for _, name := range s.names {
			rules := Rules{Model: name}
			if name == "command-a" {
				rules.Dialect = "cohere"
			}
			if got := resolve(nil, rules).chat; got != s.want {
				t.Errorf("%s: %+v, want %+v", name, got, s.want)
			}
		}
	}
}

func TestWhatAnthropicAddsForTools(t *testing.T) {
	for _, s := range []struct {
		names        []string
		auto, forced int
	}{
		{[]string{"claude-3-5-sonnet-20241022", "claude-sonnet-4-5-20250929", "claude-haiku-4-5", "claude-opus-4-1", "claude"}, 346, 313},
		{[]string{"claude-opus-4-5-20251101"}, 496, 588},
		{[]string{"claude-opus-4-6", "claude-sonnet-4-6"}, 497, 589},
		{[]string{"claude-opus-4-7", "us.anthropic.claude-opus-4-7-v1:0", "pool-3.claude-opus-4-7"}, 675, 804},
		{[]string{"claude-opus-4-8", "claude-sonnet-4-9"}, 290, 410},
		{[]string{"claude-sonnet-5", "claude-opus-5-1", "claude-haiku-6"}, 354, 474},
	} {
		for _, name := range s.names {
			f := resolve(nil, Rules{Model: name}).chat
			if f.tools != s.auto || f.forcedTools != s.forced {
				t.Errorf("%s: %d and %d, want %d and %d", name, f.tools, f.forcedTools, s.auto, s.forced)
			}
			if f.message != 3 || f.reply != 2 || f.call != 12 || f.typescript {
				t.Errorf("%s: %+v", name, f)
			}
		}
	}
}
