package openai

import (
	"testing"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/dialecttest"
)

func TestEachBillIsChargedToTheMicroDollar(t *testing.T) {
	chat := func(usage, more string) string {
		return `{"id":"c","model":"m","choices":[{"index":0,"message":{"content":"x"},"finish_reason":"stop"}]` + more + `,"usage":` + usage + `}`
	}
	dialecttest.Bills(t, New(), []dialecttest.Bill{
		{
			What:   "sound both ways",
			Answer: chat(`{"prompt_tokens":40,"completion_tokens":96,"total_tokens":136,"prompt_tokens_details":{"cached_tokens":0,"text_tokens":14,"image_tokens":0,"audio_tokens":26},"completion_tokens_details":{"text_tokens":16,"audio_tokens":80}}`, `,"service_tier":"default"`),
			Prices: "input 2.5 output 10 audio_input 32 audio_output 64", Micro: 35 + 832 + 160 + 5120,
		},
		{
			What:   "cache writes",
			Answer: chat(`{"prompt_tokens":4100,"completion_tokens":9,"total_tokens":4109,"prompt_tokens_details":{"cached_tokens":1024,"cache_write_tokens":3000}}`, ""),
			Prices: "input 2 cached_input 0.2 cache_write 2.5 output 12", Micro: 152 + 205 + 7500 + 108,
		},
		{What: "flex", Answer: chat(`{"prompt_tokens":1000,"completion_tokens":100}`, `,"service_tier":"flex"`), Prices: "input 2 output 8 ×flex 0.5 ×priority 1.75", Micro: 1400},
		{What: "fast, which is priority", Answer: chat(`{"prompt_tokens":1000,"completion_tokens":100}`, `,"service_tier":"fast"`), Prices: "input 2 output 8 ×priority 1.75", Micro: 4900},
		{
			What: "priority at the end of a stream",
			Answer: `data: {"id":"c","choices":[{"index":0,"delta":{"content":"x"}}],"service_tier":"priority"}

data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"service_tier":"priority"}

data: {"id":"c","choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":100,"total_tokens":1100},"service_tier":"priority"}

data: [DONE]

`,
			Prices: "input 2 output 8 ×priority 1.75", Micro: 4900,
		},
		{What: "a chat that searches", Member: "web_search_options", Answer: chat(`{"prompt_tokens":1000,"completion_tokens":100}`, ""), Prices: "input 2.5 output 10 @web_search 0.025", Micro: 28_500},
		{What: "no search that OpenAI bills at another provider", Flavor: "groq", Member: "web_search_options", Answer: chat(`{"prompt_tokens":1000,"completion_tokens":100}`, ""), Prices: "input 2.5 output 10 @web_search 0.025", Micro: 3500},
		{
			What: "Perplexity's research", Flavor: "perplexity",
			Answer: chat(`{"prompt_tokens":33,"completion_tokens":11395,"total_tokens":11428,"citation_tokens":19028,"num_search_queries":21,"reasoning_tokens":193947}`, ""),
			Prices: "input 2 output 8 citations 2 reasoning 3 @web_search 0.005", Micro: 66 + 91_160 + 38_056 + 581_841 + 105_000,
		},
		{What: "Perplexity's fee for a request", Flavor: "perplexity", Answer: chat(`{"prompt_tokens":24,"completion_tokens":2681,"total_tokens":2705}`, ""), Prices: "input 3 output 15 @request 0.006", Micro: 72 + 40_215 + 6000},
		{What: "OpenRouter's searches", Flavor: "openrouter", Answer: chat(`{"prompt_tokens":10,"completion_tokens":1,"server_tool_use":{"web_search_requests":2}}`, ""), Prices: "input 1 output 1 @web_search 0.01", Micro: 20_011},
		{What: "xAI's sources, and reasoning that the total has", Flavor: "xai", Answer: chat(`{"prompt_tokens":32,"completion_tokens":9,"total_tokens":269,"completion_tokens_details":{"reasoning_tokens":228},"prompt_tokens_details":{"cached_tokens":6},"num_sources_used":3}`, ""), Prices: "input 2 cached_input 0.5 output 6 @source 0.025", Micro: 52 + 3 + 1422 + 75_000},
		{
			What: "a transcription of sound", Operation: dialect.Transcribe,
			Answer: `{"text":"Hold.","usage":{"type":"tokens","total_tokens":31,"input_tokens":26,"input_token_details":{"text_tokens":0,"audio_tokens":26},"output_tokens":5}}`,
			Prices: "input 2.5 audio_input 6 output 10", Micro: 156 + 50,
		},
		{
			What: "a picture by its tokens", Operation: dialect.Images,
			Answer: `{"data":[{"b64_json":"x"}],"usage":{"total_tokens":2334,"input_tokens":1278,"output_tokens":1056,"input_tokens_details":{"text_tokens":30,"image_tokens":1248}}}`,
			Prices: "input 5 image_input 10 output 40", Micro: 150 + 12_480 + 42_240,
		},
		{What: "pictures by the piece", Operation: dialect.Images, Answer: `{"data":[{"url":"a"},{"url":"b"}]}`, Prices: "input 0 output 0 @image 0.04", Micro: 80_000},
		{What: "pictures by the piece, without a price", Operation: dialect.Images, Answer: `{"data":[{"url":"a"}]}`, Prices: "input 0 output 0", Unpriced: "image"},
	})
}

