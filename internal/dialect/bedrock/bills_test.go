package bedrock

import (
	"testing"

	"llmgw/internal/dialect/dialecttest"
)

func TestEachBillIsChargedToTheMicroDollar(t *testing.T) {
	const claude = "input 3 cached_input 0.3 cache_write 3.75 cache_write_1h 6 output 15 ×priority 1.75 ×flex 0.5 ×optimized 1.25 "
	converse := func(usage, more string) string {
		return `{"output":{"message":{"content":[{"text":"x"}]}},"stopReason":"end_turn"` + more + `,"usage":` + usage + `}`
	}
	dialecttest.Bills(t, New(), []dialecttest.Bill{
		{
			What: "writes to both caches", Pattern: prefix + ":model" + conversePath,
			Answer: converse(`{"inputTokens":9,"outputTokens":4,"totalTokens":1213,"cacheReadInputTokens":200,"cacheWriteInputTokens":1000,"cacheDetails":[{"inputTokens":400,"ttl":"5m"},{"inputTokens":600,"ttl":"1h"}]}`, ""),
			Prices: claude, Micro: 27 + 60 + 60 + 1500 + 3600,
		},
		{What: "a tier", Pattern: prefix + ":model" + conversePath, Answer: converse(`{"inputTokens":1000,"outputTokens":100}`, `,"serviceTier":{"type":"priority"}`), Prices: claude, Micro: 7875},
		{What: "a fast answer", Pattern: prefix + ":model" + conversePath, Answer: converse(`{"inputTokens":1000,"outputTokens":100}`, `,"performanceConfig":{"latency":"optimized"}`), Prices: claude, Micro: 5625},
		{
			What: "Anthropic's own document", Pattern: prefix + ":model" + invoke,
			Header: map[string][]string{"X-Amzn-Bedrock-Input-Token-Count": {"10"}, "X-Amzn-Bedrock-Output-Token-Count": {"2"}, "X-Amzn-Bedrock-Cache-Write-Input-Token-Count": {"500"}, "X-Amzn-Bedrock-Service-Tier": {"flex"}},
			Answer: `{"type":"message","content":[{"type":"text","text":"x"}],"stop_reason":"end_turn","usage":{"input_tokens":10,"cache_creation_input_tokens":500,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":500},"output_tokens":2}}`,
			Prices: claude, Micro: (30 + 3000 + 30) / 2,
		},
	})
}

const conversePath = "/converse"
