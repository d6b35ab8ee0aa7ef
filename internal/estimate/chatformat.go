package estimate

import "strings"

// chatFormat is what a chat adds to the text of its messages, in tokens.
type chatFormat struct {
	message int // for each message, without its role
	name    int // for each name, beside its text
	reply   int // once, to prime the answer
	tools   int // once, if there are tools or functions
	// forcedTools replaces tools when a tool must be called; 0: the same.
	forcedTools int
	call        int // for each tool call, beside its text
	// together is what calls made together cost beside that, once.
	together int
	// typescript says that functions are shown to the model as declarations in
	// TypeScript, else as JSON.
	typescript bool
}

func chatFormatOf(f family, short string) chatFormat {
	switch f {
	case claude:
		auto, forced := claudeTools(short)
		return chatFormat{message: 3, reply: 2, tools: auto, forcedTools: forced, call: 12}
	case gemini:
		return chatFormat{message: 1, call: 8}
	case qwen: // <|im_start|>, the role, a line feed, <|im_end|> and another; 87 explain the tools
		return chatFormat{message: 5, reply: 3, tools: 92, call: 18}
	case deepSeek: // a mark before each message, and one behind each answer
		return chatFormat{message: 2, reply: 2, call: 12}
	case mistral: // [INST] and [/INST], or the end of an answer
		return chatFormat{message: 2, reply: 1, tools: 2, call: 18}
	case llama: // three marks and the role, two line feeds, and the end of the turn
		return chatFormat{message: 5, reply: 5, call: 12}
	}
	o := chatFormat{message: 3, name: 1, reply: 3, tools: 9, call: 3}
	if f == openAI {
		o.together, o.typescript = 19, true
	}
	switch {
	case strings.HasPrefix(short, "gpt-3.5-turbo-0301"):
		o.message, o.name = 4, -1
	case strings.HasPrefix(short, "o1"), strings.HasPrefix(short, "o3"), strings.HasPrefix(short, "o4"):
		o.reply, o.tools = 2, 12
	case strings.HasPrefix(short, "gpt-oss"):
		o.reply, o.tools, o.together = 2, 17, 0
	case fromGPT5(short):
		o.reply, o.tools = 2, 17
		if since(short, 5, 1) {
			o.tools = 96
		}
	}
	return o
}

// claudeTools is what Anthropic adds to a request with tools: when the model
// may choose, and when it must use one.
func claudeTools(short string) (auto, forced int) {
	major, minor := version(short)
	switch {
	case major >= 5:
		return 354, 474
	case major == 4 && minor >= 8:
		return 290, 410
	case major == 4 && minor == 7:
		return 675, 804
	case major == 4 && minor == 6:
		return 497, 589
	case major == 4 && minor == 5 && strings.Contains(short, "opus"):
		return 496, 588
	}
	return 346, 313
}
