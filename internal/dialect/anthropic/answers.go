package anthropic

import "llmgw/internal/dialect/watch"

// read is what the model read: its caches stand beside input_tokens.
var read = watch.Places{
	"":                            watch.Usage,
	"input_tokens":                watch.Prompt,
	"cache_creation_input_tokens": watch.WrittenApart,
	"cache_read_input_tokens":     watch.CacheApart,

	"cache_creation.ephemeral_1h_input_tokens": watch.WrittenLong,
	"server_tool_use.web_search_requests":      watch.Searches,

	"service_tier":  watch.Tier,
	"speed":         watch.Speed,
	"inference_geo": watch.Geo,
}

var produced = watch.Places{
	"output_tokens":                         watch.Output,
	"output_tokens_details.thinking_tokens": watch.Reasoning,
}

// passes are those of an answer that took several, as with compaction on the
// server's side: the top level may leave some out.
var passes = watch.Places{
	"":                            watch.Pass,
	"type":                        watch.PassType,
	"input_tokens":                watch.Prompt,
	"cache_creation_input_tokens": watch.WrittenApart,
	"cache_read_input_tokens":     watch.CacheApart,
	"output_tokens":               watch.Output,

	"cache_creation.ephemeral_1h_input_tokens": watch.WrittenLong,
}

var failure = watch.Places{
	"error":                    watch.Failed,
	"error.type":               watch.ErrorType,
	"error.message":            watch.ErrorMessage,
	"error.details.error_code": watch.ErrorCode,
}

var block = watch.Places{
	"text":     watch.Text,
	"thinking": watch.Thought,
	"name":     watch.ToolText,
}

// Whole and Event are the places of a whole message and of a stream's events;
// Bedrock has these too. The output of message_start is a placeholder: only
// message_delta's counts, and overwrites what came before.
var (
	Whole = []watch.Places{
		failure, block.Under("content.*"), read.Under("usage"), produced.Under("usage"), passes.Under("usage.iterations.*"),
		{"id": watch.ID, "model": watch.Model, "stop_reason": watch.Finish, "content.*.input": watch.ToolText},
	}
	Event = []watch.Places{
		failure, block.Under("content_block"), read.Under("message.usage"), read.Under("usage"), produced.Under("usage"), passes.Under("usage.iterations.*"),
		{
			"type":               watch.EventType,
			"message.id":         watch.ID,
			"message.model":      watch.Model,
			"delta.text":         watch.Text,
			"delta.thinking":     watch.Thought,
			"delta.partial_json": watch.ToolText,
			"delta.stop_reason":  watch.Finish,
		},
	}
)

// Closes are the events after which a stream may have nothing but usage left.
var Closes = map[string]bool{"content_block_stop": true, "message_delta": true}

// messages is how answers of /v1/messages are read.
var messages = &watch.API{Document: watch.Tree(Whole...), Event: watch.Tree(Event...), Ends: map[string]string{"message_stop": ""}, Closes: Closes}

// counted is how answers of count_tokens are read: what they count is not used.
var counted = &watch.API{Document: watch.Tree(failure), Event: watch.Tree(failure)}
