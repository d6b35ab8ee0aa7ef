package cohere

import (
	"testing"

	"llmgw/internal/dialect"
	"llmgw/internal/dialect/dialecttest"
)

func TestEachBillIsChargedToTheMicroDollar(t *testing.T) {
	dialecttest.Bills(t, New(), []dialecttest.Bill{
		{
			What:   "what is billed, not what was counted",
			Answer: `{"id":"c","message":{"content":[{"type":"text","text":"x"}]},"finish_reason":"COMPLETE","usage":{"billed_units":{"input_tokens":12,"output_tokens":7},"tokens":{"input_tokens":507,"output_tokens":10}}}`,
			Prices: "input 2.5 output 10", Micro: 100,
		},
		{
			What: "a rerank, by its units of search", Operation: dialect.Rerank,
			Answer: `{"id":"r","results":[],"meta":{"billed_units":{"search_units":3}}}`,
			Prices: "input 0 output 0 @search_unit 0.002", Micro: 6000,
		},
		{
			What: "a rerank without a price", Operation: dialect.Rerank,
			Answer: `{"id":"r","results":[],"meta":{"billed_units":{"search_units":1}}}`,
			Prices: "input 1 output 1", Micro: 0, Unpriced: "search_unit",
		},
	})
}
