package cohere

import "llmgw/internal/dialect/watch"

// units are what is paid for. The tokens told beside them, of which the cached
// ones are a part, are counted with the model's template.
var units = watch.Places{
	"":                           watch.Usage,
	"billed_units.input_tokens":  watch.Prompt,
	"billed_units.output_tokens": watch.Output,
	"billed_units.search_units":  watch.SearchUnits,
}

// chat is how answers of /v2/chat are read.
var chat = &watch.API{
	Document: watch.Tree(units.Under("usage"), watch.Places{
		"id":                                      watch.ID,
		"finish_reason":                           watch.Finish,
		"message.content.*.text":                  watch.Text,
		"message.content.*.thinking":              watch.Thought,
		"message.tool_plan":                       watch.ToolText,
		"message.tool_calls.*.function.name":      watch.ToolText,
		"message.tool_calls.*.function.arguments": watch.ToolText,
	}),
	Event: watch.Tree(units.Under("delta.usage"), watch.Places{
		"id":                                     watch.ID,
		"type":                                   watch.EventType,
		"delta.finish_reason":                    watch.Finish,
		"delta.error":                            watch.Failed,
		"delta.message.content.text":             watch.Text,
		"delta.message.content.thinking":         watch.Thought,
		"delta.message.tool_plan":                watch.ToolText,
		"delta.message.tool_calls.function.name": watch.ToolText,
		"delta.message.tool_calls.function.arguments": watch.ToolText,
	}),
	Ends:   map[string]string{"message-end": ""},
	Closes: map[string]bool{"content-end": true, "tool-call-end": true},
}

// billed is how the other answers are read: /v2/rerank bills units of search,
// which are no tokens.
var billed = &watch.API{
	Document: watch.Tree(units.Under("meta"), watch.Places{"id": watch.ID}),
	Event:    watch.Tree(units.Under("meta"), watch.Places{"id": watch.ID}),
}
