package bedrock

import (
	"slices"
	"strings"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/anthropic"
	"llmgw/internal/dialect/watch"
)

// used is Converse's report: what was read from and written to a cache stands
// beside inputTokens.
var used = watch.Places{
	"":                      watch.Usage,
	"inputTokens":           watch.Prompt,
	"outputTokens":          watch.Output,
	"cacheReadInputTokens":  watch.CacheApart,
	"cacheWriteInputTokens": watch.WrittenApart,

	"cacheDetails.*":             watch.Lifetime,
	"cacheDetails.*.ttl":         watch.TTL,
	"cacheDetails.*.inputTokens": watch.TTLCount,
}

// served is how Converse says that it served a request.
var served = watch.Places{
	"serviceTier.type":          watch.Tier,
	"performanceConfig.latency": watch.Speed,
}

// conversed is how answers of Converse are read. A stream's usage comes in its
// last event, behind the one that ends the message.
var conversed = &watch.API{
	Document: watch.Tree(used.Under("usage"), served, watch.Places{
		"stopReason":                    watch.Finish,
		"output.message.content.*.text": watch.Text,
		"output.message.content.*.reasoningContent.reasoningText.text": watch.Thought,
		"output.message.content.*.toolUse.name":                        watch.ToolText,
		"output.message.content.*.toolUse.input":                       watch.ToolText,
	}),
	Event: watch.Tree(used.Under("usage"), served, watch.Places{
		"message":                     watch.ErrorMessage, // of an exception
		"stopReason":                  watch.Finish,
		"start.toolUse.name":          watch.ToolText,
		"delta.text":                  watch.Text,
		"delta.reasoningContent.text": watch.Thought,
		"delta.toolUse.input":         watch.ToolText,
	}),
	Headers: headers,
	Closes:  map[string]bool{"contentBlockStop": true, "messageStop": true},
}

// counted is how answers of CountTokens are read: what they count is not used.
var counted = &watch.API{Document: watch.Tree(watch.Places{"message": watch.ErrorMessage}), Event: watch.Tree(watch.Places{}), Headers: headers}

// vendors are the places where models other than Anthropic's say something.
var vendors = watch.Places{
	"generation":                    watch.Text, // Meta
	"completion":                    watch.Text, // older Anthropic
	"outputText":                    watch.Text, // Amazon Titan, streamed
	"results.*.outputText":          watch.Text, // Amazon Titan
	"results.*.completionReason":    watch.Finish,
	"completionReason":              watch.Finish,
	"outputs.*.text":                watch.Text, // Mistral
	"outputs.*.stop_reason":         watch.Finish,
	"output.message.content.*.text": watch.Text, // Amazon Nova
	"contentBlockDelta.delta.text":  watch.Text, // Amazon Nova, streamed
	"messageStop.stopReason":        watch.Finish,
	"stopReason":                    watch.Finish,
	"stop_reason":                   watch.Finish,
	"choices.*.message.content":     watch.Text, // OpenAI, DeepSeek, Qwen
	"choices.*.delta.content":       watch.Text,
	"choices.*.text":                watch.Text,
	"choices.*":                     watch.Choice,
	"choices.*.index":               watch.Index,
	"choices.*.finish_reason":       watch.Finish,
	"text":                          watch.Text, // Cohere
	"finish_reason":                 watch.Finish,
}

// metrics are what Bedrock adds to the last event of every model.
var metrics = watch.Places{
	"":                          watch.LastUsage,
	"inputTokenCount":           watch.Prompt,
	"outputTokenCount":          watch.Output,
	"cacheReadInputTokenCount":  watch.CacheApart,
	"cacheWriteInputTokenCount": watch.WrittenApart,
}

// invoked is how answers of Invoke are read: the vendor's own document, with
// the counts in headers, or frames that hold the vendor's own events.
var invoked = &watch.API{
	Document: watch.Tree(slices.Concat([]watch.Places{vendors}, anthropic.Whole)...),
	Event:    watch.Tree(watch.Places{"bytes": watch.Embedded, "message": watch.ErrorMessage}),
	Inner:    &watch.API{Event: watch.Tree(slices.Concat([]watch.Places{vendors}, anthropic.Event, []watch.Places{metrics.Under("amazon-bedrock-invocationMetrics")})...)},
	Headers:  headers,
	Closes:   anthropic.Closes,
	Foreign:  true, // pictures, and vendors yet to come
}

// headers reads the counts of Invoke, how it was served, and the kind of an error.
func headers(h dialect.Header, set func(watch.Field, string)) {
	set(watch.Prompt, h.Get("X-Amzn-Bedrock-Input-Token-Count"))
	set(watch.Output, h.Get("X-Amzn-Bedrock-Output-Token-Count"))
	set(watch.CacheApart, h.Get("X-Amzn-Bedrock-Cache-Read-Input-Token-Count"))
	set(watch.WrittenApart, h.Get("X-Amzn-Bedrock-Cache-Write-Input-Token-Count"))
	set(watch.Tier, h.Get("X-Amzn-Bedrock-Service-Tier"))
	set(watch.Speed, h.Get("X-Amzn-Bedrock-Performanceconfig-Latency"))
	kind, _, _ := strings.Cut(h.Get("X-Amzn-Errortype"), ":")
	set(watch.ErrorType, kind)
}