func TestEachBillOfAResponseIsChargedToTheMicroDollar(t *testing.T) {
	const prices = "input 2 cached_input 0.2 output 8 @web_search 0.01 @file_search 0.0025 @code_interpreter 0.03 ×flex 0.5"
	const items = `{"type":"web_search_call","status":"completed","action":{"type":"search","query":"q"}},{"type":"web_search_call","action":{"type":"open_page"}},` +
		`{"type":"web_search_call"},{"type":"file_search_call"},{"type":"code_interpreter_call","code":"1"},{"type":"message","content":[{"type":"output_text","text":"x"}]}`
	response := func(more string) string {
		return `{"id":"r","status":"completed","output":[` + items + `],"usage":{"input_tokens":1000,"output_tokens":100,"total_tokens":1100}` + more + `}`
	}
	event := func(kind, body string) string {
		return "event: " + kind + "\ndata: {\"type\":\"" + kind + "\"," + body + "}\n\n"
	}
	search := `"item":{"type":"web_search_call","id":"w","action":{"type":"search"}}`
	begun := event("response.created", `"response":{"id":"r","status":"in_progress","output":[],"usage":null}`) +
		event("response.output_item.added", `"item":{"type":"web_search_call","id":"w","status":"in_progress"}`) + event("response.output_item.done", search) +
		event("response.output_item.added", `"item":{"type":"web_search_call","id":"p","status":"in_progress"}`) +
		event("response.output_item.done", `"item":{"action":{"type":"open_page"},"id":"p","type":"web_search_call"}`) +
		event("response.output_item.done", search)
	dialecttest.Bills(t, New(), []dialecttest.Bill{
		{What: "what the provider ran", Operation: dialect.Responses, Answer: response(""), Prices: prices, Micro: 2800 + 20_000 + 2500 + 30_000},
		{What: "what it counted itself", Operation: dialect.Responses, Answer: response(`,"tool_usage":{"web_search":{"num_requests":1}}`), Prices: prices, Micro: 2800 + 10_000 + 2500 + 30_000},
		{What: "flex", Operation: dialect.Responses, Answer: response(`,"service_tier":"flex"`), Prices: prices, Micro: 1400 + 20_000 + 2500 + 30_000},
		{
			What: "a stream, whose end repeats all", Operation: dialect.Responses,
			Answer: begun + event("response.completed", `"response":`+response(`,"service_tier":"flex"`)), Prices: prices, Micro: 1400 + 20_000 + 2500 + 30_000,
		},
		{What: "a stream that was cut", Operation: dialect.Responses, Answer: begun, Prices: prices, Micro: 20_000},
		{What: "no prices of calls", Operation: dialect.Responses, Answer: response(""), Prices: "input 2 output 8", Micro: 2800, Unpriced: "web_search, file_search, code_interpreter"},
		{
			What: "xAI's count", Flavor: "xai", Operation: dialect.Responses,
			Answer: `{"id":"r","status":"completed","output":[],"usage":{"input_tokens":7583,"input_tokens_details":{"cached_tokens":3072},"output_tokens":3192,"total_tokens":10775,"server_side_tool_usage_details":{"web_search_calls":2,"x_search_calls":3}}}`,
			Prices: "input 2 cached_input 0.2 output 6 @web_search 0.005 @x_search 0.005", Micro: 9022 + 615 + 19_152 + 25_000,
		},
	})
}
