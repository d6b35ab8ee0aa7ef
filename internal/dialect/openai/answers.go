package openai

import (
	"cmp"
	"slices"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/watch"
	"llmgw/internal/jsonscan"
)

// The places of usage in an answer, by the names that OpenAI and the providers
// that follow it have given them.
var usage = watch.Places{
	"":                                           watch.Usage,
	"prompt_tokens":                              watch.Prompt,
	"completion_tokens":                          watch.Output,
	"input_tokens":                               watch.Prompt,
	"output_tokens":                              watch.Output,
	"total_tokens":                               watch.Total,
	"cached_tokens":                              watch.Cached, // Together
	"num_cached_tokens":                          watch.Cached, // Mistral
	"prompt_cache_hit_tokens":                    watch.Cached, // DeepSeek
	"prompt_tokens_details.cached_tokens":        watch.Cached,
	"prompt_token_details.cached_tokens":         watch.Cached, // Mistral
	"input_tokens_details.cached_tokens":         watch.Cached,
	"prompt_tokens_details.cache_write_tokens":   watch.Written,
	"input_tokens_details.cache_write_tokens":    watch.Written,
	"completion_tokens_details.reasoning_tokens": watch.Reasoning,
	"output_tokens_details.reasoning_tokens":     watch.Reasoning,
	"reasoning_tokens":                           watch.LooseReasoning, // Perplexity
	"prompt_tokens_details.audio_tokens":         watch.AudioIn,
	"input_tokens_details.audio_tokens":          watch.AudioIn,
	"input_token_details.audio_tokens":           watch.AudioIn,
	"prompt_tokens_details.image_tokens":         watch.ImageIn,
	"input_tokens_details.image_tokens":          watch.ImageIn,
	"completion_tokens_details.audio_tokens":     watch.AudioOut,
	"output_tokens_details.audio_tokens":         watch.AudioOut,
	"completion_tokens_details.image_tokens":     watch.ImageOut,
	"output_tokens_details.image_tokens":         watch.ImageOut,

	"prompt_tokens_details.cached_tokens_details.audio_tokens": watch.AudioCached,
	"input_tokens_details.cached_tokens_details.audio_tokens":  watch.AudioCached,

	"citation_tokens":                     watch.CitationApart, // Perplexity
	"num_search_queries":                  watch.Searches,      // Perplexity
	"server_tool_use.web_search_requests": watch.Searches,      // OpenRouter

	"num_sources_used": watch.Sources, // xAI
	"server_side_tool_usage_details.web_search_calls":       watch.Searches,
	"server_side_tool_usage_details.x_search_calls":         watch.PostSearch,
	"server_side_tool_usage_details.file_search_calls":      watch.FileSearch,
	"server_side_tool_usage_details.code_interpreter_calls": watch.CodeRuns,
}

var failure = watch.Places{
	"error":                     watch.Failed,
	"error.type":                watch.ErrorType,
	"error.code":                watch.ErrorCode,
	"error.message":             watch.ErrorMessage,
	"error.metadata.error_type": watch.ErrorType, // OpenRouter
}

var head = watch.Places{"id": watch.ID, "model": watch.Model, "service_tier": watch.Tier}

var choice = watch.Places{
	"":              watch.Choice,
	"index":         watch.Index,
	"finish_reason": watch.Finish,
}

// message is what a model says: a message, or the delta of one.
var message = watch.Places{
	"content":                         watch.Text,
	"content.*.text":                  watch.Text,    // Mistral: parts
	"content.*.thinking.*.text":       watch.Thought, // Mistral
	"refusal":                         watch.Text,
	"audio.transcript":                watch.Text,
	"reasoning_content":               watch.Thought,    // DeepSeek, xAI, vLLM, llama.cpp
	"reasoning":                       watch.ThoughtToo, // OpenRouter, Groq, Together
	"tool_calls":                      watch.Begun,
	"tool_calls.*.function.name":      watch.ToolText,
	"tool_calls.*.function.arguments": watch.ToolText,
	"tool_calls.*.custom.name":        watch.ToolText,
	"tool_calls.*.custom.input":       watch.ToolText,
	"function_call.name":              watch.ToolText,
	"function_call.arguments":         watch.ToolText,
}

// bare is an error without an object of its own, as Mistral and older servers
// send it.
var bare = watch.Places{
	"object":  watch.Object,
	"type":    watch.ErrorType,
	"code":    watch.ErrorCode,
	"message": watch.ErrorMessage,
}

// groq puts usage and errors of its own beside OpenAI's.
var groq = watch.Places{"x_groq.error": watch.Failed}

// timings is what llama.cpp tells on its last chunk, whether usage was asked
// for or not.
var timings = watch.Places{
	"timings":             watch.Usage,
	"timings.prompt_n":    watch.Fresh,
	"timings.cache_n":     watch.Cached,
	"timings.predicted_n": watch.Output,
}

// said is all of an answer with choices but what the choices say.
var said = []watch.Places{head, failure, bare, choice.Under("choices.*"), usage.Under("usage")}

// text is what a choice of /completions says.
var text = watch.Places{"choices.*.text": watch.Text}

