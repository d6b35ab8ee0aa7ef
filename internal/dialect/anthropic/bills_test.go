package anthropic

import (
	"testing"

	"llmgw/internal/dialect/dialecttest"
)

const sonnet = "input 3 cached_input 0.3 cache_write 3.75 cache_write_1h 6 output 15 @web_search 0.01 ×fast 6 ×us 1.1 ×priority 1 200000>input 6 200000>output 22.5 "

func TestEachBillIsChargedToTheMicroDollar(t *testing.T) {
	message := func(usage string) string {
		return `{"id":"m","type":"message","model":"claude","content":[{"type":"text","text":"x"}],"stop_reason":"end_turn","usage":` + usage + `}`
	}
	dialecttest.Bills(t, New(), []dialecttest.Bill{
		{
			What:   "writes to both caches",
			Answer: message(`{"input_tokens":50,"cache_creation_input_tokens":3200,"cache_read_input_tokens":12000,"cache_creation":{"ephemeral_5m_input_tokens":3000,"ephemeral_1h_input_tokens":200},"output_tokens":4,"service_tier":"standard","inference_geo":"global"}`),
			Prices: sonnet, Micro: 150 + 3600 + 11250 + 1200 + 60,
		},
		{
			What:   "all writes for an hour, of which no price is known",
			Answer: message(`{"input_tokens":10,"cache_creation_input_tokens":1000,"cache_creation":{"ephemeral_1h_input_tokens":1000},"output_tokens":1}`),
			Prices: "input 3 cache_write 3.75 output 15", Micro: 30 + 3750 + 15, Unpriced: "cache_write_1h",
		},
		{
			What: "a search in a stream, whose counts rise",
			Answer: `event: message_start
data: {"type":"message_start","message":{"id":"m","usage":{"input_tokens":2679,"cache_creation_input_tokens":0,"output_tokens":3,"service_tier":"standard"}}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Found."}}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":10682,"output_tokens":510,"server_tool_use":{"web_search_requests":2,"web_fetch_requests":5}}}

event: message_stop
data: {"type":"message_stop"}

`,
			Prices: sonnet, Micro: 32046 + 7650 + 20_000,
		},
		{
			What: "cache writes of an hour in a stream",
			Answer: `event: message_start
data: {"type":"message_start","message":{"id":"m","usage":{"input_tokens":9,"cache_creation_input_tokens":2000,"cache_creation":{"ephemeral_5m_input_tokens":500,"ephemeral_1h_input_tokens":1500},"output_tokens":1,"speed":"fast"}}}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":20}}

event: message_stop
data: {"type":"message_stop"}

`,
			Prices: sonnet, Micro: 6 * (27 + 1875 + 9000 + 300),
		},
		{What: "fast, in one country", Answer: message(`{"input_tokens":1000,"output_tokens":100,"speed":"fast","inference_geo":"us"}`), Prices: sonnet, Micro: 29_700},
		{What: "priority, which was paid before", Answer: message(`{"input_tokens":1000,"output_tokens":100,"service_tier":"priority"}`), Prices: sonnet, Micro: 4500},
		{What: "fast without a factor", Answer: message(`{"input_tokens":1000,"output_tokens":100,"speed":"fast"}`), Prices: "input 3 output 15", Micro: 4500, Unpriced: "tier fast"},
		{
			What:   "above the bound, by its caches alone",
			Answer: message(`{"input_tokens":1,"cache_read_input_tokens":150000,"cache_creation_input_tokens":50000,"output_tokens":10}`),
			Prices: sonnet, Micro: 6 + 90_000 + 375_000 + 225,
		},
		{
			What:   "passes that the top level leaves out",
			Answer: message(`{"input_tokens":23000,"output_tokens":1000,"iterations":[{"type":"compaction","input_tokens":100000,"output_tokens":3500,"cache_creation_input_tokens":1000,"cache_creation":{"ephemeral_1h_input_tokens":1000}},{"type":"message","input_tokens":23000,"output_tokens":1000}]}`),
			Prices: sonnet, Micro: 369_000 + 6000 + 67_500,
		},
	})
}
