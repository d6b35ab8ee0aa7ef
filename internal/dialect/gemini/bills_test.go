package gemini

import (
	"testing"

	"llmgw/internal/dialect/dialecttest"
)

const flash = "input 0.3 cached_input 0.03 audio_input 1 cached_audio_input 0.1 image_input 0.3 output 2.5 image_output 30 audio_output 12 @web_search 0.014 ×flex 0.5 ×priority 1.8 "

func TestEachBillIsChargedToTheMicroDollar(t *testing.T) {
	answer := func(usage, more string) string {
		return `{"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"STOP"` + more + `}],"usageMetadata":` + usage + `}`
	}
	dialecttest.Bills(t, New(), []dialecttest.Bill{
		{
			What:   "text and sound",
			Answer: answer(`{"promptTokenCount":1200,"candidatesTokenCount":10,"totalTokenCount":1210,"promptTokensDetails":[{"modality":"TEXT","tokenCount":200},{"modality":"AUDIO","tokenCount":1000}]}`, ""),
			Prices: flash, Micro: 60 + 1000 + 25,
		},
		{
			What:   "the count before its modality",
			Answer: answer(`{"promptTokensDetails":[{"tokenCount":1000,"modality":"AUDIO"},{"tokenCount":200,"modality":"TEXT"}],"promptTokenCount":1200,"candidatesTokenCount":10}`, ""),
			Prices: flash, Micro: 60 + 1000 + 25,
		},
		{
			What:   "sound from a cache",
			Answer: answer(`{"promptTokenCount":2000,"cachedContentTokenCount":1000,"candidatesTokenCount":0,"promptTokensDetails":[{"modality":"AUDIO","tokenCount":1500},{"modality":"TEXT","tokenCount":500}],"cacheTokensDetails":[{"modality":"AUDIO","tokenCount":800},{"modality":"TEXT","tokenCount":200}]}`, ""),
			Prices: flash, Micro: 80 + 6 + 700 + 90,
		},
		{
			What:   "a picture",
			Answer: answer(`{"promptTokenCount":10,"candidatesTokenCount":1300,"candidatesTokensDetails":[{"modality":"IMAGE","tokenCount":1290}]}`, ""),
			Prices: flash, Micro: 3 + 38_700 + 25,
		},
		{
			What:   "speech without a price",
			Answer: answer(`{"promptTokenCount":10,"candidatesTokenCount":100,"candidatesTokensDetails":[{"modality":"AUDIO","tokenCount":100}]}`, ""),
			Prices: "input 1 output 2", Micro: 210, Unpriced: "audio_output",
		},
		{
			What:   "searches, thoughts and what tools read, by priority",
			Answer: answer(`{"promptTokenCount":100,"toolUsePromptTokenCount":1000,"candidatesTokenCount":10,"thoughtsTokenCount":90,"totalTokenCount":1200,"serviceTier":"priority"}`, `,"groundingMetadata":{"webSearchQueries":["a","b","c"]}`),
			Prices: flash, Micro: (330+250)*18/10 + 42_000,
		},
		{
			What: "a stream whose reports grow, with its searches at the end",
			Answer: `data: {"candidates":[{"content":{"parts":[{"text":"a"}]}}],"usageMetadata":{"promptTokenCount":1000,"promptTokensDetails":[{"modality":"AUDIO","tokenCount":1000}],"trafficType":"ON_DEMAND_FLEX"}}

data: {"candidates":[{"content":{"parts":[{"text":"b"}]},"groundingMetadata":{"webSearchQueries":["q"]}}],"usageMetadata":{"promptTokenCount":1000,"promptTokensDetails":[{"modality":"AUDIO","tokenCount":1000}],"candidatesTokenCount":5,"trafficType":"ON_DEMAND_FLEX"}}

data: {"candidates":[{"content":{"parts":[]},"finishReason":"STOP","groundingMetadata":{"webSearchQueries":["q"]}}],"usageMetadata":{"promptTokenCount":1000,"promptTokensDetails":[{"modality":"AUDIO","tokenCount":1000}],"candidatesTokenCount":40,"trafficType":"ON_DEMAND_FLEX"}}

`,
			Prices: flash, Micro: 550 + 14_000,
		},
		{What: "a tier by a header", Header: map[string][]string{"X-Gemini-Service-Tier": {"flex"}}, Answer: answer(`{"promptTokenCount":1000,"candidatesTokenCount":100}`, ""), Prices: flash, Micro: 275},
	})
}