var (
	chat = &watch.API{
		Document: tree(said, message.Under("choices.*.message")),
		Event:    tree(said, message.Under("choices.*.delta")),
		Hideable: true,
	}
	// searchingChat is chat with a search, which OpenAI bills and does not count.
	searchingChat = &watch.API{Document: chat.Document, Event: chat.Event, Hideable: true, Searches: true}

	groqChat = &watch.API{
		Document: tree(said, message.Under("choices.*.message"), groq, usage.Under("x_groq.usage")),
		Event:    tree(said, message.Under("choices.*.delta"), groq, usage.Under("x_groq.usage")),
		Hideable: true,
	}
	llamaChat = &watch.API{
		Document: tree(said, message.Under("choices.*.message"), timings),
		Event:    tree(said, message.Under("choices.*.delta"), timings),
		Hideable: true,
	}
	completion      = &watch.API{Document: tree(said, text), Event: tree(said, text), Hideable: true}
	llamaCompletion = &watch.API{Document: tree(said, text, timings), Event: tree(said, text, timings), Hideable: true}
)

func tree(common []watch.Places, more ...watch.Places) *jsonscan.Node {
	return watch.Tree(append(slices.Clone(common), more...)...)
}

// response is a whole response, as a document or inside an event.
var response = watch.Places{
	"id":            watch.ID,
	"model":         watch.Model,
	"error":         watch.Failed,
	"error.type":    watch.ErrorType,
	"error.code":    watch.ErrorCode,
	"error.message": watch.ErrorMessage,
	"service_tier":  watch.Tier,

	"output.*":             watch.Item,
	"output.*.type":        watch.ItemType,
	"output.*.action.type": watch.ItemAction,
}

// tools is what a whole response says of the tools that the provider ran. It is
// a report of usage of its own.
var tools = watch.Places{
	"tool_usage":                         watch.Usage,
	"tool_usage.web_search.num_requests": watch.Searches,
}

// items are what a whole response says.
var items = watch.Places{
	"status":                     watch.Finish,
	"output.*.content.*.text":    watch.Text,
	"output.*.content.*.refusal": watch.Text,
	"output.*.summary.*.text":    watch.Thought,
	"output.*.name":              watch.ToolText,
	"output.*.arguments":         watch.ToolText,
	"output.*.input":             watch.ToolText,
}

// responses is how answers of /responses are read. The same text comes in a
// delta, when it is done, and in the whole response: only deltas count.
var responses = &watch.API{
	Document: watch.Tree(response, tools, items, usage.Under("usage")),
	Event: watch.Tree(response.Under("response"), tools.Under("response"), usage.Under("response.usage"), failure, watch.Places{
		"item":             watch.Item,
		"item.type":        watch.ItemType,
		"item.action.type": watch.ItemAction,

		"type":         watch.EventType,
		"delta":        watch.TypedText,
		"code":         watch.ErrorCode,
		"message":      watch.ErrorMessage,
		"item.name":    watch.Begun,
		"item.call_id": watch.Begun,
	}),
	ItemDone: "response.output_item.done",
	Closes: map[string]bool{
		"response.output_text.done": true, "response.refusal.done": true, "response.content_part.done": true, "response.output_item.done": true,
		"response.function_call_arguments.done": true, "response.custom_tool_call_input.done": true,
	},
	Pending: map[string]bool{"queued": true, "in_progress": true},
	Ends:    map[string]string{"response.completed": "completed", "response.incomplete": "incomplete", "response.failed": "failed", "response.cancelled": "cancelled"},
	Says: map[string]bool{
		"response.output_text.delta":                true,
		"response.refusal.delta":                    true,
		"response.reasoning_text.delta":             true,
		"response.reasoning_summary_text.delta":     true,
		"response.function_call_arguments.delta":    true,
		"response.mcp_call_arguments.delta":         true,
		"response.custom_tool_call_input.delta":     true,
		"response.code_interpreter_call_code.delta": true,
		"response.audio.transcript.delta":           true,
	},
}

// whole is an answer that is one document and says nothing that is counted.
var whole = &watch.API{Document: watch.Tree(head, failure, usage.Under("usage")), Event: watch.Tree(head, failure, usage.Under("usage"))}

// media is how answers of the images and audio endpoints are read.
var media = &watch.API{
	Document: watch.Tree(failure, usage.Under("usage"), watch.Places{
		"model": watch.Model, "text": watch.Text, "data.*": watch.Drawn, "usage.seconds": watch.Seconds, "duration": watch.Seconds,
	}),
	Event: watch.Tree(failure, usage.Under("usage"), watch.Places{
		"type":          watch.EventType,
		"delta":         watch.TypedText,
		"b64_json":      watch.Begun,
		"audio":         watch.Begun,
		"usage.seconds": watch.Seconds,
	}),
	Ends: map[string]string{
		"image_generation.completed": "completed", "image_edit.completed": "completed", "transcript.text.done": "", "speech.audio.done": "",
	},
	Says:  map[string]bool{"transcript.text.delta": true},
	Plain: true,
}

func hasMember(c *dialect.Call, key string) bool {
	return slices.ContainsFunc(c.Members, func(m dialect.Member) bool { return m.Key == key })
}

// apiOf is how answers to a call are read. The provider's flavor is that
// of its configuration, and never guessed from an answer.
func apiOf(c *dialect.Call, f *flavor) *watch.API {
	switch c.Endpoint.Operation {
	case dialect.Chat:
		if f.searching != nil && hasMember(c, "web_search_options") {
			return f.searching
		}
		return cmp.Or(f.chat, chat)
	case dialect.Completion:
		return cmp.Or(f.completion, completion)
	case dialect.Responses, dialect.Stored:
		return responses
	case dialect.Images, dialect.Speech, dialect.Transcribe:
		return media
	}
	return whole
}
