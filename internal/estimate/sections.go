package estimate

import "llmgw/internal/jsonscan"

// sections are the members of a body that make up the input, each the last of
// its name.
type sections struct {
	messages, content, prompt, context, input, tools, functions, toolConfig,
	toolChoice, functionCall, format, generation, images, wrapped []byte
	texts  [][]byte
	hidden hiddenKinds
}

// sectionsOf returns the sections of an object.
func sectionsOf(raw []byte) (s sections) {
	for m := jsonscan.MembersAt(raw, 0); m.Next(); {
		s.take(string(m.Key()), m.Bytes())
	}
	return s
}

// take notes one member of a body. The names of all APIs are told apart
// already: none gives the same name to different things, or it differs in kind.
func (s *sections) take(key string, value []byte) {
	switch key {
	case "messages", "contents":
		s.messages = value
	case "prompt":
		s.prompt = value
	case "context":
		s.context = value
	case "input":
		s.input = value
	case "content":
		s.content = value
	case "system", "systemInstruction", "system_instruction", "instructions", "suffix", "message", "query",
		"documents", "texts", "inputs", "inputText", "preamble", "chat_history", "title", "template":
		s.texts = append(s.texts, value)
	case "tools":
		s.tools = value
	case "functions":
		s.functions = value
	case "toolConfig", "tool_config":
		s.toolConfig = value
	case "tool_choice":
		s.toolChoice = value
	case "function_call":
		s.functionCall = value
	case "response_format", "text", "format", "output_config", "output_format":
		s.format = value
	case "generationConfig", "generation_config":
		s.generation = value
	case "images", "image":
		s.images = value
	case "requests", "generateContentRequest":
		s.wrapped = value
	case "previous_response_id", "conversation", "cachedContent", "cached_content":
		s.hides(hiddenContext, value)
	case "container", "mcp_servers", "web_search_options", "search_parameters":
		s.hides(hiddenTools, value)
	}
}

func (s *sections) hides(k hiddenKinds, value []byte) {
	if string(value) != "null" {
		s.hidden |= k
	}
}
