package gemini

import (
	"llmgw/internal/dialect"
	"llmgw/internal/dialect/watch"
)

var places = watch.Places{
	"responseId":                 watch.ID,
	"modelVersion":               watch.Model,
	"promptFeedback.blockReason": watch.Finish,

	"candidates.*":                                     watch.Choice,
	"candidates.*.index":                               watch.Index,
	"candidates.*.finishReason":                        watch.Finish,
	"candidates.*.content.parts.*.text":                watch.Text,
	"candidates.*.content.parts.*.functionCall":        watch.Begun,
	"candidates.*.content.parts.*.functionCall.name":   watch.ToolText,
	"candidates.*.content.parts.*.functionCall.args":   watch.ToolText,
	"candidates.*.content.parts.*.executableCode.code": watch.ToolText,
	"candidates.*.content.parts.*.inlineData":          watch.Begun,

	"usageMetadata":                         watch.Usage,
	"usageMetadata.promptTokenCount":        watch.Prompt,
	"usageMetadata.toolUsePromptTokenCount": watch.PromptApart,
	"usageMetadata.cachedContentTokenCount": watch.Cached,
	"usageMetadata.candidatesTokenCount":    watch.Output,
	"usageMetadata.thoughtsTokenCount":      watch.ThoughtsApart,
	"usageMetadata.totalTokenCount":         watch.Total,

	"usageMetadata.promptTokensDetails.*":        watch.Share,
	"usageMetadata.toolUsePromptTokensDetails.*": watch.ShareMore,
	"usageMetadata.cacheTokensDetails.*":         watch.ShareCache,
	"usageMetadata.candidatesTokensDetails.*":    watch.ShareOut,

	"usageMetadata.promptTokensDetails.*.modality":          watch.Modality,
	"usageMetadata.promptTokensDetails.*.tokenCount":        watch.ShareCount,
	"usageMetadata.toolUsePromptTokensDetails.*.modality":   watch.Modality,
	"usageMetadata.toolUsePromptTokensDetails.*.tokenCount": watch.ShareCount,
	"usageMetadata.cacheTokensDetails.*.modality":           watch.Modality,
	"usageMetadata.cacheTokensDetails.*.tokenCount":         watch.ShareCount,
	"usageMetadata.candidatesTokensDetails.*.modality":      watch.Modality,
	"usageMetadata.candidatesTokensDetails.*.tokenCount":    watch.ShareCount,

	"usageMetadata.serviceTier": watch.Tier,
	"usageMetadata.trafficType": watch.Speed, // Vertex's name for it

	"candidates.*.groundingMetadata.webSearchQueries.*": watch.Query,

	"error":         watch.Failed,
	"error.status":  watch.ErrorType,
	"error.code":    watch.ErrorCode,
	"error.message": watch.ErrorMessage,
}

// generated is how all answers but counts are read. A stream comes as events,
// or as one list; each part of it reports usage that includes the last.
var generated = &watch.API{Document: watch.Tree(places), Event: watch.Tree(places), Array: true, Headers: headers}

// headers reads how a request was served.
func headers(h dialect.Header, set func(watch.Field, string)) {
	set(watch.Tier, h.Get("X-Gemini-Service-Tier"))
}

// counted is how answers of countTokens are read: what they count is not used.
var counted = &watch.API{Document: watch.Tree(watch.Places{"error": watch.Failed}), Event: watch.Tree(watch.Places{"error": watch.Failed})}
